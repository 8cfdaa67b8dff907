"""A broker with an authorizer, as the cases of AuthorizerIntegrationTest see it: ACLs, raw requests, and clients."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from highwater.broker.security.acl import CLUSTER_NAME, Operation, Permission, ResourceType
from tests.compat.apache_kafka.answers.authorization import USERS
from tests.compat.apache_kafka.answers.script import CLOSED, Connection
from tests.compat.apache_kafka.authorization_differs import UserConnection
from tests.waiting import wait_until

TOPIC, GROUP, CLUSTER, TRANSACTION = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
LITERAL: Final = 3
PREFIXED: Final = 4
ALICE: Final = "User:alice"
LOCAL: Final = "127.0.0.1"
QUIET_S: Final = 3.0
"""How long a consumer waits that should get nothing."""
_DEADLINE_S: Final = 30.0
_COMMITTED_WITHIN_S: Final = 10.0
"""A client that may not find the coordinator asks until then."""
_PASSING: Final = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._PARTITION_EOF)


def errors_in(value: Any) -> list[str]:
    """The name of each error code in an answer, in its order."""
    return list(_errors(value)) if value != CLOSED else [CLOSED]


def _errors(value: Any) -> Iterator[str]:
    if isinstance(value, tuple):
        for item in value:
            yield from _errors(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield ErrorCode(found).name
            else:
                yield from _errors(found)


def name_of(error: BaseException | KafkaError) -> str:
    """The name of an error of librdkafka, without its text."""
    found = error.args[0] if isinstance(error, KafkaException) else error
    return str(found.name()) if isinstance(found, KafkaError) else type(error).__name__


class Way(NamedTuple):
    """How users come to a broker."""

    admin: Connection
    """For raw requests."""
    alice: Connection
    login: Callable[[str], dict[str, Any]]
    """librdkafka's properties of a user."""
    principal: str = ALICE
    """Who alice is to the broker."""


def by_password(port: int) -> Way:
    """With PLAIN, at the only listener."""

    def login(user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"{LOCAL}:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": USERS[user],
        }

    return Way(UserConnection(port, "admin"), UserConnection(port, "alice"), login)


class World:
    """One case: its resources have names of their own, and its ACLs go when it ends."""

    def __init__(self, way: Way, case: str) -> None:
        self._way = way
        self.topic = f"{case}-t"
        self.other = f"{case}-u"
        self.group = f"{case}-g"
        self.transaction = f"{case}-x"
        self._admin = way.admin
        self._alice = way.alice

    def close(self) -> None:
        every = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
        self.admin("delete_acls", 3, filters=[every | {"operation": 1, "permission_type": 1}])
        self._admin.close()
        self._alice.close()

    # Requests

    def admin(self, api: str, version: int, /, **fields: Any) -> Any:
        return self._admin.ask(api, version, **fields)

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        """As alice."""
        try:
            return self._alice.ask(api, version, **fields)
        except EOFError:
            return CLOSED

    def errors(self, api: str, version: int, /, **fields: Any) -> list[str]:
        return errors_in(self.ask(api, version, **fields))

    # ACLs

    def allow(
        self,
        kind: ResourceType,
        *operations: Operation,
        name: str | None = None,
        principal: str | None = None,
        host: str = "*",
        pattern: int = LITERAL,
        permission: Permission = Permission.ALLOW,
    ) -> None:
        creations = [
            {
                "resource_type": int(kind),
                "resource_name": self._name(kind) if name is None else name,
                "resource_pattern_type": pattern,
                "principal": principal or self._way.principal,
                "host": host,
                "operation": int(operation),
                "permission_type": int(permission),
            }
            for operation in operations
        ]
        answer = self.admin("create_acls", 3, creations=creations)
        assert set(errors_in(answer)) == {"none"}, answer

    def deny(self, kind: ResourceType, *operations: Operation, **more: Any) -> None:
        self.allow(kind, *operations, permission=Permission.DENY, **more)

    def revoke(self, kind: ResourceType, *operations: Operation, name: str | None = None) -> None:
        of = {"resource_type_filter": int(kind), "resource_name_filter": self._name(kind) if name is None else name}
        of |= {"pattern_type_filter": 1, "permission_type": 1}
        answer = self.admin("delete_acls", 3, filters=[of | {"operation": int(each)} for each in operations])
        assert all(result.matching_acls for result in answer.filter_results), answer

    def _name(self, kind: ResourceType) -> str:
        return {TOPIC: self.topic, GROUP: self.group, CLUSTER: CLUSTER_NAME, TRANSACTION: self.transaction}[kind]

    # Topics and records

    def create(self, *names: str) -> None:
        """Topics of one partition, and wait until they are led."""
        for name in names or (self.topic,):
            wait_until(partial(self._is_made, name), f"{name} is led")

    def _is_made(self, name: str) -> bool:
        """A broker that has just started refuses topics: it counts no broker yet."""
        if self._is_led(name):
            return True
        new = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
        self.admin("create_topics", 7, topics=new, timeout=30_000, validate_only=False)
        return False

    def _is_led(self, name: str) -> bool:
        wanted = {"topic": name, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]}
        answer = self.admin("fetch", 11, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=1, topics=[wanted],
                            session_epoch=-1)  # fmt: skip
        return errors_in(answer)[1:] == ["none"]

    def topic_id(self, name: str) -> UUID:
        answer = self.admin("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
        found = answer.topics[0].topic_id
        assert isinstance(found, UUID)
        return found

    def names(self) -> list[str]:
        """The case's topics that are there."""
        answer = self.admin("metadata", 12, topics=None, allow_auto_topic_creation=False)
        return sorted(each.name for each in answer.topics if each.name in (self.topic, self.other))

    def made(self) -> list[str]:
        """The same, where Metadata lets a topic be made: the answer comes before the topic."""
        wait_until(lambda: bool(self.names()), "a topic is made")
        return self.names()

    # Clients

    def login(self, user: str = "alice") -> dict[str, Any]:
        return self._way.login(user) | {"topic.metadata.refresh.interval.ms": 500, "log_level": 0}

    def producer(self, user: str = "alice", **settings: Any) -> Producer:
        more = {key.replace("_", "."): value for key, value in settings.items()}
        return Producer(self.login(user) | {"message.timeout.ms": 20_000, "linger.ms": 0} | more)

    def produce(self, *topics: str, user: str = "alice", **settings: Any) -> list[str]:
        """A record into each topic; how each ended."""
        return sent(self.producer(user, **settings), *(topics or (self.topic,)))

    def fill(self, *topics: str) -> None:
        """Make topics and put one record into each."""
        self.create(*(topics or (self.topic,)))
        assert set(self.produce(*(topics or (self.topic,)), user="admin")) == {"sent"}

    def consumer(self, user: str = "alice", **settings: Any) -> Consumer:
        more = {key.replace("_", "."): value for key, value in settings.items()}
        own = {"group.id": self.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        return Consumer(self.login(user) | own | more)

    def consume(
        self,
        *topics: str,
        subscribe: bool = False,
        offset: int = OFFSET_BEGINNING,
        within_s: float = _DEADLINE_S,
        **settings: Any,
    ) -> str:
        """The first record, an error's name, or "nothing"."""
        wanted = topics or (self.topic,)
        consumer = self.consumer(**settings)
        try:
            if subscribe:
                consumer.subscribe(list(wanted))
            else:
                consumer.assign([TopicPartition(name, 0, offset) for name in wanted])
            return received(consumer, within_s)
        finally:
            consumer.close()

    def commit(self) -> str:
        consumer = self.consumer()
        try:
            consumer.commit(offsets=[TopicPartition(self.topic, 0, 5)], asynchronous=False)
        except KafkaException as error:
            return name_of(error)
        finally:
            consumer.close()
        return "committed"

    def committed(self) -> str:
        consumer = self.consumer()
        try:
            (found,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=_COMMITTED_WITHIN_S)
        except KafkaException as error:
            return name_of(error)
        finally:
            consumer.close()
        return name_of(found.error) if found.error else str(found.offset)


Outcome = Any
Check = Callable[[World], Outcome]


def mirrors(cases: dict[str, Check], *names: str) -> Callable[[Check], Check]:
    """Register a function by the names of those of Kafka's cases that it covers."""

    def register(check: Check) -> Check:
        cases.update(dict.fromkeys(names, check))
        return check

    return register


def sent(producer: Producer, *topics: str) -> list[str]:
    outcomes: list[str] = []
    for topic in topics:
        try:
            producer.produce(topic, b"value", partition=0, on_delivery=_into(outcomes))
        except KafkaException as error:
            outcomes.append(name_of(error))
    if (flushed := attempt(producer.flush, _DEADLINE_S)) != "done":
        outcomes.append(f"flush: {flushed}")
    return outcomes


def _into(outcomes: list[str]) -> Callable[[KafkaError | None, object], None]:
    return lambda error, _: outcomes.append("sent" if error is None else name_of(error))


def received(consumer: Consumer, within_s: float = _DEADLINE_S) -> str:
    """The first record or error that says something; "nothing" after a while without either."""
    since = time.monotonic()
    while time.monotonic() < since + within_s:
        message = consumer.poll(0.2)
        error = None if message is None else message.error()
        if message is None or (error is not None and error.code() in _PASSING):
            continue
        return name_of(error) if error is not None else f"record of {message.topic()}".rpartition("-")[2]
    return "nothing"


def attempt(call: Callable[..., Any], *arguments: Any) -> str:
    """The name of the error with which a call of librdkafka ends, or "done"."""
    try:
        call(*arguments)
    except KafkaException as error:
        return name_of(error)
    return "done"


def each(names: Sequence[str], **fields: Any) -> list[dict[str, Any]]:
    """Topics of a request, each with the same fields."""
    return [{"name": name, **fields} for name in names]
