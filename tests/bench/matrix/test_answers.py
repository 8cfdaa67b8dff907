"""What is concluded from looks at cells: by second looks alone, corrected together, never surer than the evidence."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest

from highwater.bench.matrix.answers import (
    Answer,
    Effect,
    Key,
    Look,
    answers,
    confirming_look,
    rest_sentences,
    sentence,
    setting_order,
)
from highwater.bench.prove.judging import compare_cells
from tests.bench.summaries import summary

P99, THROUGHPUT = "produce.p99", "produce.achieved_per_s"
FIGURES = {"prove-writes": [P99]}


def look(
    ratio: float = 1.0,
    pairs: int = 5,
    noise: float = 0.01,
    seed: int = 1,
    fault: str = "",
    throughput: float = 1.0,
) -> Look:
    """Trials with p99 and throughput `ratio` and `throughput` times as large with the setting, and log-normal noise."""
    chance = random.Random(seed)
    summaries = []
    for block in range(1, pairs + 1):
        for side, role in (("off", "measure"), ("on", "measure"), ("off", "a_a")):
            times = math.exp(chance.gauss(0, noise))
            p99_ns = round(4e6 * times * (ratio if side == "on" else 1))
            achieved = 20_000 * math.exp(chance.gauss(0, 0.003)) * (throughput if side == "on" else 1)
            found = summary(block, {"v": side}, p99_ns=p99_ns, achieved_per_s=achieved, role=role)  # type: ignore[arg-type]
            summaries.append(found)
    figures = [P99] if throughput == 1.0 else [P99, THROUGHPUT]
    return confirming_look(compare_cells(summaries, "v=off", "v=on", figures, seed), fault)


def screened_look(ratio: float, p_value: float) -> Look:
    interval = (ratio * 0.95, ratio * 1.05)
    effect = Effect(
        P99, "lower", ratio, interval, delta_ratio=0.05, floor_ratio=0.05, detectable_ratio=0.1, p_value=p_value
    )
    return Look((effect,), "40 trials")


def key(number: int | str) -> Key:
    return Key(f"knob{number}", "prove-writes", "host")


def decided(first: Mapping[Key, Look], second: Mapping[Key, Look] | None = None) -> dict[Key, Answer]:
    return answers(first, first, second or {}, {}, FIGURES)


def test_a_difference_is_named_by_its_second_look_with_its_interval() -> None:
    found = decided({key(1): look(0.8)}, {key(1): look(0.9, 12, seed=2)})[key(1)]
    assert (found.state, found.trials, found.confirmed) == ("better", "12 pairs", True)
    assert found.item is not None
    assert found.item.interval[0] < 0.9 < found.item.interval[1], "the first look exaggerated, and does not count"
    assert found.text.startswith("better: produce.p99 −")
    assert decided({key(1): look(1.3)}, {key(1): look(1.3, 12)})[key(1)].state == "worse"


def test_what_only_seems_to_differ_is_undecided_until_it_was_measured_again() -> None:
    found = decided({key(1): look(0.8)})[key(1)]
    assert (found.state, found.confirmed) == ("undecided", False)
    assert "looks like produce.p99 −" in found.text
    assert "was not measured again yet" in found.text


def test_a_second_look_that_shows_nothing_takes_the_first_one_back() -> None:
    found = decided({key(1): look(0.8)}, {key(1): look(1.0, 12)})[key(1)]
    assert (found.state, found.confirmed) == ("none", True)


def test_a_first_look_that_no_chance_explains_is_an_answer_until_there_is_a_second() -> None:
    surely, perhaps = screened_look(0.8, p_value=1e-9), screened_look(0.8, p_value=0.03)
    found = decided({key(1): surely, key(2): perhaps})
    assert (found[key(1)].state, found[key(1)].confirmed) == ("better", False)
    assert found[key(1)].text == "better: produce.p99 −20 % (−24 to −16 %); first look"
    assert found[key(2)].state == "undecided"
    assert decided({key(1): surely}, {key(1): look(1.0, 12)})[key(1)].state == "none", "the second decides alone"
    many = {key(number): screened_look(0.8, p_value=0.002) for number in range(20)}
    assert {answer.state for answer in decided(many).values()} == {"undecided"}, "20 times as much chance"
    missing = answers([*many, key(20)], {key(20): screened_look(0.8, p_value=0.002)}, {}, {}, FIGURES)
    assert missing[key(20)].state == "undecided", "those still to come count as well"


def test_no_difference_has_a_size_that_its_interval_does_not_exceed() -> None:
    found = decided({key(1): look(1.0, noise=0.02)})[key(1)]
    assert found.state == "none"
    assert found.item is not None
    low, high = found.item.interval
    assert found.unseen_ratio is not None
    assert 1 / (1 + found.unseen_ratio) <= low <= high <= 1 + found.unseen_ratio
    assert found.text.startswith("no difference larger than: produce.p99 ")


def test_noise_is_undecided_and_says_what_may_be_there() -> None:
    found = decided({key(1): look(1.0, noise=0.4, seed=3)})[key(1)]
    assert found.state == "undecided"
    assert "too noisy; differences up to this size may be there: produce.p99 " in found.text


def test_too_few_pairs_are_undecided() -> None:
    assert "4 valid pairs of 4, and 5 are needed" in decided({key(1): look(pairs=4)})[key(1)].text


def test_one_figure_better_and_one_worse_is_a_trade() -> None:
    first, second = look(0.7, throughput=0.8), look(0.7, 12, throughput=0.8)
    both = {"prove-writes": [P99, THROUGHPUT]}
    found = answers([key(1)], {key(1): first}, {key(1): second}, {}, both)[key(1)]
    assert found.state == "trade"
    assert found.text.startswith("better: produce.p99 −")
    assert "; worse: produce.achieved_per_s −" in found.text


def test_a_broker_that_fails_with_a_setting_has_to_fail_twice() -> None:
    first = {key(1): look(fault="the broker failed in 1 trial with it, and in none without: gone")}
    once = decided(first, {key(1): look(pairs=12)})[key(1)]
    assert once.state == "none"
    assert decided(first)[key(1)].state == "undecided"
    assert decided(first, {key(1): look(pairs=12, fault="again")})[key(1)].text == "worse: again"


def test_the_more_cells_are_measured_again_the_stronger_each_has_to_be() -> None:
    # Seven pairs that all lie beyond delta have a p-value of 1 in 128: enough for one cell, and not for seven.
    weak = look(0.9, 7, seed=4)
    assert decided({key(1): look(0.8)}, {key(1): weak})[key(1)].state == "better"
    first = {key(number): look(0.8, seed=number) for number in range(7)}
    found = decided(first, {key(0): weak})
    assert found[key(0)].state == "undecided", "cells that are still to come count as well"
    assert "among so many cells may be chance" in found[key(0)].text


@pytest.mark.parametrize("seed", range(6))
def test_of_many_settings_without_effect_none_is_named(seed: int) -> None:
    first = {key(n): look(1.0, noise=0.12, seed=1000 * seed + n) for n in range(30)}
    doubtful = [k for k, each in first.items() if each.seems_to_differ]
    second = {k: look(1.0, 12, noise=0.12, seed=77 * seed + n) for n, k in enumerate(doubtful)}
    assert {answer.state for answer in decided(first, second).values()} <= {"none", "undecided"}


def test_real_effects_among_many_settings_are_found() -> None:
    effects = {key(n): 0.75 if n < 3 else 1.0 for n in range(20)}
    first = {k: look(ratio, noise=0.05, seed=n) for n, (k, ratio) in enumerate(effects.items())}
    second = {
        k: look(effects[k], 12, noise=0.05, seed=100 + n) for n, k in enumerate(first) if first[k].seems_to_differ
    }
    found = decided(first, second)
    assert [k for k, answer in found.items() if answer.state == "better"] == [key(0), key(1), key(2)]


def test_the_sentence_names_what_matters_most_first() -> None:
    first = {key("small"): look(0.9), key("large"): look(1.5), key("nothing"): look(1.0)}
    second = {key("small"): look(0.9, 12), key("large"): look(1.5, 12)}
    settings = [each.setting for each in (*first, key("never"))]
    found = answers([*first, key("never")], first, second, {key("never"): "it is fixed"}, FIGURES)
    assert found[key("never")].text == "cannot be set here: it is fixed"
    assert setting_order(settings, found) == ["knoblarge", "knobsmall", "knobnothing", "knobnever"]
    assert sentence(settings, found) == "On this host 2 of 4 settings matter: 1 helps (knobsmall); 1 harms (knoblarge)."
    none, cannot = rest_sentences(settings, found)
    assert none.startswith("No difference: knobnothing up to ")
    assert cannot == "Cannot be set here: knobnever."


def test_the_sentence_of_a_matrix_that_goes_on_is_no_final_one() -> None:
    first = {key(1): look(1.0)}
    settings = [key(1).setting, key(2).setting]
    found = answers([key(1), key(2)], first, {}, {}, FIGURES)
    assert sentence(settings, found) == "So far, on this host none of 2 settings was shown to matter yet."
    assert rest_sentences(settings, found)[-1] == "Not measured everywhere yet: knob2."
    assert sentence(settings, answers([key(1), key(2)], {}, {}, {}, FIGURES)) == "Nothing is measured yet."
    assert sentence(settings[:1], decided(first)) == "On this host none of 1 setting was shown to matter."
