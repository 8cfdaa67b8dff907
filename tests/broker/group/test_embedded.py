"""Subscriptions and assignments inside of JoinGroup and SyncGroup: what clients send can be of any form."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.group.embedded import (
    EmbeddedSubscription,
    read_assignment,
    read_subscription,
    subscribed_topics,
    write_assignment,
)
from tests.broker.group.consumer_bytes import assignment, subscription

# Of the Java client 4.4: topics a and b, of which a-0 and a-2 are its own, generation 7, rack r.
OF_JAVA = bytes.fromhex(
    "0003 00000002 0001 61 0001 62 ffffffff 00000001 0001 61 00000002 00000000 00000002 00000007 0001 72"
)


def test_a_subscription_of_java() -> None:
    read = read_subscription(OF_JAVA)
    assert read == EmbeddedSubscription(3, frozenset("ab"), {"a": frozenset([0, 2])}, "r")


@pytest.mark.parametrize("version", range(6))
def test_each_version_is_read(version: int) -> None:
    """A newer one begins like version 3."""
    more = b"what is new" if version > 3 else b""
    read = read_subscription(subscription(["a"], {"a": [1]}, version=version, rack_id="r") + more)
    assert read is not None
    assert (read.version, read.topics) == (version, frozenset("a"))
    assert read.owned == ({"a": {1}} if version >= 1 else {})
    assert read.rack_id == ("r" if version >= 3 else None)


@pytest.mark.parametrize("data", [b"", b"\0", OF_JAVA[:-1], subscription(["a"], version=-1)])
def test_what_is_no_subscription(data: bytes) -> None:
    assert read_subscription(data) is None


def test_topics_are_known_though_the_rest_is_not() -> None:
    assert subscribed_topics(OF_JAVA[:14]) == frozenset("ab")
    assert subscribed_topics(OF_JAVA[:10]) is None


@pytest.mark.parametrize("version", [0, 3, 7])
def test_an_assignment(version: int) -> None:
    written = write_assignment(version, {"b": [2, 1], "a": [], "c": (0,)})
    assert written[1] == min(version, 3)
    read = read_assignment(written)
    assert read is not None
    assert (read.partitions, read.has_user_data) == ({"b": {1, 2}, "c": {0}}, False)


def test_an_assignment_with_more() -> None:
    read = read_assignment(assignment({"a": [0]}, user_data=b"\0\0\0\1x"))
    assert read is not None
    assert read.has_user_data
    nothing = read_assignment(b"")
    assert nothing is not None
    assert nothing.partitions == {}
    assert read_assignment(b"\0\0\0\0") is None


def test_a_topic_that_is_named_again_and_again_takes_no_longer() -> None:
    """In one pass that is a fraction of a second; where each name makes a new set, it is many minutes."""
    once = subscription([], {"t": range(300_000)}, version=1)
    again = 100_000
    named = once.replace(b"\0\0\0\1\0\1t", struct.pack(">i", 1 + again) + b"\0\1t", 1)
    read = read_subscription(named + again * b"\0\1t\0\0\0\0")
    assert read is not None
    assert len(read.owned["t"]) == 300_000


@given(st.binary(max_size=60))
def test_anything_is_read_or_is_nothing(data: bytes) -> None:
    for read in (read_subscription, read_assignment, subscribed_topics):
        read(b"\0\3" + data)
        read(data)
