"""The rules of a listener without a socket: who is taken, who has to go, what is logged."""

from __future__ import annotations

import logging

import pytest

from highwater.common.listener_rules import (
    MOST_LINES,
    WINDOW_MS,
    Limits,
    ListenerRules,
    RefusalLog,
    address_key,
    descriptors,
    plain_address,
)

LIMITS = Limits(most=4, most_per_address=3, head_ms=1000)


def rules(limits: Limits = LIMITS, own: frozenset[str] = frozenset()) -> ListenerRules[int]:
    return ListenerRules(limits, RefusalLog(logging.getLogger("rules")), own)


def test_there_is_room_up_to_the_limits() -> None:
    listener = rules()
    peers = ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.2:4"]
    assert [listener.arrived(number, peer, 0) for number, peer in enumerate(peers)] == [None] * 4
    assert len(listener) == 4


def test_the_oldest_silent_connection_of_a_crowd_goes_for_a_new_one() -> None:
    listener = rules()
    assert [listener.arrived(number, f"192.0.2.1:{number}", 0) for number in range(3)] == [None] * 3
    listener.known(0)
    assert listener.arrived(3, "192.0.2.1:3", 0) == 1
    assert listener.arrived(4, "192.0.2.2:4", 0) is None
    # The listener is full: one of the address with the most connections goes, and not the one of another address.
    assert listener.arrived(5, "192.0.2.3:5", 0) == 2
    assert len(listener) == 4


def test_who_is_at_work_does_not_go() -> None:
    listener = rules()
    for number in range(3):
        listener.arrived(number, f"192.0.2.1:{number}", 0)
        listener.known(number)
    assert listener.arrived(3, "192.0.2.1:3", 0) == 3
    listener.waits(0, 0)
    assert listener.arrived(4, "192.0.2.1:4", 0) == 0
    listener.waits(0, 0)  # it has left
    assert listener.late(1000) == [4]


def test_a_proxy_has_no_limit_of_its_own() -> None:
    listener = rules(own=frozenset({"192.0.2.1"}))
    assert [listener.arrived(number, f"192.0.2.1:{number}", 0) for number in range(5)] == [None] * 4 + [0]


def test_a_head_has_to_come_in_time() -> None:
    listener = rules()
    assert listener.is_late_in_ms(0) is None
    listener.arrived(0, "192.0.2.1:0", 0)
    listener.arrived(1, "192.0.2.1:1", 500)
    listener.arrived(2, "192.0.2.1:2", 600)
    listener.known(1)
    assert listener.is_late_in_ms(0) == 1000
    assert listener.late(999) == []
    assert listener.late(1000) == [0]
    listener.waits(1, 1000)
    assert listener.late(1600) == [2]
    assert listener.late(2000) == [1]
    assert len(listener) == 0


def test_whoever_leaves_makes_room_once() -> None:
    listener = rules()
    for number in range(4):
        listener.arrived(number, f"192.0.2.{number}:1", 0)
    listener.left(2)
    listener.left(2)
    assert len(listener) == 3
    assert listener.arrived(4, "192.0.2.9:1", 0) is None


def test_a_network_of_ipv6_is_one_address() -> None:
    assert address_key("2001:db8::1") == address_key("2001:db8::ffff") != address_key("2001:db8:0:1::1")
    assert address_key("fe80::1%eth0") == "fe80::/64"
    assert address_key("::ffff:192.0.2.1") == plain_address("::ffff:192.0.2.1") == "192.0.2.1"
    assert address_key("no address") == "no address"


def test_one_line_for_each_address_and_reason_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog(logging.getLogger("rules"))
    for number in range(10_000):
        log.tell(f"192.0.{number // 256}.{number % 256}:1", "reason", number)
    assert len(caplog.records) == MOST_LINES
    log.tell("192.0.2.1:8", "reason" * 10_000, 2 * WINDOW_MS)
    last = caplog.records[-1].getMessage()
    assert f"({10_000 - MOST_LINES} such connections before this one" in last
    assert len(last) < 500


@pytest.mark.parametrize("limit", [16, 64, 100, 256, 1024, 65_536, 1 << 20])
def test_descriptors_are_left_for_everything_else(limit: int) -> None:
    share = descriptors(limit)
    assert share.files >= 1
    assert share.connections >= 1
    assert limit - share.files - share.connections >= min(limit // 4, 64)
    assert descriptors(1024) == (512, 256)
    assert descriptors(1 << 20).connections > 1_000_000
