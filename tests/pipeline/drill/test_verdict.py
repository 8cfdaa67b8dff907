"""The verdict of a drill: proven, not proven with a reason, violated; and its table."""

from __future__ import annotations

from dataclasses import replace

from highwater.common.exit_codes import EXIT_INVALID, EXIT_OK, EXIT_REGRESSION
from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.model import RoundResult
from highwater.pipeline.drill.verdict import judge, table

MOMENTS = (CrashPoint.SINK_COMMITTED, None)
ROUND = RoundResult(
    number=1,
    moment="sink-committed",
    victim="driver",
    reached=True,
    replays_skipped=1,
    restarts=1,
    records=240,
    lost=0,
    twice=0,
    partial_batches=0,
    duration_s=3.0,
)
RANDOM_ROUND = replace(ROUND, moment="random", victim="broker", replays_skipped=0)


def test_proven() -> None:
    verdict = judge([ROUND, ROUND, RANDOM_ROUND], MOMENTS, times_min=1, skips=True)
    assert verdict.exit_status == EXIT_OK
    assert verdict.sentence == "Proven: 0 lost, 0 twice in 3 rounds; 2 replays of committed batches skipped."


def test_a_moment_that_did_not_come_often_enough_is_no_proof() -> None:
    verdict = judge([ROUND, replace(RANDOM_ROUND, reached=False)], MOMENTS, times_min=1, skips=True)
    assert verdict.exit_status == EXIT_INVALID
    assert verdict.rounds == 1
    assert verdict.not_reached == 1
    assert verdict.sentence.startswith("Not proven yet: random came 0 of 1 times. So far 0 lost, ")


def test_too_few_replays_are_no_proof() -> None:
    rounds = [ROUND, *[RANDOM_ROUND] * 5]
    assert judge(rounds, MOMENTS, times_min=1, skips=True).exit_status == EXIT_INVALID
    assert "1 of 6 rounds repeated a committed batch" in judge(rounds, MOMENTS, times_min=1, skips=True).sentence
    assert judge(rounds, MOMENTS, times_min=1, skips=False).exit_status == EXIT_OK


def test_no_round_is_no_proof() -> None:
    assert judge([], MOMENTS, times_min=1, skips=True).exit_status == EXIT_INVALID


def test_each_fault_is_a_violation_even_in_a_round_that_does_not_count() -> None:
    no_round = replace(RANDOM_ROUND, reached=False)
    for faulty in (replace(no_round, lost=3), replace(no_round, twice=2), replace(no_round, partial_batches=1)):
        assert judge([ROUND, faulty], MOMENTS, times_min=1, skips=True).exit_status == EXIT_REGRESSION
    sentence = judge([replace(ROUND, lost=3, twice=1, partial_batches=2)], MOMENTS, times_min=1, skips=True).sentence
    assert sentence.startswith("Not exactly once: 3 lost, 1 twice, 2 batches seen in part in 1 round; ")


def test_the_table_has_a_row_for_each_moment() -> None:
    rounds = [ROUND, replace(ROUND, victim="jvm"), RANDOM_ROUND]
    text = table(rounds, judge(rounds, MOMENTS, times_min=1, skips=True))
    assert text.splitlines()[2:] == [
        "| sink-committed | 2 | driver 1, jvm 1 | 2 | 0 | 0 |",
        "| random | 1 | broker 1 | 0 | 0 | 0 |",
    ]
