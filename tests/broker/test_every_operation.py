"""A disk that fails at any operation of a broker's life breaks no promise. `make drills` tries all of them."""

from __future__ import annotations

import pytest

from tests.broker.one_life import CRASHES, FAILURES, crash, fail

STRIDE = 9


@pytest.mark.parametrize("how", FAILURES)
def test_a_disk_that_fails(how: str) -> None:
    at = FAILURES.index(how)
    while fail(at, how):
        at += STRIDE
    assert at > 400, "the life became short"


@pytest.mark.parametrize("how", CRASHES)
def test_a_crash(how: str) -> None:
    at = CRASHES.index(how)
    while crash(at, how):
        at += STRIDE
    assert at > 400, "the life became short"
