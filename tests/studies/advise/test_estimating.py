from __future__ import annotations

import random

import pytest

from highwater.studies.advise.estimating import PRIOR_NOISE, Observation, estimate

A, B, C = ("a",), ("b",), ("c",)


def test_what_a_block_does_to_all_is_no_difference() -> None:
    observations = [Observation(A, block, 1.0 + block) for block in range(1, 6)]
    observations += [Observation(B, block, 1.5 + block) for block in range(1, 6)]
    difference, error = estimate(observations).difference(B, A)
    assert difference == pytest.approx(0.5)
    assert 0 < error < PRIOR_NOISE


def test_more_trials_make_the_error_smaller_and_a_single_one_has_one_too() -> None:
    chance = random.Random(1)
    observations = [Observation(A, block, chance.gauss(0, 0.1)) for block in range(1, 9)]
    observations += [Observation(B, block, 0.3 + chance.gauss(0, 0.1)) for block in range(1, 9)]
    observations.append(Observation(C, 8, 0.3))
    found = estimate(observations)
    assert found.difference(C, A)[1] > 2 * found.difference(B, A)[1]
    assert found.trials == {A: 8, B: 8, C: 1}


def test_one_disturbed_trial_moves_little() -> None:
    observations = [Observation(A, block, 0.0) for block in range(1, 9)]
    observations += [Observation(B, block, 0.1 if block != 4 else 3.0) for block in range(1, 9)]
    assert estimate(observations).difference(B, A)[0] == pytest.approx(0.1, abs=0.1), "the mean would say 0.46"


def test_pairs_of_the_same_thing_are_the_noise() -> None:
    observations = [Observation(A, 1, 0.0), Observation(B, 1, 0.0)]
    noisy, quiet = (estimate(observations, [size, -size] * 10).noise for size in (0.5, 0.01))
    assert noisy > 0.3
    assert quiet < PRIOR_NOISE
