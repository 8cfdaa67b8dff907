"""Cases of AuthorizerIntegrationTest that a producer or a consumer shows."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from highwater.kafka.acl import Operation, ResourceType
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
    asks_once,
    attempt,
    mirrors,
    nothing,
    quiet_until,
    received,
    sent,
)

CLIENT_CASES: Final[dict[str, Check]] = {}
_case = partial(mirrors, CLIENT_CASES)
_once = partial(asks_once, CLIENT_CASES)
READ, WRITE, CREATE = Operation.READ, Operation.WRITE, Operation.CREATE
DESCRIBE, ALL, IDEMPOTENT_WRITE = Operation.DESCRIBE, Operation.ALL, Operation.IDEMPOTENT_WRITE
_TRANSACTIONAL: Final = ((TRANSACTION, WRITE), (TOPIC, READ), (TOPIC, WRITE))

# Producers


_once(
    World.create,
    World.produce,
    {
        "ProduceWithNoTopicAccess": (),
        "ProduceWithTopicDescribe": [(TOPIC, DESCRIBE)],
        "ProduceWithTopicRead": [(TOPIC, READ)],
        "ProduceWithTopicWrite": [(TOPIC, WRITE)],
    },
)
_once(
    World.create,
    lambda world: world.produce(enable_idempotence=True),
    {"shouldSendSuccessfullyWhenIdempotentAndHasCorrectACL": [(CLUSTER, IDEMPOTENT_WRITE), (TOPIC, WRITE)]},
)


def _writes_to_what_is_not_there(kind: ResourceType, world: World) -> Any:
    world.allow(TOPIC, WRITE)
    before = world.errors("metadata", 12, topics=[{"name": world.topic}], allow_auto_topic_creation=True)
    world.allow(kind, CREATE)
    return before, world.produce(allow_auto_create_topics=True), world.names()


_case("CreatePermissionOnTopicToWriteToNonExistentTopic")(partial(_writes_to_what_is_not_there, TOPIC))
_case("CreatePermissionOnClusterToWriteToNonExistentTopic")(partial(_writes_to_what_is_not_there, CLUSTER))


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


_once(
    nothing,
    lambda world: attempt(_transactional(world).init_transactions, 30),
    {
        "TransactionalProducerInitTransactionsNoDescribeTransactionalIdAcl": (),
        "TransactionalProducerInitTransactionsNoWriteTransactionalIdAcl": [(TRANSACTION, DESCRIBE)],
        "shouldInitTransactionsWhenAclSet": [(TRANSACTION, WRITE)],
    },
)


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


_once(
    World.create,
    lambda world: _offsets_sent(world, _begun(world)),
    {
        "SendOffsetsWithNoConsumerGroupDescribeAccess": _TRANSACTIONAL,
        "SendOffsetsWithNoConsumerGroupWriteAccess": [*_TRANSACTIONAL, (GROUP, DESCRIBE)],
    },
)


# Consumers


_once(
    World.fill,
    World.consume,
    {
        "ConsumeUsingAssignWithNoAccess": (),
        "SimpleConsumeWithExplicitSeekAndNoGroupAccess": [(TOPIC, READ)],
    },
)
_once(
    World.fill,
    lambda world: (world.consume(), world.consume(subscribe=True)),
    {
        "ConsumeWithTopicDescribe": [(GROUP, READ), (TOPIC, DESCRIBE)],
        "ConsumeWithTopicWrite": [(GROUP, READ), (TOPIC, WRITE)],
        "ConsumeWithTopicAndGroupRead": [(GROUP, READ), (TOPIC, READ)],
    },
)


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


_once(
    World.fill,
    lambda world: _by_pattern(world, f"^{world.topic}.*"),
    {"PatternSubscriptionWithTopicDescribeOnlyAndGroupRead": [(GROUP, READ), (TOPIC, DESCRIBE)]},
)
_once(
    World.fill,
    lambda world: _by_pattern(world, f"^{world.topic}$"),
    {"PatternSubscriptionNotMatchingInternalTopic": [(GROUP, READ), (TOPIC, READ)]},
)


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


def _reads_what_is_not_there(kind: ResourceType, world: World) -> Any:
    """A consumer of a topic that is not there makes it, once it may."""
    asked = {"topics": [{"name": world.topic}], "allow_auto_topic_creation": True}
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ)
    before = world.errors("metadata", 12, **asked)
    world.allow(kind, CREATE)
    world.errors("metadata", 12, **asked)
    return before, world.made()


_case("CreatePermissionOnTopicToReadFromNonExistentTopic")(partial(_reads_what_is_not_there, TOPIC))
_case("CreatePermissionOnClusterToReadFromNonExistentTopic")(partial(_reads_what_is_not_there, CLUSTER))


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


_once(
    World.create,
    World.commit,
    {
        "CommitWithNoAccess": (),
        "CommitWithNoTopicAccess": [(GROUP, READ)],
        "CommitWithTopicWrite": [(GROUP, READ), (TOPIC, WRITE)],
        "CommitWithTopicDescribe": [(GROUP, READ), (TOPIC, DESCRIBE)],
        "CommitWithNoGroupAccess": [(TOPIC, READ)],
    },
)
_once(
    World.create,
    lambda world: (world.commit(), world.committed()),
    {"CommitWithTopicAndGroupRead": [(GROUP, READ), (TOPIC, READ)]},
)
_once(
    World.create_with_commit,
    World.committed,
    {
        "OffsetFetchWithNoAccess": (),
        "OffsetFetchWithNoGroupAccess": [(TOPIC, READ)],
        "OffsetFetchWithNoTopicAccess": [(GROUP, READ)],
        "OffsetFetchTopicDescribe": [(GROUP, READ), (TOPIC, DESCRIBE)],
        "OffsetFetchWithTopicAndGroupRead": [(GROUP, READ), (TOPIC, READ)],
    },
)

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
