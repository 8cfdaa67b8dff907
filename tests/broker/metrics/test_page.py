"""The page of metrics, read by Prometheus' own parser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from highwater.broker.counters import BOUNDS_MS, Histogram, ZooKeeperCounters
from highwater.broker.metrics.cluster_page import cluster_page, zookeeper_page
from highwater.broker.metrics.exposition import family, histogram_family
from highwater.broker.metrics.page import LINES_PER_PIECE, page
from highwater.broker.server.process_metrics import ProcessMetrics
from tests.broker.handlers.harness import NodeHarness, a_member, one_batch


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found: dict[Any, float] = {}
    for metric in text_string_to_metric_families(text):
        assert metric.type != "unknown", metric.name
        for sample in metric.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def test_the_page_of_a_node(node: NodeHarness) -> None:
    node.create_topic("t", 2)
    batch = one_batch(b"a", b"b")
    node.produce_records("t", batch)
    node.fetch("t", 0)
    node.fetch("t", 2, max_wait=1000)
    found = samples("".join(page(node.node)))
    topic = (("topic", "t"),)
    log = (("partition", "0"), ("topic", "t"))
    assert found["kafka_server_brokertopicmetrics_messagesin_total", topic] == 2
    assert found["kafka_server_brokertopicmetrics_messagesin_total", ()] == 2
    assert found["kafka_server_brokertopicmetrics_bytesin_total", topic] == len(batch)
    assert found["kafka_server_brokertopicmetrics_bytesout_total", topic] == len(batch)
    assert found["kafka_network_requestmetrics_requests_total", (("request", "Produce"), ("version", "9"))] == 1
    assert found["kafka_network_requestmetrics_totaltimems_count", (("request", "Fetch"),)] == 1
    assert found["kafka_network_requestmetrics_localtimems_count", (("request", "Fetch"),)] == 2
    assert found["kafka_server_delayedoperationpurgatory_purgatorysize", (("delayedoperation", "Fetch"),)] == 1
    assert found["kafka_server_replicamanager_partitioncount", ()] == 2
    assert found["kafka_log_log_size", log] == len(batch)
    assert found["kafka_log_log_logendoffset", log] == 2
    assert found["kafka_log_log_numlogsegments", log] == 1


def whole_page(node: NodeHarness) -> str:
    """The page of a broker in a cluster, with all its metrics."""
    node.create_topic("t")
    node.produce("t", b"a")
    node.produce("t", b"a", acks=7)
    member = a_member(node.node, node.node.storage).parts
    of_a_cluster = "".join(cluster_page(node.node, member)) + zookeeper_page(ZooKeeperCounters())
    return "".join(page(node.node)) + of_a_cluster + ProcessMetrics().render()


def names_of(page_text: str) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+)", page_text, re.MULTILINE))


def test_the_documentation_names_every_metric(node: NodeHarness) -> None:
    served = names_of(whole_page(node))
    documented = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    assert served == set(re.findall(r"`((?:kafka|highwater|process|python)_[a-z_]+)`", documented))


def test_every_request_in_the_table_has_kafkas_name(node: NodeHarness) -> None:
    names = {counters.name for counters in node.node.counters.requests.values()}
    assert {"Produce", "ListOffsets", "OffsetForLeaderEpoch", "ApiVersions", "AlterClientQuotas"} <= names


def test_a_page_of_many_partitions_comes_in_pieces(make_node: Callable[..., NodeHarness]) -> None:
    node = make_node()
    count = LINES_PER_PIECE + 10
    node.create_topic("many", count)
    pieces = list(page(node.node))
    assert max(piece.count("\n") for piece in pieces) <= LINES_PER_PIECE + 2
    found = samples("".join(pieces))
    assert sum(name == "kafka_log_log_size" for name, _ in found) == count


def test_partitions_deleted_while_the_page_is_read(node: NodeHarness) -> None:
    node.create_topic("t")
    pieces = page(node.node)
    first = next(pieces)
    assert node.topics.delete("t") is None
    samples(first + "".join(pieces))


def test_labels_are_escaped() -> None:
    text = family("x_total", "counter", "An x.", [({"who": 'a"b\\c\nd'}, 1)])
    assert samples(text) == {("x_total", (("who", 'a"b\\c\nd'),)): 1}


def test_no_family_without_samples() -> None:
    assert family("x", "gauge", "An x.", []) == ""
    assert histogram_family("x", "An x.", []) == ""


@pytest.mark.parametrize(("duration_ms", "le"), [(0, "0.025"), (1, "1"), (1.0001, "2.5"), (10**6, "+Inf")])
def test_a_duration_is_in_the_first_bucket_that_holds_it(duration_ms: float, le: str) -> None:
    histogram = Histogram()
    histogram.observe(int(duration_ms * 1_000_000))
    found = samples(histogram_family("x", "An x.", [({}, histogram)]))
    buckets = [
        value for (name, labels), value in found.items() if name == "x_bucket" and float(labels[0][1]) >= float(le)
    ]
    below = [value for (name, labels), value in found.items() if name == "x_bucket" and float(labels[0][1]) < float(le)]
    assert set(buckets) == {1}
    assert set(below) <= {0}
    assert len(buckets) + len(below) == len(BOUNDS_MS) + 1
    assert found["x_sum", ()] == pytest.approx(duration_ms)


def test_the_process_is_told() -> None:
    found = samples(ProcessMetrics().render())
    assert found["process_resident_memory_bytes", ()] > 1_000_000
    assert found["process_open_fds", ()] >= 3
    assert ("python_gc_collections_total", (("generation", "2"),)) in found
