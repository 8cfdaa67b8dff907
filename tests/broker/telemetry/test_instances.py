"""When a client instance may ask and push: the cases of Kafka's ClientMetricsManagerTest, by their names."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.telemetry.instances import MOST_INSTANCES, Instance, Instances, Push, text_of_id
from highwater.broker.telemetry.subscriptions import DEFAULT_INTERVAL_MS, Identity, Subscription, subscription_of

MAX_BYTES = 100
INTERVAL_MS = 30_000
MATCHING = {"client_software_name": "apache-kafka-java", "client_software_version": r"3\.5\..*"}
DEFAULT = {
    "metrics": "org.apache.kafka.client.producer.partition.queue.,org.apache.kafka.client.producer.partition.latency",
    "interval.ms": str(INTERVAL_MS),
    "match": ",".join(f"{name}={pattern}" for name, pattern in MATCHING.items()),
}
ZERO, ONE = uuid.UUID(int=0), uuid.UUID(int=1)


def identity(instance_id: uuid.UUID, **other: str) -> Identity:
    known = Identity(text_of_id(instance_id), "client", "apache-kafka-java", "3.5.2", "127.0.0.1", "51000")
    return known._replace(**other)


class Manager:
    """The instances of one broker, and what one client asks of it over one connection."""

    def __init__(self, *settings: Mapping[str, str]) -> None:
        self.instances = Instances(MAX_BYTES)
        self.now_ms = 1_000_000
        self.connection: object = object()
        self.subscribe(*settings)

    def subscribe(self, *settings: Mapping[str, str]) -> None:
        subscriptions = [subscription_of(each) for each in settings]
        assert all(isinstance(each, Subscription) for each in subscriptions)
        self.instances.subscribe(each for each in subscriptions if isinstance(each, Subscription))

    def get(self, instance_id: uuid.UUID | None = None, **other: str) -> tuple[Instance, ErrorCode]:
        return self.instances.get(instance_id, lambda each: identity(each, **other), self.connection, self.now_ms)

    def gets(self, instance_id: uuid.UUID | None = None, **other: str) -> Instance:
        instance, error = self.get(instance_id, **other)
        assert error is ErrorCode.none
        return instance

    def push(
        self,
        instance: Instance,
        *,
        subscription_id: int | None = None,
        is_terminating: bool = False,
        codec: int = 0,
        size_bytes: int = 9,
    ) -> ErrorCode:
        wanted = instance.subscription_id if subscription_id is None else subscription_id
        push = Push(wanted, is_terminating, codec, size_bytes)
        found = self.instances.push(instance.id, push, identity, self.connection, self.now_ms)
        return ErrorCode.none if isinstance(found, Instance) else found


@pytest.fixture
def manager() -> Manager:
    return Manager(DEFAULT)


def test_get_telemetry(manager: Manager) -> None:
    instance = manager.gets()
    assert instance.id not in (ZERO, ONE)
    assert instance.wanted.metrics == tuple(sorted(DEFAULT["metrics"].split(",")))
    assert instance.wanted.interval_ms == INTERVAL_MS


def test_get_telemetry_without_subscription() -> None:
    assert Manager().gets().wanted == ((), DEFAULT_INTERVAL_MS)


def test_a_client_that_matches_nothing_is_asked_for_nothing(manager: Manager) -> None:
    assert manager.gets(client_software_version="3.4.0").wanted == ((), DEFAULT_INTERVAL_MS)


def test_get_telemetry_after_push_interval_time(manager: Manager) -> None:
    instance = manager.gets()
    manager.now_ms += INTERVAL_MS
    assert manager.gets(instance.id) is instance


def test_get_telemetry_all_metric_subscribed_subscription() -> None:
    assert Manager(DEFAULT, {"metrics": "*"}).gets().wanted == (("*",), INTERVAL_MS)


def test_get_telemetry_same_client_immediate_retry_fail(manager: Manager) -> None:
    assert manager.get(manager.gets().id)[1] is ErrorCode.throttling_quota_exceeded


def test_get_telemetry_same_client_immediate_retry_after_push_fail(manager: Manager) -> None:
    """A push that another broker takes still holds up the next request there."""
    instance = manager.gets()
    other = Manager(DEFAULT)
    assert other.push(instance) is ErrorCode.none
    assert other.get(instance.id)[1] is ErrorCode.throttling_quota_exceeded


def test_get_telemetry_update_subscription(manager: Manager) -> None:
    instance = manager.gets()
    before = instance.subscription_id
    manager.subscribe(DEFAULT, {"metrics": "org.apache.kafka.consumer.", "interval.ms": "20000"})
    assert manager.gets(instance.id).subscription_id != before
    assert "org.apache.kafka.consumer." in instance.wanted.metrics
    assert instance.wanted.interval_ms == 20_000


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (ErrorCode.unknown_subscription_id, {"subscription_id": 7}),
        (ErrorCode.unsupported_compression_type, {"codec": 5}),
    ],
)
def test_a_push_that_leads_to_a_request_lets_it_come_at_once(
    manager: Manager, error: ErrorCode, fields: dict[str, int]
) -> None:
    instance = manager.gets()
    assert manager.push(instance, subscription_id=fields.get("subscription_id"), codec=fields.get("codec", 0)) is error
    assert manager.get(instance.id)[1] is ErrorCode.none
    assert manager.get(instance.id)[1] is ErrorCode.throttling_quota_exceeded


def test_push_telemetry(manager: Manager) -> None:
    assert manager.push(manager.gets()) is ErrorCode.none


def test_push_telemetry_on_new_server(manager: Manager) -> None:
    """Another broker, or this one after a start, knows the subscription of a client that it never saw."""
    assert Manager(DEFAULT).push(manager.gets()) is ErrorCode.none


def test_push_telemetry_after_push_interval_time(manager: Manager) -> None:
    instance = manager.gets()
    assert manager.push(instance) is ErrorCode.none
    manager.now_ms += INTERVAL_MS
    assert manager.push(instance) is ErrorCode.none


@pytest.mark.parametrize("instance_id", [ZERO, ONE])
def test_push_telemetry_client_instance_id_invalid(manager: Manager, instance_id: uuid.UUID) -> None:
    push = Push(0, is_terminating=False, codec=0, size_bytes=1)
    outcome = manager.instances.push(instance_id, push, identity, manager.connection, manager.now_ms)
    assert outcome is ErrorCode.invalid_request
    assert len(manager.instances) == 0


def test_push_telemetry_throttle_error(manager: Manager) -> None:
    instance = manager.gets()
    assert manager.push(instance) is ErrorCode.none
    manager.now_ms += INTERVAL_MS - 1
    assert manager.push(instance) is ErrorCode.throttling_quota_exceeded


def test_push_telemetry_terminating_flag(manager: Manager) -> None:
    instance = manager.gets()
    assert manager.push(instance) is ErrorCode.none
    assert manager.push(instance, is_terminating=True) is ErrorCode.none
    assert instance.is_terminating


def test_push_telemetry_next_request_post_terminating_flag(manager: Manager) -> None:
    instance = manager.gets()
    assert manager.push(instance, is_terminating=True) is ErrorCode.none
    for _ in range(3):
        manager.now_ms += INTERVAL_MS
        assert manager.push(instance) is ErrorCode.invalid_request
    manager.subscribe(DEFAULT, {"metrics": "*"})
    assert manager.push(instance) is ErrorCode.invalid_request


def test_push_telemetry_subscription_id_invalid(manager: Manager) -> None:
    instance = manager.gets()
    assert manager.push(instance, subscription_id=1 ^ instance.subscription_id) is ErrorCode.unknown_subscription_id
    manager.now_ms += INTERVAL_MS
    before = instance.subscription_id
    manager.subscribe(DEFAULT, {"metrics": "*"})
    assert manager.push(instance, subscription_id=before) is ErrorCode.unknown_subscription_id


@pytest.mark.parametrize("codec", [-1, 5, 127])
def test_push_telemetry_compression_type_invalid(manager: Manager, codec: int) -> None:
    assert manager.push(manager.gets(), codec=codec) is ErrorCode.unsupported_compression_type


def test_push_telemetry_null_metrics_data(manager: Manager) -> None:
    assert manager.push(manager.gets(), size_bytes=0) is ErrorCode.none


def test_push_telemetry_metrics_too_large(manager: Manager) -> None:
    instance = manager.gets()
    assert manager.push(instance, size_bytes=MAX_BYTES + 1) is ErrorCode.telemetry_too_large
    manager.now_ms += INTERVAL_MS
    assert manager.push(instance, size_bytes=MAX_BYTES) is ErrorCode.none


def test_cache_eviction(manager: Manager) -> None:
    """A minute, or three intervals."""
    for settings, life_ms in ((DEFAULT, 3 * INTERVAL_MS), ({"interval.ms": "100"}, 60_000)):
        manager.subscribe(settings)
        manager.gets()
        for ends_ms, count in ((life_ms - 1, 1), (life_ms, 0)):
            manager.instances.sweep(manager.now_ms + ends_ms)
            assert len(manager.instances) == count


def test_cache_eviction_with_multiple_clients(manager: Manager) -> None:
    first, _ = manager.gets(), manager.gets()
    manager.now_ms += INTERVAL_MS
    manager.push(first)
    manager.instances.sweep(manager.now_ms + 2 * INTERVAL_MS)
    assert len(manager.instances) == 1


def test_requests_of_others_drop_those_that_are_silent(manager: Manager) -> None:
    manager.gets()
    manager.now_ms += 3 * INTERVAL_MS
    manager.gets()
    assert len(manager.instances) == 1


def test_the_least_recently_used_instance_goes_when_there_are_too_many(manager: Manager) -> None:
    first, second = manager.gets(), manager.gets()
    manager.push(first)
    for _ in range(MOST_INSTANCES - 1):
        manager.gets()
    assert len(manager.instances) == MOST_INSTANCES
    assert manager.get(second.id)[1] is ErrorCode.none, "it is a new one"
    assert len(manager.instances) == MOST_INSTANCES


def test_an_instance_goes_with_its_connection(manager: Manager) -> None:
    instance = manager.gets()
    before, manager.connection = manager.connection, object()
    manager.push(instance)
    manager.instances.disconnected(instance.id, before)
    assert len(manager.instances) == 1, "it has another connection by now"
    manager.instances.disconnected(instance.id, manager.connection)
    manager.instances.disconnected(instance.id, manager.connection)
    assert len(manager.instances) == 0


def test_a_subscription_id_is_that_of_kafka() -> None:
    """CRC-32C of the printed set and interval, and Java's hash of the instance id (Uuid.hashCode)."""
    instance_id = uuid.UUID("00000000-0000-0000-0000-000000000002")
    instance, _ = Manager().get(instance_id)
    assert instance.subscription_id & 0xFFFFFFFF == 0xD4C75BDE ^ 2, "crc32c(b'[]300000') ^ 2"
