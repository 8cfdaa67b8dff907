from __future__ import annotations

import pytest

from highwater.common.topic_partition import parse_partition_name, partition_name


@pytest.mark.parametrize("key", [("orders", 0), ("orders-2", 17), ("a.b_c-", 2147483647)])
def test_a_name_is_parsed_to_the_partition_that_has_it(key: tuple[str, int]) -> None:
    assert parse_partition_name(partition_name(*key)) == key


@pytest.mark.parametrize(
    "name", ["orders", "orders-", "-1", "orders-07", "orders-1a", "orders-٣", "my orders-1", "o-1\n"]
)
def test_what_no_partition_is_called_is_not_parsed(name: str) -> None:
    assert parse_partition_name(name) is None
