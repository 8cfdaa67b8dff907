from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.bench.display.kafka_lines import KafkaLines
from highwater.bench.runs.runner import Run, Surroundings
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.trials.plan import make_plan
from highwater.bench.trials.stopping import StopRequest
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress, Second
from highwater.tuning.facts import collect
from tests.bench.display.test_live import PROGRESS
from tests.bench.fakes import MINIMAL, FakeClient, FakeLauncher, FakeSystems

# What parsers of kafka-producer-perf-test look for, in its own number formats.
WINDOW = re.compile(
    r"^(\d+) records sent, (\d+\.\d) records/sec \((\d+\.\d\d) MB/sec\), (\d+\.\d) ms avg latency, "
    r"(\d+\.\d) ms max latency\.$"
)
TOTAL = re.compile(
    r"^(\d+) records sent, (\d+\.\d{6}) records/sec \((\d+\.\d\d) MB/sec\), (\d+\.\d\d) ms avg latency, "
    r"(\d+\.\d\d) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th\.$"
)


def seconds(count: int) -> list[Second]:
    """Each with one record more than the one before; two of them timed."""
    return [
        Second(
            sent=100,
            acked=100 + number,
            acked_bytes=1_048_576,
            received=0,
            cpu_ratio_max=None,
            produce_p50_ns=None,
            produce_p99_ns=None,
            e2e_p99_ns=None,
            timed=2,
            service_sum_ns=4_000_000,
            service_max_ns=(3 + number) * 1_000_000,
        )
        for number in range(count)
    ]


class TellingLauncher(FakeLauncher):
    """Tells of the first six measured seconds while the load runs, and of each more than once."""

    def run(
        self,
        plan: LoadPlan,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        may_start: Callable[[], bool] | None = None,
    ) -> LoadResult:
        assert on_progress is not None
        for count in (0, 4, 5, 5, 6):
            on_progress(replace(PROGRESS, measured=seconds(count)))
        return super().run(plan)


@pytest.fixture
def printed(tmp_path: Path) -> tuple[list[str], str]:
    return run(tmp_path, FakeLauncher())


def run(tmp_path: Path, launcher: FakeLauncher) -> tuple[list[str], str]:
    """Lines and complaints of a run of two trials, seven measured seconds each."""
    text = MINIMAL.replace("measure: 2s", "measure: 7s").replace("100B", "1MiB").replace("rate: 100/s", "rate: 40/s")
    text += "validity: {host_cpu_ratio_max: 1.0}\nproducers: {client: {message.max.bytes: 2000000}}\n"
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


def test_a_window_is_printed_when_it_is_over_and_only_then() -> None:
    stream = io.StringIO()
    lines = KafkaLines(stream)
    for count in (0, 4):
        lines.load(replace(PROGRESS, measured=seconds(count)))
    assert stream.getvalue() == ""
    lines.load(replace(PROGRESS, measured=seconds(11)))
    first, second = stream.getvalue().splitlines()
    assert first == "510 records sent, 102.0 records/sec (1.00 MB/sec), 2.0 ms avg latency, 7.0 ms max latency."
    assert WINDOW.match(second)


def test_what_was_printed_meanwhile_is_not_printed_again_at_the_end(tmp_path: Path) -> None:
    lines, complaints = run(tmp_path, TellingLauncher())
    assert complaints == ""
    for window, rest, total in (lines[:3], lines[3:]):
        assert window.startswith("510 records sent")
        assert rest.startswith("80 records sent")
        assert TOTAL.match(total)
