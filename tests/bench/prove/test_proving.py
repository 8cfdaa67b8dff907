"""From subjects to runs, from a run's result directory to proofs, with a stand-in for what runs trials."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from highwater.bench.prove import loads
from highwater.bench.prove.proving import AS_IT_IS, duration_s, make_rounds, proofs_of_run, prove, until
from highwater.bench.prove.subjects import Change, Subject
from highwater.bench.runs.agenda import FinishedCells
from highwater.bench.trials.plan import Plan, PlannedTrial
from highwater.bench.workload.specification import load_specification
from highwater.common.errors import UsageError
from highwater.results.models import Manifest, RunStatus, TrialSummary
from highwater.results.reader import RunResult
from highwater.tuning.catalogue import KNOBS, find_knob
from tests.bench.made_up_runs import make_up
from tests.bench.summaries import summary


def subject(knob: str, off: str | None, on: str | None) -> Subject:
    return Subject((Change(find_knob(knob), off, on, off or "as it is", on or "as it is"),))


SWAPPINESS = subject("vm.swappiness", None, "1")
BACKGROUND = subject("vm.dirty_background_bytes", None, "64MiB")
SOMAXCONN = subject("net.core.somaxconn", "128", None)
READ_AHEAD = subject("disk.read_ahead_kb", "64", "4096")


class Runner:
    """Writes a result directory of a plan; trials with `slow` in force take half as long again."""

    def __init__(self, slow: str = "", status: RunStatus = "done") -> None:
        self.slow = slow
        self.status: RunStatus = status
        self.directories: list[Path] = []

    def __call__(self, plan: Plan, out: Path, finished_cells: FinishedCells | None) -> Manifest:
        self.directories.append(out)
        chance = random.Random(1)

        def measure(planned: PlannedTrial) -> TrialSummary:
            settings = planned.cell.workload.host.settings
            return summary(
                planned.plan.block,
                planned.plan.factors,
                p99_ns=round((6e6 if self.slow in settings else 4e6) * (1 + chance.gauss(0, 0.01))),
                role=planned.plan.role,
                trial_id=planned.plan.trial_id,
                durability_trades=["commit=60 on /data: 60 s"] if settings else [],
            )

        return make_up(plan, out, finished_cells, measure, self.status)


def test_every_knob_has_a_load_and_every_load_loads() -> None:
    assert {loads.load_for(Subject((Change(knob, None, "1", "", ""),))) for knob in KNOBS} == set(loads.LOADS)
    for name in loads.LOADS:
        workload = load_specification(loads.load_file(name)).workload
        assert workload.name == name
        assert not workload.variants
        assert not workload.matrix


def test_subjects_of_one_load_share_the_host_as_it_is(tmp_path: Path) -> None:
    writes, connections = make_rounds([SWAPPINESS, SOMAXCONN, BACKGROUND], tmp_path, 8, seed=1)
    assert (writes.load, connections.load) == (loads.WRITES, loads.CONNECTIONS)
    workloads = {cell.factors["variant"]: cell.workload for cell in writes.plan.specification.cells}
    assert list(workloads) == [AS_IT_IS, "vm.swappiness=1", "vm.dirty_background_bytes=64MiB"]
    assert workloads[AS_IT_IS].host.is_left_alone
    assert workloads["vm.swappiness=1"].host.settings == {"vm.swappiness": "1"}
    assert {workload.storage.target for workload in workloads.values()} == {"proved"}
    assert [(item.off, item.on) for item in connections.sides] == [("net.core.somaxconn=128", AS_IT_IS)]
    assert len(writes.plan.trials) == 8 * 4, "a twin in each block"
    assert writes.pairs == 8


def test_values_that_read_the_same_are_variants_of_their_own() -> None:
    texts = [str((1 << 30) + extra) for extra in (0, 1)]
    found = [Subject((Change(find_knob("vm.dirty_bytes"), None, text, "as it is", "1 GiB"),)) for text in texts]
    (writes,) = make_rounds([*found, found[0]], None, 5, seed=1)
    assert [item.on for item in writes.sides] == [
        "vm.dirty_bytes=1GiB",
        f"vm.dirty_bytes={texts[1]}",
        "vm.dirty_bytes=1GiB",
    ]
    settings = {cell.factors["variant"]: cell.workload.host.settings for cell in writes.plan.specification.cells}
    assert settings["vm.dirty_bytes=1GiB"] == {"vm.dirty_bytes": texts[0]}


def test_where_nothing_is_measured_as_it_is_no_trial_is_spent_on_it() -> None:
    (reads,) = make_rounds([READ_AHEAD], None, 5, seed=1)
    assert [cell.factors["variant"] for cell in reads.plan.specification.cells] == [
        "disk.read_ahead_kb=64",
        "disk.read_ahead_kb=4096",
    ]


def test_minutes_are_as_many_pairs_as_fit_or_too_few_and_then_one_line() -> None:
    subjects = [SWAPPINESS, SOMAXCONN, READ_AHEAD]
    rounds = make_rounds(subjects, None, 8, minutes=25, seed=1)
    assert len({item.pairs for item in rounds}) == 1
    assert 5 <= rounds[0].pairs <= 30
    assert 20 * 60 < duration_s(rounds) <= 25 * 60 or rounds[0].pairs == 30
    with pytest.raises(
        UsageError, match=r"^--minutes 1: 5 pairs of each are the least .* give more, or name fewer knobs$"
    ):
        make_rounds(subjects, None, 8, minutes=1, seed=1)


def test_the_time_ends_a_round_between_blocks_and_never_before_it_can_say_something() -> None:
    over = until(10.0, now=lambda: 11.0)
    assert over([summary(block) for block in range(1, 5)]) == {}
    assert over([summary(block) for block in range(1, 6)]) == {"base": "the time was over after 5 blocks"}
    assert until(10.0, now=lambda: 9.0)([summary(block) for block in range(1, 9)]) == {}


def test_a_workload_with_cells_of_its_own_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(loads.load_file(loads.CPU).read_text() + "matrix: {consumers.groups: [0, 1]}\n")
    with pytest.raises(UsageError, match=r"has cells of its own \(variants, matrix\)"):
        make_rounds([SWAPPINESS], None, 5, workload_file=path)


def test_what_was_proved_is_read_from_the_result_directory(tmp_path: Path) -> None:
    rounds = make_rounds([SWAPPINESS, BACKGROUND], None, 8, seed=1)
    runner = Runner(slow="vm.swappiness")
    ((item, (swappiness, background), _),) = prove(rounds, tmp_path / "out", runner)
    assert runner.directories == [tmp_path / "out"], "one round needs no folder of its own"
    assert (swappiness.subject, swappiness.verdict, background.verdict) == ("vm.swappiness", "revert", "no_effect")
    assert (swappiness.cells, swappiness.pairs_valid) == (("variant=as-it-is", "variant=vm.swappiness=1"), 8)
    assert swappiness.durability_trades == ("commit=60 on /data: 60 s",)
    assert proofs_of_run(RunResult(tmp_path / "out"), item.sides) == [swappiness, background]


def test_of_a_host_that_is_so_already_the_ratio_is_that_of_the_setting(tmp_path: Path) -> None:
    rounds = make_rounds([SOMAXCONN], None, 8, seed=1)
    ((_, (proof,), _),) = prove(rounds, tmp_path / "out", Runner(slow="net.core.somaxconn"))
    assert proof.verdict == "keep"
    assert proof.text.startswith("better: produce.p99 −34 %"), "on is how the host is; off was slower"


def test_an_interruption_ends_it_with_what_was_proved_before(tmp_path: Path) -> None:
    rounds = make_rounds([SWAPPINESS, SOMAXCONN], None, 5, seed=1)
    done = list(prove(rounds, tmp_path / "out", Runner(status="interrupted")))
    assert [manifest.status for _, _, manifest in done] == ["interrupted"]
