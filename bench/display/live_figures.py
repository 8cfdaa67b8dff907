"""Writes the live figures of a run into its directory, for the page of `--watch`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from highwater.bench.display.following import FollowingObserver
from highwater.bench.telemetry.publishing import THIS_HOST, Sampled
from highwater.bench.trials.plan import Plan
from highwater.bench.trials.progress import Observer
from highwater.common.live_figures import Chart, LiveFigures
from highwater.common.page_process import PageProcess
from highwater.common.units import count_text, duration_ns_text, percent_text, rate_text, size_text, wait_text
from highwater.results.analysis.next_step import resume_command
from highwater.results.host import HostSample
from highwater.results.models import TrialPlan, TrialSummary
from highwater.results.reader import RunResult
from highwater.spark_loadgen.model import Progress

CHARTS: Final = (
    Chart("rate", "Records", "/s", ["acknowledged", "received"], reference="offered"),
    Chart("latency", "Latency", "ms", ["produce p99", "produce p50", "end-to-end p99"], is_log=True, is_peak=True),
    Chart("lag", "Lag of consumers, records", "", ["lag"], is_peak=True),
    Chart("cpu", "CPU, of all processors", "%", ["this host", "system under test", "load", "busiest broker host"]),
    Chart("disk", "Disks of the log", "B/s", ["written", "read"]),
)
_NS_PER_MS: Final = 1e6
# A quiet host has less: `plan --measure` bears no more either.
_OTHER_WORK_RATIO: Final = 0.1


class LiveFiguresObserver(FollowingObserver):
    """Passes all that it hears on to `inner`, which prints it. page: serves what is written here."""

    def __init__(self, plan: Plan, inner: Observer, page: PageProcess | None = None) -> None:
        super().__init__(plan)
        self._inner = inner
        self._page = page
        self._live: LiveFigures | None = None
        self._hosts: Mapping[str, Sampled] = {}
        self._positions: dict[str, int] = {}
        self._is_in_load = False
        self._other_work = ""

    def __enter__(self) -> LiveFiguresObserver:
        self._inner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.finish("The run has ended.")
        self._inner.__exit__(*_)
        if self._page is not None:
            self._page.finish()

    @property
    def process_ids(self) -> tuple[int, ...]:
        return () if self._page is None else self._page.process_ids

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        super().run_started(plan, out, master)
        self._inner.run_started(plan, out, master)
        self._live = LiveFigures(
            out, plan.specification.workload.name, CHARTS, resume_command(RunResult(out).manifest, str(out))
        )
        if self._page is not None:
            self._page.start(out)

    def trial_started(self, number: int, trial: TrialPlan) -> None:
        super().trial_started(number, trial)
        self._inner.trial_started(number, trial)
        self._say()

    def step(self, text: str) -> None:
        self._load_ended()
        super().step(text)
        self._inner.step(text)
        self._say()

    def hosts_sampled(self, hosts: Mapping[str, Sampled]) -> None:
        self._inner.hosts_sampled(hosts)
        self._hosts, self._positions = hosts, {}

    def load(self, progress: Progress) -> None:
        super().load(progress)
        self._inner.load(progress)
        # Before the first report of the load tasks all counts are 0.
        if self._live is None or progress.t0_ns is None or progress.generator_cpu_ratio_max is None:
            return
        if not self._is_in_load and self.trial is not None:
            self._is_in_load = True
            self._live.begin(f"{self.number} {self.trial.cell}")
        samples = self._newest_samples(progress.t0_ns / 1e9)
        if THIS_HOST in samples:
            self._other_work = other_work_words(samples[THIS_HOST])
        self._live.figures(figures_of_load(progress) | figures_of_hosts(samples), self.sentence())

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        self._load_ended()
        super().trial_ended(number, trial, summary)
        self._inner.trial_ended(number, trial, summary)

    def sentence(self) -> str:
        """`Trial 4 of 12 (acks=all): 84 MiB/s, p99 6.1 ms; about 3 min left.`"""
        left = f"about {wait_text(max(1, round(self.left_s)))} left"
        now = self.step_text if self.progress is None else load_words(self.progress)
        if self.trial is None:
            return f"{now[:1].upper()}{now[1:]}; {left}."
        cell = f"{self.trial.cell}, A/A" if self.trial.role == "a_a" else self.trial.cell
        return f"Trial {self.number} of {self.trials} ({cell}): {now or 'begins'}{self._other_work}; {left}."

    def _say(self) -> None:
        if self._live is not None:
            self._live.say(self.sentence())

    def _load_ended(self) -> None:
        if self._live is not None and self._is_in_load:
            self._live.end()
        self._is_in_load = False

    def _newest_samples(self, t0_monotonic_s: float) -> dict[str, HostSample]:
        newest = {}
        for name, host in self._hosts.items():
            samples, self._positions[name] = host.samples_from(self._positions.get(name, 0), t0_monotonic_s)
            if samples:
                newest[name] = samples[-1]
        return newest


def load_words(progress: Progress) -> str:
    """How a load stands: `84 MiB/s, p99 6.1 ms`."""
    if progress.phase == "start":
        return "load tasks agree on a start"
    lag = f", lag {count_text(progress.lag)}" if progress.lag else ""
    if progress.phase == "drain":
        return f"the load is over, consumers read the rest{lag}"
    rate = f"{size_text(progress.acked_bytes)}/s" if progress.acked_bytes else rate_text(progress.acked)
    p99 = "" if progress.produce_p99_ns is None else f", p99 {duration_ns_text(progress.produce_p99_ns)}"
    failed = f", {count_text(progress.failed)} failed" if progress.failed else ""
    return f"{'warm-up, ' if progress.phase == 'warmup' else ''}{rate}{p99}{lag}{failed}"


def other_work_words(here: HostSample) -> str:
    """What else keeps this host busy, so that trials may be no measurements; empty if it is quiet."""
    ratio = (here.other_cpu_ratio or 0.0) / (os.cpu_count() or 1)
    return f"; other work takes {percent_text(ratio)} of this host's CPU" if ratio > _OTHER_WORK_RATIO else ""


def figures_of_load(progress: Progress) -> dict[str, float | None]:
    is_read = progress.received or progress.lag
    return {
        "rate.acknowledged": progress.acked,
        "rate.received": progress.received if is_read else None,
        "rate.offered": progress.offered,
        "latency.produce p99": _ms(progress.produce_p99_ns),
        "latency.produce p50": _ms(progress.produce_p50_ns),
        "latency.end-to-end p99": _ms(progress.e2e_p99_ns),
        "lag.lag": progress.lag if is_read else None,
    }


def figures_of_hosts(samples: Mapping[str, HostSample]) -> dict[str, float | None]:
    """samples: the newest one of each host. Of a cluster elsewhere the disks of its hosts count."""
    brokers = [sample for name, sample in samples.items() if name != THIS_HOST]
    here = samples.get(THIS_HOST)
    processors = os.cpu_count() or 1
    figures: dict[str, float | None] = {
        "cpu.busiest broker host": max((100 * sample.cpu_ratio for sample in brokers), default=None)
    }
    if here is not None:
        figures["cpu.this host"] = 100 * here.cpu_ratio
        figures["cpu.system under test"] = _percent(here.system_cpu_ratio, processors)
        figures["cpu.load"] = _percent(here.generator_cpu_ratio, processors)
    disks = brokers or ([here] if here is not None else [])
    for line, values in (
        ("disk.written", [sample.disk_write_bytes for sample in disks]),
        ("disk.read", [sample.disk_read_bytes for sample in disks]),
    ):
        known = [value for value in values if value is not None]
        figures[line] = sum(known) if known else None
    return figures


def _ms(duration_ns: float | None) -> float | None:
    return None if duration_ns is None else duration_ns / _NS_PER_MS


def _percent(cores: float | None, processors: int) -> float | None:
    return None if cores is None else 100 * cores / processors
