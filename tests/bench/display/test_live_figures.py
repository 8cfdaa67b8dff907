"""What a run writes for its live page: sentences, figures of load and hosts, trials as bands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.bench.display.live_figures import (
    CHARTS,
    LiveFiguresObserver,
    figures_of_hosts,
    figures_of_load,
    load_words,
    other_work_words,
)
from highwater.bench.telemetry.publishing import THIS_HOST
from highwater.bench.trials.plan import Plan, make_plan
from highwater.bench.trials.progress import Observer
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.common.live_figures import LiveLines
from highwater.results.host import HostSample
from highwater.spark_loadgen.model import Progress
from tests.bench.display.test_live import PROGRESS
from tests.bench.fakes import MINIMAL
from tests.results.analysis.runs import run_of


def sample(**known: float) -> HostSample:
    fields: dict[str, Any] = dict.fromkeys(HostSample.model_fields)
    return HostSample.model_validate(fields | {"second": 0, "cpu_ratio": 0.0} | known)


def names_of_charts() -> set[str]:
    return {f"{chart.name}.{line}" for chart in CHARTS for line in (*chart.lines, chart.reference) if line}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "98/s, p99 8.77 ms, lag 7"),
        ({"acked_bytes": 88 << 20, "lag": 0, "failed": 1200}, "88 MiB/s, p99 8.77 ms, 1,200 failed"),
        ({"phase": "warmup", "lag": 0, "produce_p99_ns": None}, "warm-up, 98/s"),
        ({"phase": "drain"}, "the load is over, consumers read the rest, lag 7"),
        ({"phase": "start"}, "load tasks agree on a start"),
    ],
)
def test_a_load_in_words(changed: Mapping[str, Any], words: str) -> None:
    assert load_words(replace(PROGRESS, **changed)) == words


def test_each_figure_belongs_to_a_chart_and_what_nobody_reads_has_no_lag() -> None:
    figures = figures_of_load(PROGRESS) | figures_of_hosts({THIS_HOST: sample(), "b1": sample(cpu_ratio=0.5)})
    assert set(figures) == names_of_charts()
    unread = figures_of_load(replace(PROGRESS, received=0, lag=0))
    assert (unread["lag.lag"], unread["rate.received"]) == (None, None)


def test_of_a_cluster_elsewhere_the_busiest_host_and_the_disks_of_all_count() -> None:
    here = sample(cpu_ratio=0.2, disk_write_bytes=7)
    alone = figures_of_hosts({THIS_HOST: here})
    assert (alone["cpu.this host"], alone["disk.written"], alone["cpu.busiest broker host"]) == (20.0, 7, None)
    brokers = {"b1": sample(cpu_ratio=0.5, disk_write_bytes=100), "b2": sample(cpu_ratio=0.9, disk_write_bytes=20)}
    figures = figures_of_hosts({THIS_HOST: here, **brokers})
    assert (figures["cpu.busiest broker host"], figures["disk.written"], figures["disk.read"]) == (90.0, 120, None)


def test_a_host_that_is_busy_with_other_work_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert other_work_words(sample(other_cpu_ratio=1.86)) == "; other work takes 93 % of this host's CPU"
    assert other_work_words(sample(other_cpu_ratio=0.2)) == other_work_words(sample()) == ""


class Heard(Observer):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def __enter__(self) -> Observer:
        self.calls.append("enter")
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append("exit")

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        self.calls.append("run_started")

    def step(self, text: str) -> None:
        self.calls.append(text)

    def load(self, progress: Progress) -> None:
        self.calls.append(progress.phase)


class Host:
    def samples_from(self, position: int, t0_monotonic_s: float) -> tuple[list[HostSample], int]:
        return [sample(cpu_ratio=0.25)], position + 1


def test_a_run_is_written_as_it_goes_and_passed_on(tmp_path: Path) -> None:
    plan = make_plan(specify(parse_document(MINIMAL, "w.yaml"), Path("w.yaml")))
    heard = Heard()
    with LiveFiguresObserver(plan, heard) as observer:
        observer.step("nobody reads that yet")
        observer.run_started(plan, run_of(tmp_path, []).directory, "local[2]")
        reader = LiveLines(tmp_path)
        observer.trial_started(1, plan.trials[0].plan)
        observer.hosts_sampled({THIS_HOST: Host()})
        observer.load(replace(PROGRESS, phase="warmup", t0_ns=1, generator_cpu_ratio_max=None))
        observer.load(replace(PROGRESS, t0_ns=1))
        observer.step("counting")
        observer.trial_ended(1, plan.trials[0].plan, None)
        lines = reader.read() or []
    assert heard.calls == ["enter", "nobody reads that yet", "run_started", "warmup", "measure", "counting", "exit"]
    assert [set(line) - {"at"} for line in lines] == [
        {"title", "again", "charts"},
        {"now"},
        {"begin"},
        {"now", "figures"},
        {"end"},
        {"now"},
    ]
    assert lines[0]["again"] == (f"highwater bench run w.yaml --launcher process --trials 3 --resume {tmp_path}"), (
        "who finds the run dead can go on"
    )
    assert lines[2]["begin"] == "1 base"
    assert lines[3]["now"].startswith("Trial 1 of 2 (base): 98/s, p99 8.77 ms, lag 7; about ")
    assert lines[3]["figures"]["cpu.this host"] == 25.0
    assert lines[5]["now"].startswith("Trial 1 of 2 (base): counting; about ")
    assert [line["finished"] for line in reader.read() or []] == ["The run has ended."]
