"""The agent's page for Prometheus, read by other people's parser and judged by promtool."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from highwater.bench.host_agent.broker_metrics import plain_samples
from highwater.bench.host_agent.exposition import metrics_text
from highwater.common.host_answer import HostAnswer
from tests.common.test_host_answer import ANSWER
from tests.promtool import promtool


def samples(answer: HostAnswer) -> dict[tuple[str, str], float]:
    return {
        (sample.name, ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for metric in text_string_to_metric_families(metrics_text(answer))
        for sample in metric.samples
    }


def test_every_figure_is_there() -> None:
    metrics = {
        "kafka_server_brokertopicmetrics_bytesout_total": 10.0,
        "kafka_server_brokertopicmetrics_replicationbytesout_total": 5.0,
    }
    found = samples(replace(ANSWER, brokers=(replace(ANSWER.brokers[0], metrics=metrics),)))
    assert found["highwater_host_memory_bytes", "kind=dirty"] == 2
    assert found["highwater_host_cpu_seconds_total", "mode=idle"] == 8.5
    assert found["highwater_host_disk_bytes_total", "device=sda,direction=write"] == 2
    assert found["highwater_host_log_resident_bytes", "broker=1,directory=/var/lib/a"] == 2
    assert found["highwater_host_broker_sent_bytes_total", "broker=1"] == 15
    assert found["highwater_host_broker_storage_bytes_total", "broker=1,direction=read"] == 4
    assert found["highwater_host_tuning_drift", "parameter=vm.dirty_ratio,target="] == 1
    assert found["highwater_host_pressure_seconds_total", "kind=some,resource=io"] == 0.5
    assert found["highwater_host_dirty_threshold_bytes", "kind=limit"] == 20


def test_what_is_not_known_has_no_sample() -> None:
    bare = replace(ANSWER, tuning=None, brokers=(replace(ANSWER.brokers[0], metrics=None, read_bytes=None),))
    found = samples(bare)
    assert ("highwater_host_dirty_threshold_bytes", "kind=background") not in found
    assert ("highwater_host_broker_storage_bytes_total", "broker=1,direction=read") not in found
    assert not any(name.startswith(("highwater_host_tuning", "highwater_host_broker_sent")) for name, _ in found)


def test_names_of_anybody_do_not_break_the_page() -> None:
    hostile = replace(ANSWER, host='"\n\\{}', directories=(replace(ANSWER.directories[0], path='/a"b\n# TYPE x'),))
    assert samples(hostile)["highwater_host_log_bytes", 'broker=1,directory=/a"b\n# TYPE x'] == 3


@pytest.mark.slow
def test_promtool_has_nothing_against_it() -> None:
    judged = promtool("check", "metrics", given=metrics_text(ANSWER))
    assert (judged.returncode, judged.stdout + judged.stderr) == (0, "")


def test_samples_without_labels_of_a_broker_s_page() -> None:
    page = '# HELP a b\n# TYPE a gauge\na 1\nb{c="d"} 2\nc NaN\nd 1e3 1700000000\ne\nf x\n\n'
    assert plain_samples(page) == {"a": 1.0, "d": 1000.0}
