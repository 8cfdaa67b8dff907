from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from bench.display.kafka_lines import KafkaLines
from bench.results import ResultWriter, RunResult
from bench.runs.runner import Run, Surroundings
from bench.storage import StorageAreas
from bench.trials.plan import make_plan
from bench.trials.stopping import StopRequest
from bench.workload.specification import specify
from bench.workload.yaml_document import parse_document
from tests.bench.fakes import MINIMAL, FakeClient, FakeLauncher, FakeSystems
from tuning.facts import collect

# What parsers of kafka-producer-perf-test look for, in its own number formats.
WINDOW = re.compile(
    r"^(\d+) records sent, (\d+\.\d) records/sec \((\d+\.\d\d) MB/sec\), (\d+\.\d) ms avg latency, "
    r"(\d+\.\d) ms max latency\.$"
)
TOTAL = re.compile(
    r"^(\d+) records sent, (\d+\.\d{6}) records/sec \((\d+\.\d\d) MB/sec\), (\d+\.\d\d) ms avg latency, "
    r"(\d+\.\d\d) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th\.$"
)


@pytest.fixture
def printed(tmp_path: Path) -> tuple[list[str], str]:
    """Lines and complaints of a run of two trials, seven measured seconds each."""
    text = MINIMAL.replace("measure: 2s", "measure: 7s").replace("100B", "1MiB").replace("rate: 100/s", "rate: 40/s")
    text += "validity: {host_cpu_ratio_max: 1.0}\nproducers: {client: {message.max.bytes: 2000000}}\n"
    launcher = FakeLauncher()
    lines, complaints = io.StringIO(), io.StringIO()
    with StorageAreas() as areas:
        areas.add("temporary", tmp_path, 0)
        Run(
            make_plan(specify(parse_document(text, "w.yaml"), tmp_path / "w.yaml")),
            Surroundings(["highwater"], tmp_path),
            ResultWriter(tmp_path / "out"),
            launcher,
            collect(),
            areas,
            KafkaLines(lines, complaints),
            StopRequest(),
            start=FakeSystems(),
            connect=FakeClient(launcher),
        ).execute()
    assert len(RunResult(tmp_path / "out").trials) == 2
    return lines.getvalue().splitlines(), complaints.getvalue()


def test_the_lines_are_kafkas(printed: tuple[list[str], str]) -> None:
    lines, complaints = printed
    assert complaints == ""
    assert len(lines) == 6  # of each trial two windows and the total
    for line in (*lines[:2], *lines[3:5]):
        assert WINDOW.match(line), line
    for line in (lines[2], lines[5]):
        assert TOTAL.match(line), line


def test_the_figures_are_of_the_measured_phase_in_mib_and_of_the_service(printed: tuple[list[str], str]) -> None:
    window, rest, total = (line for line in printed[0][:3])
    assert window == "200 records sent, 40.0 records/sec (40.00 MB/sec), 1.0 ms avg latency, 1.0 ms max latency."
    assert rest.startswith("80 records sent, 40.0 records/sec (40.00 MB/sec)")
    assert total.startswith("280 records sent, 40.000000 records/sec (40.00 MB/sec), 1.01 ms avg latency, 1.01 ms max")
    assert total.endswith("1 ms 50th, 1 ms 95th, 1 ms 99th, 1 ms 99.9th.")
