"""Statistics against values worked out by hand or printed in tables, and against what they promise."""

from __future__ import annotations

import math
import random

import pytest

from highwater.results.analysis.statistics import (
    RatioEstimate,
    a_a_bound,
    a_a_centre_bound,
    bootstrap_median_ci,
    coefficient_of_variation,
    holm,
    paired_p_value,
    paired_ratio_ci,
    smallest_detectable_ratio,
    student_t_quantile,
    unpaired_p_value,
    unpaired_ratio_ci,
)


def test_four_values_give_no_interval_and_five_give_their_range() -> None:
    assert bootstrap_median_ci([1.0, 2.0, 3.0, 4.0]) is None
    assert bootstrap_median_ci([5.0, 1.0, 4.0, 2.0, 3.0]) == (1.0, 5.0)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [random.Random(1).gauss(10, 1) for _ in range(20)]
    assert bootstrap_median_ci(values, seed=7) == bootstrap_median_ci(values, seed=7)


@pytest.mark.parametrize("n", [7, 15])
def test_the_interval_holds_the_true_median_as_often_as_it_says(n: int) -> None:
    # Plain percentiles of the resamples would hold that of seven values in 87 of 100 cases.
    draw = random.Random(5)
    held = 0
    for seed in range(200):
        bounds = bootstrap_median_ci([draw.lognormvariate(0, 0.3) for _ in range(n)], seed=seed)
        assert bounds is not None
        held += bounds[0] <= 1.0 <= bounds[1]
    assert held >= 0.945 * 200


def test_a_ratio_and_its_inverse_say_the_same() -> None:
    base, head = [100.0, 110.0, 90.0, 105.0, 95.0, 101.0], [120.0, 130.0, 99.0, 125.0, 118.0, 119.0]
    forth, back = paired_ratio_ci(base, head), paired_ratio_ci(head, base)
    assert forth is not None
    assert back is not None
    assert forth.interval is not None
    assert back.interval is not None
    assert forth.ratio == pytest.approx(1 / back.ratio)
    assert forth.interval == pytest.approx((1 / back.interval[1], 1 / back.interval[0]), rel=0.02)
    assert forth.n == 6


@pytest.mark.parametrize("n", [5, 7, 9, 12])
@pytest.mark.parametrize("outliers", [0.0, 0.15])
def test_the_interval_of_a_ratio_holds_it_as_often_as_it_says(n: int, outliers: float) -> None:
    draw, held = random.Random(17), 0
    for _ in range(600):
        scatter = [0.04 * (5 if draw.random() < outliers else 1) for _ in range(n)]
        found = paired_ratio_ci([1.0] * n, [1.1 * math.exp(draw.gauss(0, sigma)) for sigma in scatter])
        assert found is not None
        assert found.interval is not None
        held += found.interval[0] <= 1.1 <= found.interval[1]
    assert 0.915 * 600 <= held <= 0.985 * 600


def test_a_ratio_and_its_interval_by_hand() -> None:
    # Seven pairs: the third smallest and third largest of the 28 means of two, as Hollander and Wolfe's table says.
    found = paired_ratio_ci([1.0] * 7, [math.exp(value) for value in (1, 2, 4, 8, 16, 32, 64)])
    assert found is not None
    assert found.interval is not None
    assert [math.log(value) for value in (found.ratio, *found.interval)] == pytest.approx([14.0, 2.0, 40.0])


def test_pairing_takes_out_what_both_of_a_pair_share() -> None:
    weather = [1.0, 3.0, 0.5, 2.0, 5.0, 1.5]
    base, head = [100 * w for w in weather], [110 * w for w in weather]
    paired, unpaired = paired_ratio_ci(base, head), unpaired_ratio_ci(base, head)
    assert paired is not None
    assert unpaired is not None
    assert paired.interval == pytest.approx((1.1, 1.1))
    assert unpaired.interval is not None
    assert unpaired.interval[0] < 1 < 1.1 < unpaired.interval[1]


def test_no_ratio_to_nothing() -> None:
    assert paired_ratio_ci([0.0, 1.0], [1.0, 1.0]) is None
    assert paired_ratio_ci([], []) is None
    assert unpaired_ratio_ci([1.0], []) is None
    with pytest.raises(ValueError, match="1 and 2 values make no pairs"):
        paired_ratio_ci([1.0], [1.0, 2.0])


def test_few_pairs_give_a_ratio_without_an_interval() -> None:
    estimate = paired_ratio_ci([1.0, 1.0, 1.0], [1.1, 1.2, 1.3])
    assert estimate is not None
    assert (estimate.interval, estimate.n) == (None, 3)
    assert estimate.ratio == pytest.approx(1.2, rel=0.01)
    assert smallest_detectable_ratio(estimate) is None


def test_the_smallest_detectable_change_is_found_about_as_often_as_it_says() -> None:
    draw, n, delta, sigma = random.Random(11), 15, 0.02, 0.03

    def estimate(true_ratio: float, seed: int) -> RatioEstimate:
        found = paired_ratio_ci([1.0] * n, [true_ratio * math.exp(draw.gauss(0, sigma)) for _ in range(n)])
        assert found is not None
        return found

    detectable = [smallest_detectable_ratio(estimate(1.0, seed), delta) for seed in range(60)]
    typical = sorted(value for value in detectable if value is not None)[30]
    found = sum((estimate(1 + typical, seed).low or 0) > 1 + delta for seed in range(100))
    assert 65 <= found <= 95


def test_five_pairs_one_way_are_one_in_thirty_two() -> None:
    base, head = [10.0] * 5, [11.0, 12.0, 13.0, 11.5, 12.5]
    assert paired_p_value(base, head, "greater") == pytest.approx(1 / 32)
    assert paired_p_value(base, head, "two_sided") == pytest.approx(2 / 32)
    assert paired_p_value(base, head, "less") == 1.0
    assert paired_p_value(base, head, "greater", delta_ratio=0.5) == 1.0
    assert paired_p_value([0.0], [1.0], "greater") is None


def test_a_change_either_way_is_twice_as_likely_by_chance_unless_delta_keeps_the_far_side_off() -> None:
    base, head = [10.0] * 6, [11.0, 12.0, 13.0, 11.5, 12.5, 10.5]
    for one, other in ((base, head), (head, base)):
        assert paired_p_value(one, other, "two_sided") == pytest.approx(2 / 64)
        assert paired_p_value(one, other, "two_sided", delta_ratio=0.04) == pytest.approx(1 / 64)
        assert unpaired_p_value(one, other, "two_sided") == pytest.approx(2 / math.comb(12, 6))
        assert unpaired_p_value(one, other, "two_sided", delta_ratio=0.04) == pytest.approx(1 / math.comb(12, 6))
    assert paired_p_value(base, base, "two_sided") == 1.0


def test_many_pairs_are_drawn_and_no_p_value_is_zero() -> None:
    p_value = paired_p_value([1.0] * 30, [1.5] * 30, "greater")
    assert p_value is not None
    assert 0 < p_value < 0.001


def test_holm_as_worked_out_by_hand() -> None:
    # Smallest × 3, next × 2 but not below it, largest × 1 but not below it.
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("degrees", "printed"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042)]
)
def test_students_t_as_tables_print_it(degrees: int, printed: float) -> None:
    assert student_t_quantile(0.975, degrees) == pytest.approx(printed, abs=5e-4)


def test_the_a_a_bound_covers_the_next_pair() -> None:
    draw, sigma = random.Random(2), 0.02
    covered = 0
    for _ in range(400):
        bound = a_a_bound([math.exp(draw.gauss(0, sigma)) for _ in range(5)])
        assert bound is not None
        covered += abs(draw.gauss(0, sigma)) <= math.log1p(bound)
    assert covered >= 0.91 * 400
    assert a_a_bound([1.0, 1.01]) is None
    assert a_a_bound([1.0, 1.0, 0.0]) is None
    assert a_a_bound([1.0, 1.0, 1.0]) == 0.0


def test_trials_that_are_no_pairs_are_rearranged() -> None:
    # Of 3 + 3 values one of 20 arrangements has the three largest on one side.
    base, head = [10.0, 11.0, 12.0], [20.0, 21.0, 22.0]
    assert unpaired_p_value(base, head, "greater") == pytest.approx(1 / 20)
    assert unpaired_p_value(base, head, "less") == 1.0
    assert unpaired_p_value(base, head, "two_sided") == pytest.approx(2 / 20)
    assert unpaired_p_value(base, head, "greater", delta_ratio=1.0) != pytest.approx(1 / 20)
    assert unpaired_p_value(head, base, "less", delta_ratio=0.2) == pytest.approx(1 / 20)
    assert unpaired_p_value(base, [], "less") is None
    many = unpaired_p_value([1.0 + i / 100 for i in range(12)], [2.0 + i / 100 for i in range(12)], "greater")
    assert many is not None
    assert 0 < many < 0.001


def test_the_ratio_of_more_pairs_is_bound_more_tightly() -> None:
    ratios = [0.97, 1.02, 1.04, 0.99, 1.01]
    bounds = [a_a_centre_bound(ratios, n) for n in (1, 5, 15)]
    assert all(bounds)
    assert bounds == sorted(bounds, reverse=True)  # type: ignore[type-var]
    assert a_a_centre_bound(ratios[:2], 5) is None
    draw, sigma, covered = random.Random(5), 0.03, 0
    for _ in range(400):
        bound = a_a_centre_bound([math.exp(draw.gauss(0, sigma)) for _ in range(5)], 5)
        centre = paired_ratio_ci([1.0] * 5, [math.exp(draw.gauss(0, sigma)) for _ in range(5)])
        assert bound is not None
        assert centre is not None
        covered += abs(math.log(centre.ratio)) <= math.log1p(bound)
    assert covered >= 0.93 * 400


def test_coefficient_of_variation() -> None:
    assert coefficient_of_variation([9.0, 11.0]) == pytest.approx(math.sqrt(2) / 10)
    assert coefficient_of_variation([9.0]) is None
    assert coefficient_of_variation([0.0, 0.0]) is None
