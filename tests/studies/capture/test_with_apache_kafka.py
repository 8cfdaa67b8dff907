"""A topic of Apache Kafka 3.9, captured from the running broker and from its log directory: the same trace."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.bench.workload.trace_directory import read_trace
from highwater.studies.capture.distances import distances
from highwater.studies.commands.capture import app
from tests.pipeline.kafka.brokers import bootstrap_of
from tests.studies.capture.original_load import ORIGINALS, create_topic, send

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.compat]


def call(*arguments: str | Path) -> Result:
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == 0, found.output
    return found


@pytest.mark.timeout(300)
def test_a_log_directory_of_kafka(tmp_path: Path) -> None:
    log_directory = tmp_path / "data" / "broker"
    original = dataclasses.replace(ORIGINALS[0], seconds=5)
    with bootstrap_of("3.9", tmp_path) as bootstrap:
        create_topic(bootstrap, "orders")
        sent = send(bootstrap, "orders", original)
        call("orders", "--bootstrap-servers", bootstrap, "--out", tmp_path / "live")
        # While the broker runs: its active segments have space that is reserved or not flushed.
        call(log_directory, "--topic", "orders", "--out", tmp_path / "running")
    call(log_directory, "--topic", "orders", "--out", tmp_path / "stopped")
    live, running, stopped = (read_trace(tmp_path / name) for name in ("live", "running", "stopped"))
    for trace in (live, running, stopped):
        assert trace.manifest.records == sent
        assert trace.arrivals.tolist() == live.arrivals.tolist()
        assert trace.distributions.batches == live.distributions.batches
        assert trace.distributions.partitions == live.distributions.partitions
        assert [each.name for each in distances(live, trace) if not each.within] == []
        # librdkafka sends a batch as it is where compression makes it no smaller.
        assert {"lz4"} <= trace.distributions.codecs.keys() <= {"lz4", "none"}
        assert trace.distributions.producers.with_id == original.producers
