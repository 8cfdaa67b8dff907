"""A slice of the drill of the stages before a login; all of it is `make drills`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drills.before_login.cases import LISTENERS, case_of
from tests.drills.before_login.drill import drill


def test_a_case_is_the_same_each_time() -> None:
    def shape(number: int) -> tuple[object, ...]:
        case = case_of(7, number)
        return (
            *case[:3],
            [piece if isinstance(piece, bytes) else piece(b"r=x,s=") for piece in case.pieces],
            *case[4:],
        )

    assert [shape(number) for number in range(50)] == [shape(number) for number in range(50)]
    assert {case_of(7, number).listener for number in range(100)} == set(LISTENERS)


@pytest.mark.slow
@pytest.mark.clients
def test_strangers_do_no_harm(tmp_path: Path) -> None:
    result = drill(tmp_path, seed=1, first=0, most=400, ends_s=float("inf"), idle=2000)
    assert result.cases.total() == 400
    assert len(result.cases) > 10
    assert result.honest_rounds > 2
