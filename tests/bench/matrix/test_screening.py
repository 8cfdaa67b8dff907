"""A first look: its design, and on made-up hosts intervals that hold, effects that are found, and none that is not."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from highwater.bench.matrix.design import is_dummy, screening_rows
from highwater.bench.matrix.effects import MeasuredTrial, estimates
from tests.bench.matrix.simulation import (
    EFFECTS,
    HOSTS,
    SETTINGS,
    Host,
    matrices_with_a_false_name,
    scored,
    screened,
)


def none_excludes(_one: str, _other: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("count", "trials"), [(1, 24), (8, 24), (9, 40), (16, 40), (17, 48), (20, 48), (40, 88), (47, 120)]
)
def test_every_two_columns_are_on_together_alone_and_not_at_all_equally_often(count: int, trials: int) -> None:
    settings = [f"setting-{number}" for number in range(count)]
    rows = screening_rows(settings, none_excludes, seed=1)
    assert len(rows) == trials
    columns = {name for row in rows for name in row}
    assert columns >= set(settings)
    assert sum(map(is_dummy, columns)) == trials // 2 - 1 - count >= 3
    for one, other in combinations(sorted(columns)[:12], 2):
        both = sum(one in row and other in row for row in rows)
        alone = sum(one in row and other not in row for row in rows)
        assert both == alone == trials // 4
    for row, mirrored in zip(rows[: trials // 2], rows[trials // 2 :], strict=True):
        assert set(row) | set(mirrored) == columns
        assert not set(row) & set(mirrored)


def test_the_seed_decides_who_has_which_column() -> None:
    assert screening_rows(SETTINGS, none_excludes, 1) == screening_rows(SETTINGS, none_excludes, 1)
    assert screening_rows(SETTINGS, none_excludes, 1) != screening_rows(SETTINGS, none_excludes, 2)


def test_of_two_that_exclude_each_other_either_is_on_in_turn() -> None:
    pair = {"setting-3", "setting-7"}
    rows = screening_rows(SETTINGS, lambda one, other: {one, other} == pair, seed=1)
    counts = [sum(name in row for row in rows) for name in sorted(pair)]
    assert max(len(pair & set(row)) for row in rows) == 1
    assert all(16 <= count <= 20 for count in counts), counts
    host = Host(1, {"setting-3": math.log(1.3), "setting-7": math.log(0.7)}, spread=0.01)
    found = screened(host, rows)
    assert found["setting-3"].ratio == pytest.approx(1.3, rel=0.02)
    assert found["setting-7"].ratio == pytest.approx(0.7, rel=0.02)


@pytest.mark.parametrize("kind", HOSTS)
def test_intervals_hold_and_effects_are_found(kind: str) -> None:
    score = scored(HOSTS[kind], 40)
    assert sum(score.inside) / len(score.inside) >= 0.92, "95 %, of 40 hosts"
    assert sum(score.named["+0%"]) / len(score.named["+0%"]) <= 0.08
    assert sum(score.named["-20%"]) / len(score.named["-20%"]) >= 0.8


def test_no_cell_of_a_matrix_without_effects_is_named() -> None:
    assert matrices_with_a_false_name(20) <= 2


def test_what_two_settings_do_only_together_is_not_taken_for_what_one_does() -> None:
    rows = screening_rows(SETTINGS, none_excludes, seed=3)
    host = Host(3, together={("setting-5", "setting-9"): 0.4}, spread=0.01)
    assert not [name for name, effect in screened(host, rows).items() if effect.is_beyond]
    # Without the mirrored half it would be: that is what it is for.
    trials = [MeasuredTrial(frozenset(row), at, host.value(row, 0)) for at, row in enumerate(rows[:24])]
    few = ["setting-1", "setting-2", "setting-3", "setting-4", "setting-6", "setting-7"]
    assert max(abs(found.log_ratio) for found in estimates(trials, few).values()) > 0.1


def test_trials_that_are_missing_cost_precision_and_nothing_else() -> None:
    rows = screening_rows(SETTINGS, none_excludes, seed=1)
    host = Host(1, EFFECTS, spread=0.02)
    trials = [MeasuredTrial(frozenset(row), at, host.value(row, 0)) for at, row in enumerate(rows)]
    for kept in (trials, trials[5:], trials[:20] + trials[27:]):
        found = estimates(kept, SETTINGS)
        assert found["setting-0"].ratio == pytest.approx(0.8, rel=0.05)
        assert set(found) == set(SETTINGS)
    assert estimates(trials[:24], SETTINGS) == {}, "too few to know the noise"
    assert estimates([], SETTINGS) == {}


def test_a_setting_that_was_never_off_has_no_effect_that_could_be_told() -> None:
    rows = screening_rows(SETTINGS[:6], none_excludes, seed=1)
    host = Host(1, EFFECTS, spread=0.02)
    trials = [
        MeasuredTrial(frozenset(row), at, host.value(row, 0)) for at, row in enumerate(rows) if "setting-4" in row
    ]
    assert set(estimates(trials, SETTINGS[:6])) <= set(SETTINGS[:6]) - {"setting-4"}


def test_equal_trials_and_figures_of_zero() -> None:
    rows = screening_rows(SETTINGS, none_excludes, seed=1)
    same = [MeasuredTrial(frozenset(row), at, 4.0) for at, row in enumerate(rows)]
    assert [effect.ratio for effect in estimates(same, SETTINGS).values()] == pytest.approx([1.0] * 20)
    assert estimates([MeasuredTrial(frozenset(row), at, 0.0) for at, row in enumerate(rows)], SETTINGS) == {}
