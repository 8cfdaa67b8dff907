"""Quotas under a clock of numbers."""

from __future__ import annotations

import pytest

from highwater.broker.quota.client_quotas import MAX_METERS, ClientQuotas
from highwater.broker.security.principal import ANONYMOUS
from highwater.broker.settings.quota_entities import DEFAULT, Entity, Quotas, limit_of

RATE = "producer_byte_rate"


def quotas(limits: Quotas, *, windows: int = 11) -> ClientQuotas:
    return ClientQuotas(windows, 1000, limits)


def test_without_quotas_nobody_is_throttled() -> None:
    none = quotas({})
    assert not none.limits_bytes
    assert none.produced(ANONYMOUS, "a", 10**12, 0) == 0
    assert none.most_fetch_bytes(ANONYMOUS, "a", 0) is None


def test_a_producer_above_its_rate_is_throttled_until_what_it_sent_is_forgotten() -> None:
    limited = quotas({Entity(None, "a"): {RATE: 1000}})
    assert limited.produced(ANONYMOUS, "a", 10_000, 0) == 0
    assert limited.produced(ANONYMOUS, "a", 5_000, 0) == 5_000
    assert limited.produced(ANONYMOUS, "a", 0, 5_000) == 5_000  # the rate is taken over ten seconds at least
    assert limited.produced(ANONYMOUS, "a", 0, 11_000) == 0
    assert limited.produced(ANONYMOUS, "b", 10**9, 0) == 0


def test_a_producer_that_obeys_gets_its_rate_in_the_long_run() -> None:
    limited = quotas({Entity(None, DEFAULT): {RATE: 100_000}})
    now_ms = sent = 0
    while now_ms < 120_000:
        now_ms += limited.produced(ANONYMOUS, "a", 16_384, now_ms) + 1
        sent += 16_384
    assert sent / 120 == pytest.approx(100_000, rel=0.15)


def test_a_fetch_above_the_rate_is_not_counted_and_may_be_had_later() -> None:
    limited = quotas({Entity(None, "a"): {"consumer_byte_rate": 1000}})
    assert limited.most_fetch_bytes(ANONYMOUS, "a", 0) == 10_000
    assert limited.fetched(ANONYMOUS, "a", 9_000, 0) == 0
    throttle_ms = limited.fetched(ANONYMOUS, "a", 2_000, 0)
    assert throttle_ms == 1_000
    assert limited.fetched(ANONYMOUS, "a", 1_000, 0) == 0
    assert limited.fetched(ANONYMOUS, "a", 2_000, 20_000) == 0


def test_a_batch_larger_than_the_quota_ever_lets_pass_is_read_all_the_same() -> None:
    limited = quotas({Entity(None, "a"): {"consumer_byte_rate": 10}})
    assert limited.fetched(ANONYMOUS, "a", 1_000_000, 0) == 0
    assert limited.fetched(ANONYMOUS, "a", 1_000_000, 5_000) > 0
    assert limited.fetched(ANONYMOUS, "a", 1_000_000, 11_000) == 0


PRECEDENCE = [
    Entity(ANONYMOUS, "a"),
    Entity(ANONYMOUS, DEFAULT),
    Entity(ANONYMOUS, None),
    Entity(DEFAULT, "a"),
    Entity(DEFAULT, DEFAULT),
    Entity(DEFAULT, None),
    Entity(None, "a"),
    Entity(None, DEFAULT),
]


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_precedence(first: int) -> None:
    limits = {entity: {RATE: float(number)} for number, entity in enumerate(PRECEDENCE) if number >= first}
    found = limit_of(limits, RATE, ANONYMOUS, "a")
    assert found is not None
    assert found[1] == first


def test_a_limit_of_another_kind_does_not_hide_one_further_down() -> None:
    limits = {Entity(None, "a"): {"consumer_byte_rate": 1.0}, Entity(None, DEFAULT): {RATE: 2.0}}
    assert limit_of(limits, RATE, ANONYMOUS, "a") == (Entity(None, "a"), 2.0)


def test_a_default_for_clients_is_each_ones_own_and_one_for_a_user_is_shared() -> None:
    own = quotas({Entity(None, DEFAULT): {RATE: 1000}})
    assert own.produced(ANONYMOUS, "a", 10_000, 0) == own.produced(ANONYMOUS, "b", 10_000, 0) == 0
    shared = quotas({Entity(DEFAULT, None): {RATE: 1000}})
    assert shared.produced(ANONYMOUS, "a", 10_000, 0) == 0
    assert shared.produced(ANONYMOUS, "b", 10_000, 0) == 10_000


def test_a_changed_quota_holds_at_once_for_what_was_moved_before() -> None:
    limited = quotas({Entity(None, "a"): {RATE: 1000}})
    assert limited.produced(ANONYMOUS, "a", 10_000, 0) == 0
    limited.change({Entity(None, "a"): {RATE: 500}})
    assert limited.produced(ANONYMOUS, "a", 0, 0) == 10_000
    limited.change({})
    assert limited.produced(ANONYMOUS, "a", 10**9, 0) == 0


def test_a_client_of_ever_new_names_does_not_swell_the_broker() -> None:
    limited = quotas({Entity(None, DEFAULT): {RATE: 1000}})
    for number in range(2 * MAX_METERS + 10):
        limited.produced(ANONYMOUS, f"client {number}", 1, number // 1000)
    assert len(limited._meters) <= MAX_METERS
    assert len(limited._meter_of_client) <= MAX_METERS


def test_users_who_authenticated_have_their_own_limits() -> None:
    limited = ClientQuotas(11, 1000, {Entity("alice", None): {"producer_byte_rate": 1000.0}})
    assert limited.produced("alice", "a", 20_000, 0) == 10_000
    assert limited.produced(ANONYMOUS, "a", 20_000, 0) == 0
    assert limited.produced("bob", "a", 20_000, 0) == 0


def test_an_address_makes_its_connections_and_each_above_is_closed_later() -> None:
    """KIP-612: those above are not counted, so that the next one may be used when its time has come."""
    quotas = ClientQuotas(11, 1000, {Entity(ip="192.0.2.1"): {"connection_creation_rate": 2.0}})
    taken = [quotas.connected("192.0.2.1", 0) for _ in range(20)]
    assert taken == [0] * 20, "what ten silent seconds left"
    assert [quotas.connected("192.0.2.1", 0) for _ in range(3)] == [500] * 3
    assert quotas.connected("192.0.2.2", 0) == 0
    assert quotas.connected("192.0.2.1", 400) == 100
    assert quotas.connected("192.0.2.1", 500) == 0
    assert quotas.connected("192.0.2.1", 11_000) == 0
    quotas.change({Entity(ip=DEFAULT): {"connection_creation_rate": 0.0}, Entity(ip="192.0.2.1"): {}})
    assert quotas.connected("192.0.2.9", 11_000) == 1000
    quotas.change({})
    assert quotas.connected("192.0.2.9", 11_000) == 0
    assert not quotas.limits_bytes


def test_addresses_without_end_are_forgotten() -> None:
    quotas = ClientQuotas(11, 1000, {Entity(ip=DEFAULT): {"connection_creation_rate": 1.0}})
    for number in range(3 * MAX_METERS):
        quotas.connected(f"192.0.{number}", number)
    assert len(quotas._meters) <= MAX_METERS


def test_a_limit_that_nothing_can_keep_gives_a_throttle_time_that_fits_into_an_answer() -> None:
    for limit in (0.0, 1.0):
        limited = quotas({Entity(None, "a"): {RATE: limit}})
        assert limited.produced(ANONYMOUS, "a", 10**9, 0) == 2**31 - 1


SECOND_NS = 10**9


def test_requests_that_took_more_than_their_share_hold_up_those_that_come_after() -> None:
    limited = quotas({Entity(None, "a"): {"request_percentage": 10.0}})
    assert limited.limits_requests
    assert not limited.limits_bytes
    assert limited.request_throttle_ms(ANONYMOUS, "a", 0) == 0
    limited.handled(ANONYMOUS, "a", SECOND_NS, 0)
    assert limited.request_throttle_ms(ANONYMOUS, "a", 0) == 0, "a tenth of ten seconds"
    limited.handled(ANONYMOUS, "a", SECOND_NS // 20, 0)
    assert limited.request_throttle_ms(ANONYMOUS, "a", 0) == 500
    limited.handled(ANONYMOUS, "a", 10 * SECOND_NS, 0)
    assert limited.request_throttle_ms(ANONYMOUS, "a", 0) == 1000, "one window at most"
    assert limited.request_throttle_ms(ANONYMOUS, "b", 0) == 0
    assert limited.request_throttle_ms(ANONYMOUS, "a", 11_000) == 0


def test_a_strict_quota_refuses_what_others_only_delay() -> None:
    limited = ClientQuotas(11, 1000, {Entity("ann"): {"controller_mutation_rate": 2.0}}, mutation_burst_s=5)

    def mutated(count: int, now_ms: int, *, is_strict: bool, client_id: str = "a") -> int:
        return limited.mutated("ann", client_id, count, now_ms, is_strict=is_strict)

    assert mutated(11, 0, is_strict=True) == 0, "ten were saved, and the last change may owe"
    assert mutated(1, 0, is_strict=True, client_id="b") == 500
    assert mutated(1, 0, is_strict=True) == 500, "what is refused is not counted"
    assert mutated(1, 500, is_strict=True) == 0
    assert mutated(1, 500, is_strict=False) == 1000
    assert mutated(1, 500, is_strict=False) == 1500
    limited.change({Entity("ann"): {"controller_mutation_rate": 1.0}})
    assert mutated(1, 500, is_strict=True) == 3000, "debts stay"
    limited.change({})
    assert mutated(10**6, 500, is_strict=True) == 0


def test_changes_of_clients_without_end_are_forgotten() -> None:
    limited = quotas({Entity(None, DEFAULT): {"controller_mutation_rate": 1.0}})
    for number in range(2 * MAX_METERS):
        limited.mutated(ANONYMOUS, f"client-{number}", 1, number, is_strict=True)
    assert len(limited._buckets) <= MAX_METERS
