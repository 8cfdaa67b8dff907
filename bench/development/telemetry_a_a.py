"""Compares a load with live figures, without, and with a pipeline of them that is killed.

    python -m highwater.bench.development.telemetry_a_a --rounds 7 [--job]

Each round measures one trial of each arm, in random order: `off` publishes nothing, `on` publishes to a control broker,
`killed` too, and its control broker gets SIGKILL in the middle of the measurement. With `--job` the Spark job of live
figures runs on this host as well, and is killed with the broker; it belongs on another host, where it takes nothing
from the load. While `off` runs, the broker and the job are stopped (SIGSTOP).

Printed are the change of the broker's CPU time per GiB and of latencies against `off`, paired by round, with 95 %
intervals, and what every trial lost. Exit status 1: a trial lost records, sent none, or is not valid.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from highwater.bench.analysis.statistics import paired_ratio_ci
from highwater.bench.development.telemetry_processes import Process, control_broker, live_job, send
from highwater.bench.metrics import METRICS, value_text
from highwater.bench.results import RunResult, TrialSummary
from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.telemetry.reading import sums_in_one_process
from highwater.common.units import change_text

_ARMS: Final = ("off", "on", "killed")
_METRICS: Final = ("system.cpu_s_per_gib", "produce.p50", "produce.p99", "e2e.p99", "produce.achieved_per_s")
_WARMUP_S: Final = 2
_LOOK_S: Final = 0.2
_WORKLOAD: Final = """\
schema: bench.workload/1
name: telemetry-a-a
topics: {{partitions: 2}}
producers: {{count: 2, client: {{acks: all, linger.ms: 5}}}}
consumers: {{groups: 1, per_group: 2}}
records: {{size: 1KiB}}
load: {{rate: {rate}/s}}
phases: {{warmup: {warmup}s, measure: {measure}s, drain: 10s}}
trials: {{n: 1, seed: 7}}
storage: {{probe: false, drop_caches: never}}
validity: {{send_delay_p99: 10s, achieved_ratio_min: 0.9, generator_cpu_ratio_max: 1.0, host_cpu_ratio_max: 1.0,
  drift_ratio_max: 1000.0}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--measure-s", type=int, default=12)
    parser.add_argument("--rate", type=int, default=6000, help="records of 1 KiB a second")
    parser.add_argument("--job", action="store_true", help="run the Spark job on this host too")
    options = parser.parse_args()
    trials: dict[str, list[TrialSummary]] = {arm: [] for arm in _ARMS}
    chooser = random.Random(7)
    with tempfile.TemporaryDirectory(prefix="highwater-telemetry-a-a-") as scratch:
        folder = Path(scratch)
        workload = folder / "workload.yaml"
        workload.write_text(_WORKLOAD.format(rate=options.rate, warmup=_WARMUP_S, measure=options.measure_s))
        for number in range(options.rounds):
            for arm in chooser.sample(_ARMS, len(_ARMS)):
                place = folder / f"{number}-{arm}"
                place.mkdir()
                trials[arm].append(_measured(arm, workload, place, options.measure_s, job=options.job))
                sys.stderr.write(f"round {number + 1} of {options.rounds}: {arm}\n")
    for line in _page(trials):
        sys.stdout.write(line + "\n")
    raise SystemExit(1 if any(map(_faults, (trial for found in trials.values() for trial in found))) else 0)


def _measured(arm: str, workload: Path, place: Path, measure_s: int, *, job: bool) -> TrialSummary:
    """One trial, with a pipeline of its own: nothing that a kill leaves behind is in the next one."""
    with _pipeline(place, job=job) as (processes, address):
        command = [sys.executable, "-m", "highwater", "bench", "run", str(workload), "--launcher", "process", "--quiet"]
        command += ["--out", str(place / "out"), *([] if arm == "off" else ["--telemetry", address])]
        if arm == "off":
            for process in processes:
                send(process, signal.SIGSTOP)
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with ThreadPoolExecutor(1) as pool:
            kill = pool.submit(_kill, address, processes, measure_s, run) if arm == "killed" else None
            text, _ = run.communicate()
        if kill is not None and not kill.result():
            raise SystemExit(f"{arm}: the run ended with {run.returncode} before its pipeline was killed: {text}")
        try:
            (trial,) = RunResult(place / "out").trials
        except ValueError:
            raise SystemExit(f"{arm}: the run ended with {run.returncode} and without a trial: {text}") from None
        return trial.summary


@contextmanager
def _pipeline(place: Path, *, job: bool) -> Iterator[tuple[list[Process], str]]:
    with ExitStack() as stack:
        broker, address = stack.enter_context(control_broker(place / "log"))
        processes: list[Process] = [broker]
        if job:
            processes.append(stack.enter_context(live_job(address, place / "state", place / "job.log")))
        yield processes, address


def _kill(address: str, processes: Sequence[Process], measure_s: int, run: Process) -> bool:
    """Kill the pipeline in the middle of the measured phase. Returns whether the load went on after that."""
    while not _publishes(address):
        if run.poll() is not None:
            return False
        time.sleep(_LOOK_S)
    time.sleep(_WARMUP_S + measure_s / 2 - 1)
    for process in processes:
        send(process, signal.SIGKILL)
    return run.poll() is None


def _publishes(address: str) -> bool:
    """Whether the load has told its first second."""
    trials = sums_in_one_process(ControlTopic(address)).trials.values()
    return any(trial.trial is not None and trial.seconds > 0 for trial in trials)


def _faults(summary: TrialSummary) -> list[str]:
    delivery = summary.delivery
    found = [f"{name} {count}" for name in ("lost", "failed", "duplicated") if (count := getattr(delivery, name))]
    found += [] if delivery.sent else ["no record sent"]
    return found + ([summary.verdict.state] if summary.verdict.state == "invalid" else [])


def _page(trials: dict[str, list[TrialSummary]]) -> Iterator[str]:
    yield "| | off | on | against off (95 %) | killed | against off (95 %) |"
    yield "|---|---|---|---|---|---|"
    for name in _METRICS:
        values = {arm: [METRICS[name].read(trial) for trial in found] for arm, found in trials.items()}
        known = {arm: [float(value) for value in found if value is not None] for arm, found in values.items()}
        if any(len(found) != len(trials["off"]) for found in known.values()):
            yield f"| {name} | not known for every trial |"
            continue
        shown = [f"{value_text(sorted(found)[len(found) // 2], METRICS[name].unit)}" for found in known.values()]
        changes = [_change(known["off"], known[arm]) for arm in _ARMS[1:]]
        yield f"| {name} | {shown[0]} | {shown[1]} | {changes[0]} | {shown[2]} | {changes[1]} |"
    yield ""
    for arm, found in trials.items():
        faults = [fault for trial in found for fault in _faults(trial)]
        sent = sum(trial.delivery.sent for trial in found)
        use = [trial.generator.telemetry for trial in found if trial.generator.telemetry is not None]
        told = f"{sum(one.messages for one in use)} messages published, {sum(one.unsent for one in use)} unsent"
        yield f"{arm}: {len(found)} trials, {sent} records sent; {', '.join(faults) or 'none lost, none invalid'}"
        yield f"  {told if use else 'nothing published'}"


def _change(off: list[float], other: list[float]) -> str:
    estimate = paired_ratio_ci(off, other)
    if estimate is None:
        return "–"
    interval = (
        f" ({change_text(estimate.low)} to {change_text(estimate.high)})" if estimate.low and estimate.high else ""
    )
    return change_text(estimate.ratio) + interval


if __name__ == "__main__":
    main()
