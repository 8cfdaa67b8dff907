from __future__ import annotations

import numpy as np
import pytest

from highwater.spark_loadgen.keys import encode_keys, key_numbers
from highwater.spark_loadgen.records import NumberedKeys, RandomKeys, RoundRobinKeys, ZipfKeys

SEQUENCES = np.arange(200_000, dtype=np.int64)


def test_round_robin_goes_through_all_producers_records() -> None:
    keys = RoundRobinKeys(10)
    rows = [key_numbers(keys, 0, 4, worker, SEQUENCES[:5]) for worker in range(4)]
    assert np.array(rows).T.ravel().tolist() == [number % 10 for number in range(20)]


def test_random_keys_are_equally_likely() -> None:
    counts = np.bincount(key_numbers(RandomKeys(100), 1, 1, 0, SEQUENCES), minlength=100)
    assert ((counts - 2000) ** 2 / 2000).sum() < 180  # chi-square of 99 degrees of freedom: p = 1e-6


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.1, 3.0])
def test_zipf_keys_follow_zipfs_law(exponent: float) -> None:
    counts = np.bincount(key_numbers(ZipfKeys(50, exponent), 1, 1, 0, SEQUENCES), minlength=50)
    weights = np.arange(1, 51) ** -exponent
    expected = weights / weights.sum() * len(SEQUENCES)
    assert ((counts - expected) ** 2 / expected).sum() < 110  # chi-square of 49 degrees of freedom: p = 1e-6


@pytest.mark.parametrize("keys", [RoundRobinKeys(7), RandomKeys(7), ZipfKeys(7, 1.1)])
def test_the_key_of_a_record_depends_on_nothing_but_its_number(keys: NumberedKeys) -> None:
    at_once = key_numbers(keys, 5, 3, 2, SEQUENCES[:1000])
    one_by_one = [int(key_numbers(keys, 5, 3, 2, np.array([number]))[0]) for number in range(1000)]
    workers = SEQUENCES[:1000] % 3
    mixed = key_numbers(keys, 5, 3, workers, SEQUENCES[:1000])
    assert at_once.tolist() == one_by_one
    assert np.array_equal(mixed[workers == 2], at_once[workers == 2])
    assert 0 <= min(one_by_one) < max(one_by_one) < 7


def test_keys_are_decimal_and_of_one_length() -> None:
    assert encode_keys(np.array([0, 7, 999]), 1000) == [b"000", b"007", b"999"]
    assert encode_keys(np.array([0]), 1) == [b"0"]
    assert encode_keys(np.array([10**11 + 5]), 10**12) == [b"100000000005"]
