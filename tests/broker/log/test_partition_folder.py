from __future__ import annotations

import uuid

import pytest

from highwater.broker.log.partition_folder import (
    deleted_name,
    future_name,
    has_too_long_future_name,
    is_deleted,
    is_stray,
    partition_of_future,
)

ID = uuid.UUID(int=7).hex


def test_names_tell_the_states_apart() -> None:
    deleted, future, stray = deleted_name("t", 3), future_name("t", 3), f"t-3.{ID}-stray"
    for name in ("t-3", deleted, future, stray):
        assert is_deleted(name) == (name == deleted)
        assert is_stray(name) == (name == stray)
        assert partition_of_future(name) == (("t", 3) if name == future else None)


@pytest.mark.parametrize("topic", ["t", "t" * 249])
def test_a_deleted_name_fits_into_a_directory(topic: str) -> None:
    name = deleted_name(topic, 12)
    assert is_deleted(name)
    assert len(name) <= 255


def test_a_future_name_is_not_cut() -> None:
    assert not has_too_long_future_name("t" * 213, 0)
    assert has_too_long_future_name("t" * 214, 0)
    assert partition_of_future(future_name("t" * 213, 0)) == ("t" * 213, 0)
