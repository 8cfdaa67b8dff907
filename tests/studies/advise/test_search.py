from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from highwater.studies.advise.search import (
    BLOCK_TRIALS,
    Block,
    Standing,
    TrialOfSearch,
    finalists,
    next_block,
    standing,
)
from highwater.studies.advise.space import Candidate, Space, setting_of_list, setting_of_range

SPACE = Space(
    (
        setting_of_range("linger", 0, 15, None),
        setting_of_range("batch", "16KiB", "1MiB", None),
        setting_of_list("codec", ["none", "lz4", "zstd"], None),
    )
)
IN_USE: Candidate = (12, "16KiB", "zstd")
DEFAULTS: Candidate = (None, None, None)


def truth(candidate: Candidate) -> float:
    if candidate == DEFAULTS:
        return 0.9
    linger, batch, codec = SPACE.indexes(candidate)
    return 0.05 * linger + 0.08 * abs(batch - 4) + (0.0, 0.1, 0.3)[codec]


def searched(
    cost: Callable[[Candidate], float | None] = truth, trials: int = 70, seed: int = 1, noise: float = 0.05
) -> tuple[list[TrialOfSearch], list[Block]]:
    chance = random.Random(seed)
    history: list[TrialOfSearch] = []
    blocks: list[Block] = []
    while (block := next_block(SPACE, [IN_USE, DEFAULTS], history, trials - len(history), seed)) is not None:
        assert len(blocks) < 100, "a search must end"
        blocks.append(block)
        for candidate in block.candidates:
            value = cost(candidate)
            costs = None if value is None else (value + chance.gauss(0, noise),)
            history += [TrialOfSearch(candidate, block.number, costs, twin=False)]
            if candidate == block.twin:
                history.append(TrialOfSearch(candidate, block.number, costs, twin=True))
    return history, blocks


def standing_of(history: list[TrialOfSearch]) -> Standing:
    return standing(SPACE, history, IN_USE)


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_much_better_settings_within_its_trials(seed: int) -> None:
    history, _ = searched(seed=seed)
    assert len(history) <= 70
    (best,) = finalists(standing_of(history), IN_USE, 1)
    assert truth(best) < 0.35, "in use costs 1.22, the best 0"


def test_each_block_has_the_references_and_the_first_ones_a_twin() -> None:
    _, blocks = searched()
    assert all({IN_USE, DEFAULTS} <= set(block.candidates) for block in blocks)
    assert [block.twin for block in blocks[:4]] == [IN_USE, DEFAULTS, IN_USE, None]
    assert all(len(set(block.candidates)) == len(block.candidates) <= BLOCK_TRIALS for block in blocks)


def test_what_is_surely_worse_is_not_measured_again() -> None:
    history, blocks = searched(noise=0.02)
    again = 0
    for block in blocks[1:]:
        before = standing_of([trial for trial in history if trial.block < block.number])
        kept = [one for one in block.candidates if one in before.scores and one not in (IN_USE, DEFAULTS)]
        again += len(kept)
        assert not any(before.surely_worse(one, other) for one in kept for other in before.scores)
    assert again, "leaders are measured again"
    assert set(blocks[-1].candidates) <= {trial.candidate for trial in history if trial.block < blocks[-1].number}


def test_a_search_that_was_stopped_goes_on_as_it_would_have() -> None:
    history, blocks = searched()
    for block in blocks:
        before = [trial for trial in history if trial.block < block.number]
        assert next_block(SPACE, [IN_USE, DEFAULTS], before, 70 - len(before), 1) == block


def test_unusable_trials_are_never_scored_and_not_repeated() -> None:
    def no_zero_linger(candidate: Candidate) -> float | None:
        return None if candidate[0] == 0 else truth(candidate)

    history, _ = searched(no_zero_linger)
    found = standing_of(history)
    assert all(candidate[0] != 0 for candidate in found.scores)
    assert all(sum(trial.candidate == candidate for trial in history) == 1 for candidate in found.unusable)
    assert finalists(found, IN_USE, 1)[0][0] != 0


def test_a_search_without_a_usable_trial_ends_without_a_finalist() -> None:
    history, _ = searched(lambda _: None)
    assert finalists(standing_of(history), IN_USE, 1) == []


def test_a_small_space_is_exhausted() -> None:
    space = Space((setting_of_list("codec", ["none", "lz4", "zstd"], None),))
    history: list[TrialOfSearch] = []
    while (block := next_block(space, [("zstd",)], history, 300 - len(history), 1)) is not None:
        assert len(history) < 100, "nothing is left to learn"
        history += [TrialOfSearch(one, block.number, (0.1 * len(str(one[0])),)) for one in block.candidates]
    assert {trial.candidate for trial in history} == set(space.everything())


def test_a_candidate_that_breaks_a_bound_is_no_finalist() -> None:
    history = [
        TrialOfSearch(one, block, (cost,), (excess,))
        for block in range(1, 5)
        for one, cost, excess in (
            (IN_USE, 1.0, -0.5),
            ((0, "64KiB", "none"), 0.1, 0.2),
            ((1, "64KiB", "none"), 0.5, -0.1),
        )
    ]
    assert finalists(standing_of(history), IN_USE, 1) == [(1, "64KiB", "none")]


def test_where_all_else_is_surely_worse_there_is_no_finalist() -> None:
    history = [
        TrialOfSearch(one, block, (cost,))
        for block in range(1, 9)
        for one, cost in ((IN_USE, 0.0), ((0, "64KiB", "none"), 1.0))
    ]
    assert finalists(standing_of(history), IN_USE, 1) == []


def test_candidates_that_are_not_allowed_are_not_measured() -> None:
    block = next_block(SPACE, [IN_USE], [], 50, 1, lambda candidate: candidate[2] == "none")
    assert block is not None
    assert all(candidate[2] == "none" for candidate in block.candidates if candidate != IN_USE)


def test_two_aims_give_a_front() -> None:
    """The first setting is good for one aim and bad for the other."""
    history = [
        TrialOfSearch((linger, "64KiB", "none"), block, (0.1 * linger, 0.1 * (15 - linger)))
        for block in range(1, 4)
        for linger in (0, 5, 10, 15)
    ]
    history += [TrialOfSearch(IN_USE, block, (2.0, 2.0)) for block in range(1, 4)]
    history += [TrialOfSearch((5, "1MiB", "none"), block, (1.0, 1.5)) for block in range(1, 4)]
    front = finalists(standing_of(history), IN_USE, 3)
    assert {candidate[0] for candidate in front[:2]} == {0, 15}
    assert len(front) == 3
    assert (5, "1MiB", "none") not in front


def test_a_trial_that_is_disturbed_once_does_not_hide_the_best() -> None:
    chance = random.Random(5)

    def disturbed(candidate: Candidate) -> float:
        return truth(candidate) + (math.log(1.5) if chance.random() < 1 / 16 else 0.0)

    history, _ = searched(disturbed)
    (best,) = finalists(standing_of(history), IN_USE, 1)
    assert truth(best) < 0.45


def test_few_good_trials_of_settings_that_mostly_fail_do_not_beat_a_candidate() -> None:
    """The settings in use carry the load in two of seven blocks, and are much better there."""
    history = [TrialOfSearch(IN_USE, block, (-1.0,) if block < 3 else None) for block in range(1, 8)]
    history += [TrialOfSearch((2, "64KiB", "lz4"), block, (1.0 + block / 100,)) for block in range(1, 8)]
    assert finalists(standing_of(history), IN_USE, 1) == [(2, "64KiB", "lz4")]
    history = [*(trial for trial in history if trial.costs is not None), TrialOfSearch(IN_USE, 8, (-1.0,))]
    assert finalists(standing_of(history), IN_USE, 1) == []
