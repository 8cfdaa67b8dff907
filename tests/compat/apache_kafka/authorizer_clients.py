"""Cases of AuthorizerIntegrationTest that a producer or a consumer shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from highwater.kafka.acl import Operation
from tests.compat.apache_kafka.authorizer_world import (
    CLUSTER,
    GROUP,
    LOCAL,
    PREFIXED,
    TOPIC,
    TRANSACTION,
    Check,
    World,
    all_of,
    attempt,
    mirrors,
    quiet_until,
    received,
    sent,
)

CLIENT_CASES: Final[dict[str, Check]] = {}
_case = partial(mirrors, CLIENT_CASES)
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
DESCRIBE, ALL, IDEMPOTENT_WRITE = Operation.DESCRIBE, Operation.ALL, Operation.IDEMPOTENT_WRITE

# Producers


@_case("ProduceWithNoTopicAccess")
def _(world: World) -> Any:
    world.create()
    return world.produce()


@_case("ProduceWithTopicDescribe")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, DESCRIBE)
    return world.produce()


@_case("ProduceWithTopicRead")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, READ)
    return world.produce()


@_case("ProduceWithTopicWrite")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, WRITE)
    return world.produce()


@_case("CreatePermissionOnTopicToWriteToNonExistentTopic")
def _(world: World) -> Any:
    world.allow(TOPIC, WRITE)
    before = world.errors("metadata", 12, topics=[{"name": world.topic}], allow_auto_topic_creation=True)
    world.allow(TOPIC, CREATE)
    return before, world.produce(allow_auto_create_topics=True), world.names()


@_case("CreatePermissionOnClusterToWriteToNonExistentTopic")
def _(world: World) -> Any:
    world.allow(TOPIC, WRITE)
    before = world.errors("metadata", 12, topics=[{"name": world.topic}], allow_auto_topic_creation=True)
    world.allow(CLUSTER, CREATE)
    return before, world.produce(allow_auto_create_topics=True), world.names()


@_case("shouldSendSuccessfullyWhenIdempotentAndHasCorrectACL")
def _(world: World) -> Any:
    world.create()
    world.allow(CLUSTER, IDEMPOTENT_WRITE)
    world.allow(TOPIC, WRITE)
    return world.produce(enable_idempotence=True)


@_case("IdempotentProducerNoIdempotentWriteAclInInitProducerId")
def _(world: World) -> Any:
    """READ allows no producer id; WRITE on any topic does."""
    world.create()
    world.allow(TOPIC, READ)
    fields = {"transactional_id": None, "transaction_timeout": 0}
    refused = world.errors("init_producer_id", 4, **fields)
    world.allow(TOPIC, WRITE, name="another")
    return refused, world.errors("init_producer_id", 4, **fields)


@_case("IdempotentProducerNoIdempotentWriteAclInProduce")
def _(world: World) -> Any:
    """The right to write is taken away between two records."""
    world.create()
    world.allow(CLUSTER, IDEMPOTENT_WRITE)
    world.allow(TOPIC, WRITE)
    producer = world.producer(enable_idempotence=True)
    first = sent(producer, world.topic)
    world.revoke(CLUSTER, IDEMPOTENT_WRITE)
    second = sent(producer, world.topic)
    world.revoke(TOPIC, WRITE)
    world.allow(TOPIC, DESCRIBE)
    return first, second, sent(producer, world.topic)


@_case("RetryProducerInitializationAfterPermissionFix")
def _(world: World) -> Any:
    world.create()
    fields = {"transactional_id": None, "transaction_timeout": 0}
    before = world.errors("init_producer_id", 4, **fields)
    world.allow(TOPIC, WRITE)
    return before, world.errors("init_producer_id", 4, **fields), world.produce(enable_idempotence=True)


# Transactions


def _transactional(world: World) -> Any:
    return world.producer(transactional_id=world.transaction, transaction_timeout_ms=60_000)


def _begun(world: World) -> Any:
    producer = _transactional(world)
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


@_case("TransactionalProducerInitTransactionsNoWriteTransactionalIdAcl")
def _(world: World) -> Any:
    world.allow(TRANSACTION, DESCRIBE)
    return attempt(_transactional(world).init_transactions, 30)


@_case("TransactionalProducerInitTransactionsNoDescribeTransactionalIdAcl")
def _(world: World) -> Any:
    return attempt(_transactional(world).init_transactions, 30)


@_case("shouldInitTransactionsWhenAclSet")
def _(world: World) -> Any:
    world.allow(TRANSACTION, WRITE)
    return attempt(_transactional(world).init_transactions, 30)


@_case(
    "TransactionalProducerTopicAuthorizationExceptionInSendCallback",
    "TransactionalProducerTopicAuthorizationExceptionInCommit",
)
def _(world: World) -> Any:
    world.create(world.topic, world.other)
    world.allow(TRANSACTION, WRITE)
    world.allow(TOPIC, DESCRIBE, name=world.other)
    producer = _begun(world)
    return sent(producer, world.other), attempt(producer.commit_transaction, 30)


@_case("shouldSuccessfullyAbortTransactionAfterTopicAuthorizationException")
def _(world: World) -> Any:
    world.create(world.topic, world.other)
    world.allow(TRANSACTION, WRITE)
    world.allow(TOPIC, WRITE)
    world.allow(TOPIC, DESCRIBE, name=world.other)
    producer = _begun(world)
    return sent(producer, world.topic), sent(producer, world.other), attempt(producer.abort_transaction, 30)


@_case("shouldThrowTransactionalIdAuthorizationExceptionWhenNoTransactionAccessDuringSend")
def _(world: World) -> Any:
    world.create()
    world.allow(TRANSACTION, WRITE)
    world.allow(TOPIC, WRITE)
    producer = _begun(world)
    world.revoke(TRANSACTION, WRITE)
    return sent(producer, world.topic)


@_case("shouldThrowTransactionalIdAuthorizationExceptionWhenNoTransactionAccessOnEndTransaction")
def _(world: World) -> Any:
    world.create()
    world.allow(TRANSACTION, WRITE)
    world.allow(TOPIC, WRITE)
    producer = _begun(world)
    first = sent(producer, world.topic)
    world.revoke(TRANSACTION, WRITE)
    return first, attempt(producer.commit_transaction, 30)


def _offsets_sent(world: World, producer: Any) -> str:
    consumer = world.consumer()
    try:
        wanted = [TopicPartition(world.topic, 0, 1)]
        return attempt(producer.send_offsets_to_transaction, wanted, consumer.consumer_group_metadata(), 30)
    finally:
        consumer.close()


@_case("shouldThrowTransactionalIdAuthorizationExceptionWhenNoTransactionAccessOnSendOffsetsToTxn")
def _(world: World) -> Any:
    world.create()
    world.allow(TRANSACTION, WRITE)
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ, WRITE)
    producer = _begun(world)
    world.revoke(TRANSACTION, WRITE)
    return _offsets_sent(world, producer)


@_case("SendOffsetsWithNoConsumerGroupDescribeAccess")
def _(world: World) -> Any:
    world.create()
    world.allow(TRANSACTION, WRITE)
    world.allow(TOPIC, READ, WRITE)
    return _offsets_sent(world, _begun(world))


@_case("SendOffsetsWithNoConsumerGroupWriteAccess")
def _(world: World) -> Any:
    world.create()
    world.allow(TRANSACTION, WRITE)
    world.allow(TOPIC, READ, WRITE)
    world.allow(GROUP, DESCRIBE)
    return _offsets_sent(world, _begun(world))


# Consumers


@_case("ConsumeUsingAssignWithNoAccess")
def _(world: World) -> Any:
    world.fill()
    return world.consume()


@_case("SimpleConsumeWithOffsetLookupAndNoGroupAccess")
def _(world: World) -> Any:
    """A committed offset is looked up, for which the group is needed."""
    world.fill()
    world.allow(TOPIC, READ)
    consumer = world.consumer()
    try:
        consumer.assign([TopicPartition(world.topic, 0)])
        return received(consumer)
    finally:
        consumer.close()


@_case("SimpleConsumeWithExplicitSeekAndNoGroupAccess")
def _(world: World) -> Any:
    world.fill()
    world.allow(TOPIC, READ)
    return world.consume()


@_case("ConsumeWithoutTopicDescribeAccess")
def _(world: World) -> Any:
    world.fill()
    world.allow(GROUP, READ)
    consumer = world.consumer()
    try:
        consumer.assign([TopicPartition(world.topic, 0, OFFSET_BEGINNING)])
        subscribed = world.consume(subscribe=True)
        return subscribed, quiet_until(consumer, lambda: world.allow(TOPIC, READ))
    finally:
        consumer.close()


@_case("ConsumeWithTopicDescribe")
def _(world: World) -> Any:
    world.fill()
    world.allow(GROUP, READ)
    world.allow(TOPIC, DESCRIBE)
    return world.consume(), world.consume(subscribe=True)


@_case("ConsumeWithTopicWrite")
def _(world: World) -> Any:
    world.fill()
    world.allow(GROUP, READ)
    world.allow(TOPIC, WRITE)
    return world.consume(), world.consume(subscribe=True)


@_case("ConsumeWithTopicAndGroupRead")
def _(world: World) -> Any:
    world.fill()
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ)
    return world.consume(), world.consume(subscribe=True)


def _by_pattern(world: World, pattern: str) -> str:
    return world.consume(pattern, subscribe=True)


@_case("PatternSubscriptionWithNoTopicAccess")
def _(world: World) -> Any:
    world.fill()
    world.allow(GROUP, READ)
    consumer = world.consumer()
    try:
        consumer.subscribe([f"^{world.topic}.*"])
        return quiet_until(consumer, lambda: world.allow(TOPIC, READ))
    finally:
        consumer.close()


@_case("PatternSubscriptionWithTopicDescribeOnlyAndGroupRead")
def _(world: World) -> Any:
    world.fill()
    world.allow(GROUP, READ)
    world.allow(TOPIC, DESCRIBE)
    return _by_pattern(world, f"^{world.topic}.*")


@_case("PatternSubscriptionWithTopicAndGroupRead")
def _(world: World) -> Any:
    """A second topic that matches, and that the client may not see, is left out."""
    world.fill(world.topic, world.other)
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ)
    return _by_pattern(world, f"^({world.topic}|{world.other})")


@_case("PatternSubscriptionMatchingInternalTopic")
def _(world: World) -> Any:
    """Each topic by a pattern of its own: of two topics, either may bring the first record."""
    world.fill()
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ)
    world.allow(TOPIC, READ, name="__consumer_offsets")
    return _by_pattern(world, f"^{world.topic}"), _by_pattern(world, "^__consumer_offsets")


@_case("PatternSubscriptionMatchingInternalTopicWithDescribeOnlyPermission")
def _(world: World) -> Any:
    world.fill()
    world.allow(GROUP, READ)
    world.allow(TOPIC, DESCRIBE, name="__consumer_offsets")
    return _by_pattern(world, "^__consumer_offsets")


@_case("PatternSubscriptionNotMatchingInternalTopic")
def _(world: World) -> Any:
    world.fill()
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ)
    return _by_pattern(world, f"^{world.topic}$")


def _read_what_is_not_there(world: World, then: Callable[[], None]) -> Any:
    """A consumer of a topic that is not there makes it, once it may."""
    asked = {"topics": [{"name": world.topic}], "allow_auto_topic_creation": True}
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ)
    before = world.errors("metadata", 12, **asked)
    then()
    world.errors("metadata", 12, **asked)
    return before, world.made()


@_case("CreatePermissionOnTopicToReadFromNonExistentTopic")
def _(world: World) -> Any:
    return _read_what_is_not_there(world, lambda: world.allow(TOPIC, CREATE))


@_case("CreatePermissionOnClusterToReadFromNonExistentTopic")
def _(world: World) -> Any:
    return _read_what_is_not_there(world, lambda: world.allow(CLUSTER, CREATE))


@_case("CreateAndCloseConsumerWithNoAccess")
def _(world: World) -> Any:
    """One that never asked, and one that was refused: either closes without an error."""
    world.create()
    fresh = attempt(world.consumer().close)
    consumer = world.consumer()
    consumer.subscribe([world.topic])
    told = all_of(consumer, {"GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"})
    return fresh, told, attempt(consumer.close)


# Offsets


@_case("CommitWithNoAccess")
def _(world: World) -> Any:
    world.create()
    return world.commit()


@_case("CommitWithNoTopicAccess")
def _(world: World) -> Any:
    world.create()
    world.allow(GROUP, READ)
    return world.commit()


@_case("CommitWithTopicWrite")
def _(world: World) -> Any:
    world.create()
    world.allow(GROUP, READ)
    world.allow(TOPIC, WRITE)
    return world.commit()


@_case("CommitWithTopicDescribe")
def _(world: World) -> Any:
    world.create()
    world.allow(GROUP, READ)
    world.allow(TOPIC, DESCRIBE)
    return world.commit()


@_case("CommitWithNoGroupAccess")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, READ)
    return world.commit()


@_case("CommitWithTopicAndGroupRead")
def _(world: World) -> Any:
    world.create()
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ)
    return world.commit(), world.committed()


@_case("OffsetFetchWithNoAccess")
def _(world: World) -> Any:
    world.create()
    world.commit_as_admin()
    return world.committed()


@_case("OffsetFetchWithNoGroupAccess")
def _(world: World) -> Any:
    world.create()
    world.commit_as_admin()
    world.allow(TOPIC, READ)
    return world.committed()


@_case("OffsetFetchWithNoTopicAccess")
def _(world: World) -> Any:
    world.create()
    world.commit_as_admin()
    world.allow(GROUP, READ)
    return world.committed()


@_case("OffsetFetchTopicDescribe")
def _(world: World) -> Any:
    world.create()
    world.commit_as_admin()
    world.allow(GROUP, READ)
    world.allow(TOPIC, DESCRIBE)
    return world.committed()


@_case("OffsetFetchWithTopicAndGroupRead")
def _(world: World) -> Any:
    world.create()
    world.commit_as_admin()
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ)
    return world.committed()


# Hosts and prefixes


@_case("HostAddressBasedAcls")
def _(world: World) -> Any:
    """First only another host may, and then also the client's."""
    world.create()
    world.allow(TOPIC, WRITE, host="10.1.2.3")
    elsewhere = world.produce()
    world.allow(TOPIC, WRITE, host=LOCAL)
    return elsewhere, world.produce()


@_case("PrefixAcls")
def _(world: World) -> Any:
    world.create(world.topic, world.other)
    world.allow(TOPIC, WRITE, name=world.topic[:-1], pattern=PREFIXED)
    both = world.produce(world.topic, world.other)
    world.deny(TOPIC, ALL, name=world.topic, pattern=PREFIXED)
    return both, world.produce(world.topic, world.other)
