"""Families of samples, whole and in pieces."""

from __future__ import annotations

from highwater.common.prometheus_text import GAUGE, Family, LargeFamily, number_text


def test_a_large_family_has_the_text_of_a_family() -> None:
    values = [None if number % 7 == 0 else number / 2 for number in range(2_000)]
    family = Family("lag", GAUGE, "Lag.")
    for number, value in enumerate(values):
        family.add(value, group=f'"{number}"\n')
    large = LargeFamily(
        "lag", GAUGE, "Lag.", ((value, {"group": f'"{number}"\n'}) for number, value in enumerate(values))
    )
    pieces = list(large.pieces())
    assert "".join(pieces) == family.text
    assert len(pieces) > 3
    assert list(family.pieces()) == [family.text]


def test_without_samples_there_is_no_head() -> None:
    assert list(LargeFamily("lag", GAUGE, "Lag.", [(None, {})]).pieces()) == []
    assert list(Family("lag", GAUGE, "Lag.").pieces()) == []


def test_numbers_have_no_digits_of_binary_fractions() -> None:
    assert [number_text(value) for value in (0.1 + 0.2, 3, 2.0, 10**17 + 1)] == ["0.3", "3", "2", "100000000000000001"]
