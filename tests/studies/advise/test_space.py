from __future__ import annotations

import pytest

from highwater.studies.advise.space import MOST_VALUES_OF_A_RANGE, Space, amount_of, setting_of_list, setting_of_range


def test_a_small_range_has_each_whole_number() -> None:
    assert setting_of_range("k", 1, 8, None).values == (1, 2, 3, 4, 5, 6, 7, 8)


def test_a_wide_range_has_its_ends_and_equal_ratios() -> None:
    values = setting_of_range("k", 0, 100_000, None).values
    assert (values[0], values[-1]) == (0, 100_000)
    assert len(values) <= MOST_VALUES_OF_A_RANGE + 1


def test_a_range_of_sizes_is_doublings() -> None:
    setting = setting_of_range("k", "16KiB", "256KiB", None)
    assert setting.values == ("16KiB", "32KiB", "64KiB", "128KiB", "256KiB")
    assert setting.ordered


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (8, 1, "from must be below to"),
        (1, "8KiB", "do not have the same unit"),
        ("lz4", "zstd", "a range has two whole numbers or two sizes"),
    ],
)
def test_what_is_no_range(low: int | str, high: int | str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        setting_of_range("k", low, high, None)


def test_the_value_in_use_can_always_be_kept() -> None:
    assert setting_of_list("k", [1, 10], 5).values == (1, 5, 10)
    assert setting_of_list("k", ["none", "lz4"], "zstd").values == ("none", "lz4", "zstd")
    assert not setting_of_list("k", ["none", "lz4"], None).ordered
    assert setting_of_list("k", ["64KiB", "16KiB"], "64KiB").values == ("16KiB", "64KiB")


def test_true_and_false_are_no_numbers() -> None:
    assert amount_of(True) is None
    assert not setting_of_list("k", [True, False], None).ordered


def test_a_candidate_and_its_places() -> None:
    space = Space((setting_of_list("a", [1, 2, 3], None), setting_of_list("b", ["x", "y"], None)))
    assert space.size == 6
    assert space.at(space.indexes((3, "y"))) == (3, "y")
    assert not space.has((None, "y"))
    assert len(set(space.everything())) == 6
