"""A broker with an authorizer, as the cases of AuthorizerIntegrationTest see it: ACLs, raw requests, and clients."""

from __future__ import annotations

import dataclasses
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from highwater.kafka.acl import CLUSTER_NAME, Operation, Permission, ResourceType
from tests.compat.apache_kafka.answers.authorization import USERS
from tests.compat.apache_kafka.answers.script import Connection
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
_CALLS: Final = 5
_EVERY_ACL: Final = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
_FATAL: Final = re.compile("Fatal error: Broker: (.+?):")
PASSING: Final = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._PARTITION_EOF)


def errors_in(value: Any) -> list[str]:
    """The name of each error code in an answer, in its order."""
    return list(_errors(value))


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


class TellingProducer(Producer):
    """Keeps what ended it, from librdkafka's log: its binding raises that amid other callbacks, and may lose it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.fatal = ""
        log = logging.Logger("librdkafka")
        log.addFilter(self._hear)
        super().__init__(settings | {"logger": log})

    def _hear(self, record: logging.LogRecord) -> bool:
        if (ended := _FATAL.search(record.getMessage())) is not None:
            self.fatal = ended[1]
        return False


class Way(NamedTuple):
    """How users come to a broker."""

    admin: Connection
    """For raw requests."""
    alice: Connection | None
    """Alice's; None where no case asks as alice without a client."""
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
        """Raises AssertionError if an ACL is left, with which the next case would begin."""
        self.admin("delete_acls", 3, filters=[_EVERY_ACL])
        left = self.admin("describe_acls", 3, **_EVERY_ACL)
        assert (errors_in(left), left.resources) == (["none"], ()), left
        self._admin.close()
        if self._alice is not None:
            self._alice.close()

    def settle(self) -> None:
        """Wait until the broker coordinates groups: one that has just started does not."""
        wait_until(self._has_coordinator, "groups have a coordinator")

    def _has_coordinator(self) -> bool:
        if errors_in(self.admin("find_coordinator", 3, key_type=0, key=self.group)) != ["none"]:
            return False
        return errors_in(self.admin("offset_fetch", 7, group_id=self.group, topics=None))[-1:] == ["none"]

    # Requests

    def admin(self, api: str, version: int, /, **fields: Any) -> Any:
        return self._admin.ask(api, version, **fields)

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        """As alice. Raises AssertionError if the broker hangs up, which is the refusal of no case."""
        assert self._alice is not None, "this case asks without a client"
        try:
            return self._alice.ask(api, version, **fields)
        except EOFError:
            raise AssertionError(f"the broker hung up at {api} {version} {fields}") from None

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

    def names(self) -> list[str]:
        """The case's topics that are there."""
        answer = self.admin("metadata", 12, topics=None, allow_auto_topic_creation=False)
        return sorted(each.name for each in answer.topics if each.name in (self.topic, self.other))

    def made(self) -> list[str]:
        """The same, where Metadata lets a topic be made: the answer comes before the topic."""
        wait_until(lambda: bool(self.names()), "a topic is made")
        return self.names()

    # What a case leaves behind

    def left(self) -> dict[str, Any]:
        """As the administrator sees it: what was refused leaves nothing."""
        found: dict[str, Any] = {}
        if state := self._left_of_transaction():  # first: its markers are in the topics, then
            found["transaction"] = state
        for name in (self.topic, self.other):
            if told := self._left_of_topic(name):
                found[name[-1]] = told
        if (offset := self.committed_offset()) >= 0:
            found["committed"] = offset
        return found

    def _left_of_topic(self, name: str) -> str:
        """Partitions, and of the first one its first offset, its last stable offset and its end."""
        answer = self.admin("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
        (topic,) = answer.topics
        if topic.error_code is ErrorCode.unknown_topic_or_partition:
            return ""
        ends = [self.offset(name, *asked) for asked in ((-2, 0), (-1, 1), (-1, 0))]
        return f"{len(topic.partitions)}: {' '.join(map(str, ends))}"

    def offset(self, name: str, timestamp: int, isolation_level: int = 0) -> int:
        """Of partition 0; timestamp: -2 for the first offset, -1 for the end."""
        found: list[int] = []
        partitions = [{"partition_index": 0, "timestamp": timestamp}]

        def is_told() -> bool:
            answer = self.admin("list_offsets", 7, replica_id=-1, isolation_level=isolation_level,
                                topics=[{"name": name, "partitions": partitions}])  # fmt: skip
            found[:] = [answer.topics[0].partitions[0].offset]
            return errors_in(answer) == ["none"]

        wait_until(is_told, f"offsets of {name} are told")
        return found[0]

    def committed_offset(self) -> int:
        """The group's, of partition 0 of the topic; -1 for none."""
        wanted = [{"name": self.topic, "partition_indexes": [0]}]
        answer = self.admin("offset_fetch", 7, group_id=self.group, topics=wanted, require_stable=False)
        assert set(errors_in(answer)) == {"none"}, answer
        return int(answer.topics[0].partitions[0].committed_offset)

    def _left_of_transaction(self) -> str:
        """Its state, once no marker is on its way; empty if there is no transaction."""
        states: list[str] = []

        def is_settled() -> bool:
            asked = {"transactional_ids": [self.transaction]}
            (found,) = self.admin("describe_transactions", 0, **asked).transaction_states
            states[:] = [found.transaction_state] if found.error_code is ErrorCode.none else [""]
            return not states[0].startswith("Prepare")

        wait_until(is_settled, "a transaction has ended")
        return states[0]

    # Clients

    def login(self, user: str = "alice") -> dict[str, Any]:
        return self._way.login(user) | {"topic.metadata.refresh.interval.ms": 500, "log_level": 0}

    def producer(self, user: str = "alice", **settings: Any) -> TellingProducer:
        more = {key.replace("_", "."): value for key, value in settings.items()}
        return TellingProducer(self.login(user) | {"message.timeout.ms": 20_000, "linger.ms": 0} | more)

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

    def commit(self) -> Any:
        """What a request is told, and a client, which asks for the coordinator for ever: not where that is refused."""
        coordinator = self._coordinator_for_alice()
        told = self.errors("offset_commit", 8, **self._committing(5))
        if coordinator != ["none"]:
            return coordinator, told
        consumer = self.consumer()
        try:
            consumer.commit(offsets=[TopicPartition(self.topic, 0, 5)], asynchronous=False)
        except KafkaException as error:
            return told, name_of(error)
        finally:
            consumer.close()
        return told, "committed"

    def committed(self) -> Any:
        """The same, for a committed offset that is asked for."""
        coordinator = self._coordinator_for_alice()
        wanted = [{"name": self.topic, "partition_indexes": [0]}]
        told = self.errors("offset_fetch", 7, group_id=self.group, topics=wanted, require_stable=False)
        if coordinator != ["none"]:
            return coordinator, told
        consumer = self.consumer()
        try:
            (found,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=_DEADLINE_S)
        except KafkaException as error:
            return told, name_of(error)
        finally:
            consumer.close()
        return told, name_of(found.error) if found.error else found.offset

    def commit_as_admin(self) -> None:
        answer = self.admin("offset_commit", 8, **self._committing(5))
        assert set(errors_in(answer)) == {"none"}, answer

    def create_with_commit(self) -> None:
        self.create()
        self.commit_as_admin()

    def _committing(self, offset: int) -> dict[str, Any]:
        partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
        simple = {"group_id": self.group, "generation_id_or_member_epoch": -1, "member_id": ""}
        return simple | {"topics": [{"name": self.topic, "partitions": partitions}]}

    def _coordinator_for_alice(self) -> list[str]:
        return self.errors("find_coordinator", 3, key_type=0, key=self.group)


Outcome = Any
Check = Callable[[World], Outcome]


def mirrors(cases: dict[str, Check], *names: str) -> Callable[[Check], Check]:
    """Register a function by the names of those of Kafka's cases that it covers."""

    def register(check: Check) -> Check:
        cases.update(dict.fromkeys(names, check))
        return check

    return register


Grant = tuple[ResourceType, Operation]
"""A right on the case's own resource of a kind, or on the cluster."""


def asks_once(
    cases: dict[str, Check], prepare: Callable[[World], object], ask: Check, rows: Mapping[str, Sequence[Grant]]
) -> None:
    """Register cases of one question: by the name of each, what alice may when she asks it."""
    for name, grants in rows.items():
        cases[name] = partial(_asked, prepare, ask, grants)


def _asked(prepare: Callable[[World], object], ask: Check, grants: Sequence[Grant], world: World) -> Outcome:
    prepare(world)
    for grant in grants:
        world.allow(*grant)
    return ask(world)


def nothing(world: World) -> None:
    """Prepare nothing."""


def sent(producer: TellingProducer, *topics: str) -> list[str]:
    """How each record ended: "sent", or an error's name; that which ended the producer, if it has ended."""
    outcomes: list[str] = []
    for topic in topics:
        try:
            producer.produce(topic, b"value", partition=0, on_delivery=_into(outcomes))
        except KafkaException as error:
            outcomes.append(name_of(error))
    flushed = attempt(producer.flush, _DEADLINE_S)
    if producer.fatal:
        attempt(producer.flush, _DEADLINE_S)  # the first ended with the producer, perhaps before the records did
    elif flushed != "done":
        outcomes.append(f"flush: {flushed}")
    if producer.fatal:
        ended = f"ended by {producer.fatal}"
        told = [ended if outcome.startswith("_") else outcome for outcome in outcomes]
        # With an error that it loses, the binding loses reports on records, too.
        return told + [ended] * (len(topics) - len(told))
    return outcomes


def _into(outcomes: list[str]) -> Callable[[KafkaError | None, object], None]:
    return lambda error, _: outcomes.append("sent" if error is None else name_of(error))


def received(consumer: Consumer, within_s: float = _DEADLINE_S) -> str:
    """The first record or error that says something; "nothing" after a while without either."""
    since = time.monotonic()
    while time.monotonic() < since + within_s:
        message = consumer.poll(0.2)
        error = None if message is None else message.error()
        if message is None or (error is not None and error.code() in PASSING):
            continue
        return name_of(error) if error is not None else f"record of {message.topic()}".rpartition("-")[2]
    return "nothing"


def all_of(consumer: Consumer, wanted: set[str], within_s: float = 60.0) -> list[str]:
    """What comes until all that is wanted has come: records and errors come in either order."""
    found: set[str] = set()
    ends_s = time.monotonic() + within_s
    while not wanted <= found and (left_s := ends_s - time.monotonic()) > 0:
        found.add(received(consumer, left_s))
    return sorted(found)


def quiet_until(consumer: Consumer, permit: Callable[[], None]) -> tuple[str, str]:
    """What comes while the consumer may not read, and what once it may: silence alone could have any cause."""
    before = received(consumer, QUIET_S)
    permit()
    return before, received(consumer)


def attempt(call: Callable[..., Any], *arguments: Any) -> str:
    """The name of the error with which a call of librdkafka ends, or "done"."""
    for _ in range(_CALLS):
        try:
            call(*arguments)
        except KafkaException as error:
            return name_of(error)
        except SystemError:  # the binding lost an error: what the call says the next time counts
            continue
        return "done"
    raise AssertionError(f"the binding loses each error of {call}")
