from __future__ import annotations

from pathlib import Path

from highwater.bench.trials.plan import Plan, make_plan
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.results.writer import ResultWriter
from tests.bench.fakes import MINIMAL

MATRIX = """\
matrix: {producers.client.acks: ["0", "1", all], load.rate: [1k/s, 1.5M/s]}
"""


def plan(seed: int | None, text: str = MINIMAL + MATRIX) -> Plan:
    return make_plan(specify(parse_document(text, "w.yaml"), Path("w.yaml")), seed)


def order(made: Plan) -> list[str]:
    return [trial.plan.trial_id for trial in made.trials]


def test_the_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    assert order(plan(1)) == order(plan(1))
    assert order(plan(1)) != order(plan(2))
    assert plan(None).seed == 7  # the file's
    assert plan(None, (MINIMAL + MATRIX).replace("seed: 7, ", "")).seed != 7


def test_every_block_holds_one_trial_of_each_cell() -> None:
    made = plan(1)
    cells = {cell.name for cell in made.specification.cells}
    for block in (1, 2):
        trials = [trial.plan for trial in made.trials if trial.plan.block == block]
        assert {trial.cell for trial in trials} == cells
        assert [trial.order_in_block for trial in trials] == list(range(1, 7))
    assert [trial.plan.block for trial in made.trials] == [1] * 6 + [2] * 6


def test_trial_ids_suit_folder_names(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path / "out")
    ids = order(plan(1))
    assert len(set(ids)) == len(ids)
    for trial_id in ids:
        assert writer.trial_directory(trial_id).is_dir()


def test_estimates_grow_with_what_is_asked() -> None:
    made = plan(1, MINIMAL)
    assert made.tasks == 2
    assert made.duration_s > 2 * 3
    assert made.duration_s > plan(1, MINIMAL + "storage: {probe: false}\n").duration_s
    assert made.log_bytes("temporary", kept=False) >= 300 * 100
    assert made.log_bytes("temporary", kept=True) == 2 * made.log_bytes("temporary", kept=False)
    assert made.log_bytes("other", kept=True) == 0


def test_one_cell_of_every_block_runs_twice_and_each_cell_has_its_turn() -> None:
    made = plan(1, MINIMAL.replace("a_a: false", "a_a: true").replace("n: 2", "n: 6") + MATRIX)
    cells = [cell.name for cell in made.specification.cells]
    twins = [trial.plan for trial in made.trials if trial.plan.role == "a_a"]
    assert [twin.cell for twin in twins] == cells
    assert [twin.block for twin in twins] == [1, 2, 3, 4, 5, 6]
    places = {}
    for twin in twins:
        (measured,) = (
            trial.plan
            for trial in made.trials
            if (trial.plan.cell, trial.plan.block, trial.plan.role) == (twin.cell, twin.block, "measure")
        )
        places[twin.block] = measured.order_in_block - twin.order_in_block
    assert set(places.values()) == {-1, 1}  # next to each other, in either order
    assert len(set(order(made))) == len(made.trials)


def test_the_trials_of_a_single_cell_are_their_own_twins() -> None:
    made = plan(1, MINIMAL.replace("a_a: false", "a_a: true"))
    assert {trial.plan.role for trial in made.trials} == {"measure"}


def test_trials_that_run_at_once_take_the_time_of_one_and_the_room_of_all() -> None:
    text = MINIMAL + "matrix: {producers.client.acks: [1, all]}\n"
    in_turn, at_once = plan(1, text), plan(1, text.replace("seed: 7", "seed: 7, at_once: true"))
    assert (in_turn.lanes, at_once.lanes) == (1, 2)
    assert at_once.durations_s == [in_turn.durations_s[0], 0] * 2
    assert at_once.duration_s < in_turn.duration_s
    closed = text.replace("rate: 100/s", "model: closed").replace("seed: 7", "seed: 7, at_once: true")
    assert plan(1, closed).log_bytes("temporary", kept=False) == (1_000_000 * 3) * (100 + 32)
    one = in_turn.log_bytes("temporary", kept=False)
    assert at_once.log_bytes("temporary", kept=False) == 2 * one
    assert at_once.log_bytes("temporary", kept=True) == in_turn.log_bytes("temporary", kept=True) == 4 * one
