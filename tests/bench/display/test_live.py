from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from highwater.bench.display.live import LiveObserver
from highwater.bench.trials.plan import make_plan
from highwater.bench.trials.progress import PlainObserver
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.spark_loadgen.model import Progress
from tests.bench.fakes import MINIMAL

PROGRESS = Progress(
    phase="measure",
    elapsed_s=2.0,
    left_s=1.0,
    offered=100,
    sent=100,
    acked=98,
    received=97,
    failed=0,
    generator_cpu_ratio_max=0.31,
    produce_p99_ns=8_765_000,
    e2e_p99_ns=None,
    produce_p50_ns=2_000_000,
    lag=7,
    outstanding=2,
)


def test_the_live_line_tells_trial_phase_and_time_left() -> None:
    plan = make_plan(specify(parse_document(MINIMAL, "w.yaml"), Path("w.yaml")))
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=110, highlight=False)
    with LiveObserver(console, plan) as live:
        live.run_started(plan, Path("out"), "local[2]")
        live.trial_started(1, plan.trials[0].plan)
        live.step("starting the system")
        live.load(PROGRESS)
        failed = plan.trials[0].plan.model_copy(update={"status": "failed", "error": "[broken] is no markup"})
        live.trial_ended(1, failed, None)
    shown = screen.getvalue()
    assert "tiny: 1 cell × 2 trials on local[2], seed 7" in shown
    assert "trial 1/2  base" in shown
    assert (
        "measure 2/3 s · 98 of 100/s · p50 2 ms p99 8.77 ms · lag 7 · 2 outstanding · generator 31 % of a core" in shown
    )
    assert "left" in shown
    assert "[broken] is no markup" in shown


def test_logs_get_a_line_now_and_then_and_one_per_trial() -> None:
    plan = make_plan(specify(parse_document(MINIMAL, "w.yaml"), Path("w.yaml")))
    log, now_s = io.StringIO(), 0.0
    observer = PlainObserver(log, lambda: now_s)
    observer.run_started(plan, Path("out"), "local[2]")
    observer.trial_started(1, plan.trials[0].plan)
    for _ in range(25):
        now_s += 1.0
        observer.load(PROGRESS)
    twin = plan.trials[0].plan.model_copy(update={"role": "a_a", "status": "skipped", "error": "decided"})
    observer.trial_ended(2, twin, None)
    observer.trial_ended(3, twin, None)  # one line is enough for all trials of a cell that is decided
    lines = log.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("trial 1/2 measure 2/3 s · 98 of 100/s · p50 2 ms p99 8.77 ms · lag 7 · 2 outstanding")
    assert lines[3] == "trial 2/2 base (A/A): skipped; decided"


def test_the_live_line_follows_a_search_beyond_its_expected_length() -> None:
    plan = make_plan(specify(parse_document(MINIMAL, "w.yaml"), Path("w.yaml")))
    screen = io.StringIO()
    with LiveObserver(Console(file=screen, force_terminal=True, width=100, highlight=False), plan) as live:
        for number in range(1, 5):
            live.trial_started(number, plan.trials[0].plan)
            done = plan.trials[0].plan.model_copy(update={"status": "failed" if number < 4 else "skipped"})
            live.trial_ended(number, done, None)
    assert "4/4 base" in screen.getvalue()
