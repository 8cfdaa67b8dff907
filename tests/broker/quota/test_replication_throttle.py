"""The throttle of replication: the cases of Kafka 3.9's ReplicationQuotaManagerTest, and what its settings say."""

from __future__ import annotations

from highwater.broker.quota.replication_throttle import ReplicationThrottle


def throttle(bytes_per_second: int = 100) -> ReplicationThrottle:
    made = ReplicationThrottle(10, 1000)
    made.bytes_per_second = bytes_per_second
    return made


def test_only_replicas_of_this_broker_that_are_named_are_throttled() -> None:
    made = throttle()
    made.set_throttled("t", ["1:7", "2:7", "3:8", "", f"4:{5_000 * '7'}"], broker_id=7)
    assert made.is_active
    assert [index for index in range(5) if made.is_throttled("t", index)] == [1, 2]
    assert not made.is_throttled("u", 1)


def test_every_replica_of_a_topic_can_be_throttled() -> None:
    made = throttle()
    made.set_throttled("t", ["*"], broker_id=7)
    assert made.is_throttled("t", 0)
    assert not made.is_throttled("other", 0)


def test_what_is_not_throttled_any_more_costs_nothing() -> None:
    made = throttle()
    for replicas in ([], ["1:8"], ["nonsense"]):
        made.set_throttled("t", ["1:7"], broker_id=7)
        made.set_throttled("t", replicas, broker_id=7)
        assert not made.is_active
    made.set_throttled("t", ["*"], broker_id=7)
    made.forget("t")
    assert not made.is_active


def test_the_rate_is_exceeded_and_comes_back_below_as_time_passes() -> None:
    made = throttle(100)
    assert not made.is_exceeded(0)
    made.record(1, 1500)
    assert not made.is_exceeded(1500)
    made.record(149, 1500)
    assert not made.is_exceeded(1500)  # 150 bytes in 1.5 s
    made.record(1, 1500)
    assert made.is_exceeded(1500)
    assert not made.is_exceeded(2000)
    made.record(99, 2500)
    assert not made.is_exceeded(2500)  # 250 bytes in 2.5 s
    made.record(1, 2500)
    assert made.is_exceeded(2500)
    assert not made.is_exceeded(4500)


def test_without_a_rate_nothing_is_exceeded() -> None:
    made = ReplicationThrottle(11, 1000)
    made.record(2**40, 0)
    assert not made.is_exceeded(0)
