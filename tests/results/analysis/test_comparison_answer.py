"""The sentence of a comparison: what it claims, and what it leaves open."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from highwater.results.analysis.compare import Limits, Trials, judge
from highwater.results.analysis.comparison_answer import (
    SIX_HEADLINES,
    asked_metrics,
    sentence,
    sentence_of_cells,
    shown_first,
)
from highwater.results.gate import MetricComparison
from tests.bench.summaries import summary

RATE, P99 = "produce.achieved_per_s", "produce.p99"


def compared(
    base_ns: Sequence[int], head_ns: Sequence[int], metrics: Sequence[str] = (P99,), cell: str = "base"
) -> list[MetricComparison]:
    base, head = ([summary(n, p99_ns=p99_ns) for n, p99_ns in enumerate(side, 1)] for side in (base_ns, head_ns))
    return judge([Trials(cell, base, head, paired=True)], metrics, Limits(), seed=1)


def around(middle_ns: float, n: int = 6) -> list[int]:
    return [round(middle_ns * (1 + 0.01 * (index % 3 - 1))) for index in range(n)]


@pytest.mark.parametrize(
    ("base", "head", "answer"),
    [
        (around(4e6), [round(value * 1.31) for value in around(4e6)], "head is 31 % slower at produce.p99 (95 %"),
        (around(4e6), [round(value * 0.8) for value in around(4e6)], "head is 20 % faster at produce.p99 (95 %"),
        (around(4e6, 3), around(9e6, 3), "not decided: 3 pairs, and an interval needs 5"),
    ],
)
def test_one_metric_in_one_sentence(base: list[int], head: list[int], answer: str) -> None:
    assert sentence(compared(base, head)).startswith(answer)


def test_no_difference_comes_with_the_change_that_would_have_been_seen() -> None:
    found = sentence(compared(around(4e6), list(reversed(around(4e6))), [P99, "produce.p50", RATE]))
    assert found.startswith("no difference shown in any of 3 metrics; ")
    assert "would have been seen" in found


def test_cells_that_differ_are_named_and_open_ones_too() -> None:
    same, slow = compared(around(4e6), around(4e6)), compared(around(4e6), around(8e6))
    few = compared(around(4e6, 2), around(8e6, 2))
    assert sentence_of_cells({"a": same, "b": same}) == "no difference shown in any of 2 cells"
    assert sentence_of_cells({"a": same, "b": few}) == "no difference shown in 1 of 2 cells; nothing is decided in b"
    assert sentence_of_cells({"a": few, "b": few}) == "nothing is decided"
    assert sentence_of_cells({"a": slow, "b": slow}) == "a difference is shown in 2 of 2 cells: a, b"
    one = sentence_of_cells({"a": same, "b": slow})
    assert one.startswith("a difference is shown in 1 of 2 cells, b: ")
    assert sentence_of_cells({"a": slow}) == sentence(slow)


def test_a_loss_in_one_trial_is_not_zero_on_both_sides() -> None:
    """The median of many trials hides it."""
    base = [summary(n) for n in range(1, 8)]
    lost = base[0].model_copy(update={"delivery": base[0].delivery.model_copy(update={"duplicated": 3})})
    names = ["delivery.duplicated", "delivery.lost", P99]
    found = judge([Trials("base", base, [lost, *base[1:]], paired=True)], names, Limits(), seed=1)
    assert [item.metric for item in shown_first(found, [P99])] == [P99, "delivery.duplicated"]


def test_the_question_comes_from_the_workload() -> None:
    assert tuple(asked_metrics({}, at_once=False)) == SIX_HEADLINES
    assert asked_metrics({"slo": {"e2e.p999": "<20ms"}}, at_once=True) == ["system.cpu_s_per_gib", "e2e.p999"]
    asked = {"answer": {"best": P99, "lost": True}, "slo": {"e2e.p99": "<20ms", P99: "<5ms"}}
    assert asked_metrics(asked, at_once=False) == [P99, "e2e.p99"]
    assert asked_metrics({"answer": {"best": [RATE, P99]}}, at_once=False) == [RATE, P99]
