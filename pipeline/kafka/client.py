"""A blocking Kafka client: finds leaders and coordinators, retries, and answers with values.

What can succeed later is tried again until `default.api.timeout.ms` is over: at the new leader or coordinator after a
move, on a new connection after a loss. Then the last error of the broker is the answer. If none answered in the last
try, ClientError is raised.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Generic, TypeVar

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.kafka.client.failures import explained, failure
from highwater.kafka.client.request import Request
from highwater.kafka.client.settings import Address
from highwater.kafka.records.batch import NO_PRODUCER_ID, read_header
from highwater.kafka.requests.broker_error import BrokerError, error_of
from highwater.kafka.requests.fetch import Fetch, Fetched, fetch_records
from highwater.kafka.requests.find_coordinator import GROUP, TRANSACTION, find_coordinator
from highwater.pipeline.errors import ClientError
from highwater.pipeline.kafka import requests
from highwater.pipeline.kafka.connection import UNREACHABLE, BrokerConnection, HandshakeError
from highwater.pipeline.kafka.model import (
    EARLIEST,
    LATEST,
    Appended,
    Cluster,
    CommittedOffset,
    Edge,
    ListedOffset,
    OutOfRange,
    PartitionMetadata,
    Producer,
    Topic,
)
from highwater.pipeline.kafka.requests import PartitionErrors
from highwater.pipeline.kafka.settings import Settings

Answer = TypeVar("Answer")
Value = TypeVar("Value")

_BACKOFF_S_MAX: Final = 1.0
_NEW_TOPIC_S: Final = 3.0
"""How long a topic is waited for that brokers do not know yet, as far as `default.api.timeout.ms` allows it."""
_MOVED: Final = frozenset(
    {
        ErrorCode.fenced_leader_epoch,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.leader_not_available,
        ErrorCode.listener_not_found,
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }
)
"""Errors after which the leader is looked up again."""
_COORDINATOR_MOVED: Final = frozenset({ErrorCode.coordinator_not_available, ErrorCode.not_coordinator})


@dataclass(frozen=True, slots=True)
class _Attempt(Generic[Value]):
    """The answer of one attempt. If it is not final, it counts only if the time is over."""

    value: Value
    is_final: bool


class _UnreachableError(OSError):
    """Names the broker."""


class Client:
    """Not to be shared by threads: `pipeline.kafka.pool` has one for each that needs one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._connections: dict[Address, BrokerConnection] = {}
        self._has_answer = False
        """Some broker has answered: what breaks later is no wrong setting."""
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, Topic] = {}
        """The last answer for each topic that had partitions: these are known."""
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._deadline_s: float | None = None
        self._patience_s = settings.api_timeout_s
        """The time of the call that runs: calls inside of it have no time of their own."""

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The client can be used again."""
        while self._connections:
            self._connections.popitem()[1].close()

    # What there is

    def cluster(self, topics: Collection[str] | None = None) -> Cluster:
        """The brokers, and these topics or all. No topic is created.

        A topic that does not exist has an error. One that this client has seen, with all its partitions, is asked for
        again until it is there: an answer without it can come from a broker that has just started. If it is not there
        when the time is over, it has an error and is forgotten. A topic with a new `topic_id` is another topic. Raises
        ClientError.
        """

        def attempt() -> _Attempt[Cluster]:
            cluster = self._ask_any(requests.metadata(topics))
            self._brokers = dict(cluster.brokers)
            doubtful = {}
            for name in self._topics if topics is None else topics:
                topic = cluster.topics.get(name)
                if (known := self._topics.get(name)) is not None and _lacks(topic, known):
                    doubtful[name] = replace(known, partitions={}, error=_lacking(topic, known))
                elif topic is None:
                    error = BrokerError(ErrorCode.unknown_topic_or_partition, "the answer leaves the topic out")
                    doubtful[name] = Topic(name, None, False, {}, error)
            for topic in cluster.topics.values():
                if topic.error is None and topic.name not in doubtful:
                    self._topics[topic.name] = topic
            found = replace(cluster, topics={**cluster.topics, **doubtful})
            return _Attempt(found, not doubtful)

        found = self._retry(attempt)
        for topic in found.topics.values():
            if topic.error is not None:
                # The caller gets the error. A topic that was deleted must not cost the whole time again.
                self._topics.pop(topic.name, None)
        return found

    def needed_topics(self, names: Collection[str]) -> Mapping[str, Topic]:
        """These topics. One whose error can pass is asked for again, for a few seconds.

        A broker hears of a new topic a moment after the client that created it: Kafka 4 answers CreateTopics before its
        brokers have read the controller's log. Producers of Kafka wait likewise. Raises ClientError.
        """
        deadline_s = time.monotonic() + min(_NEW_TOPIC_S, self.settings.api_timeout_s)
        while True:
            topics = self.cluster(names).topics
            can_pass = any(each.error is not None and each.error.is_retriable for each in topics.values())
            if not can_pass or time.monotonic() >= deadline_s:
                return topics
            time.sleep(self.settings.retry_backoff_s)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Edge | int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        """The offset of an edge, or of the first record with the time in ms or a later one. Times up to 0: EARLIEST.

        With `read_committed`, LATEST is the last stable offset. Raises ClientError.
        """
        done: dict[TopicPartition, ListedOffset | BrokerError] = {}
        left = dict(wanted)

        def attempt() -> _Attempt[dict[TopicPartition, ListedOffset | BrokerError]]:
            failed: dict[TopicPartition, BrokerError] = {}
            for address, partitions in self._by_leader(left, failed).items():
                asked = {each: (left[each], epoch) for each, epoch in partitions.items()}
                answer = self._ask(address, requests.list_offsets(asked, read_committed=read_committed))
                for each in asked:
                    found = requests.listed(answer, each)
                    if isinstance(found, BrokerError):
                        failed[each] = found
                    else:
                        done[each] = found
            self._forget_leaders(failed)
            done.update({each: error for each, error in failed.items() if not self._can_pass(each, error)})
            for each in done:
                left.pop(each, None)
            return _Attempt({**failed, **done}, not left)

        return self._retry(attempt)

    # Records

    def fetch(self, wanted: Fetch) -> Fetched | OutOfRange | BrokerError:
        """The records from `wanted.offset` on, from the leader. Raises ClientError."""

        def attempt() -> _Attempt[Fetched | OutOfRange | BrokerError]:
            leader = self._leader(wanted.of)
            if isinstance(leader, BrokerError):
                return _Attempt(leader, not self._can_pass(wanted.of, leader))
            address, epoch = leader
            answer = self._ask(address, fetch_records(wanted, epoch), wanted.max_wait_ms)
            if isinstance(answer, Fetched):
                return _Attempt(answer, is_final=True)
            if answer.code is ErrorCode.offset_out_of_range:
                ends = self._ends(wanted.of, answer, read_committed=wanted.read_committed)
                return _Attempt(ends, is_final=True)
            self._forget_leaders({wanted.of: answer})
            return _Attempt(answer, not self._can_pass(wanted.of, answer))

        return self._retry(attempt)

    def fetch_ahead(self, wanted: Fetch) -> Callable[[], Fetched | OutOfRange | BrokerError]:
        """Send the request of `fetch` now. The function that is returned waits for the answer; it need not be called.

        Another request to the same broker gives the answer up.
        """
        leader = self._known_leader(wanted.of)
        if leader is None:
            return lambda: self.fetch(wanted)
        address, epoch = leader
        request = fetch_records(wanted, epoch)
        try:
            connection = self._connection(address)
            connection.send(request)
        except UNREACHABLE:
            return lambda: self.fetch(wanted)

        def answer() -> Fetched | OutOfRange | BrokerError:
            try:
                found = connection.receive(request, wanted.max_wait_ms)
            except UNREACHABLE:
                return self.fetch(wanted)
            return found if isinstance(found, Fetched) else self.fetch(wanted)

        return answer

    def _ends(self, of: TopicPartition, error: BrokerError, *, read_committed: bool) -> OutOfRange | BrokerError:
        first = self.list_offsets({of: EARLIEST})[of]
        last = self.list_offsets({of: LATEST}, read_committed=read_committed)[of]
        for each in (first, last):
            if isinstance(each, BrokerError):
                return each
        assert isinstance(first, ListedOffset)
        assert isinstance(last, ListedOffset)
        if first.offset is None or last.offset is None:
            return error
        return OutOfRange(first.offset, last.offset)

    def produce(
        self, topic: str, partition: int, batch: bytes, *, transactional_id: str | None = None
    ) -> Appended | BrokerError:
        """Append one batch, acknowledged by all in-sync replicas.

        The batch of an idempotent producer is sent again after a loss, because the broker drops a copy of it. Any other
        batch is not, and ClientError says that it may have been appended.
        """
        of = (topic, partition)
        is_idempotent = read_header(batch).producer_id != NO_PRODUCER_ID
        timeout_ms = round(self.settings.request_timeout_s * 1000)
        request = requests.produce({of: batch}, transactional_id=transactional_id, timeout_ms=timeout_ms)

        def attempt() -> _Attempt[Appended | BrokerError]:
            leader = self._leader(of)
            if isinstance(leader, BrokerError):
                return _Attempt(leader, not self._can_pass(of, leader))
            try:
                answer = self._ask(leader[0], request, timeout_ms)[of]
            except UNREACHABLE as error:
                if is_idempotent:
                    raise
                raise ClientError(
                    f"{partition_name(*of)}: a batch may have been appended or not, as no answer came: {error}"
                ) from None
            if isinstance(answer, Appended):
                return _Attempt(answer, is_final=True)
            self._forget_leaders({of: answer})
            return _Attempt(answer, not self._can_pass(of, answer))

        return self._retry(attempt)

    def connection_to_leader(self, of: TopicPartition) -> BrokerConnection | None:
        """A connection for several requests in flight; None if there is no leader, or no way to it, now.

        Until the caller has received all answers, any other call of this client may close the connection. Raises
        ClientError.
        """
        leader = self._leader(of)
        if isinstance(leader, BrokerError):
            return None
        connection = self._connections.get(leader[0])
        if connection is not None and connection.is_open and connection.has_pending:
            return connection
        try:
            return self._connection(leader[0])
        except UNREACHABLE:
            return None

    # Groups

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> PartitionErrors:
        """Commit offsets for a group without members. Returns the partitions that failed. Raises ClientError."""
        return self._for_partitions(GROUP, group, offsets, lambda left: requests.offset_commit(group, left))

    def committed_offsets(
        self,
        group: str,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = True,
        patience_ms: int | None = None,
    ) -> dict[TopicPartition, CommittedOffset | BrokerError] | BrokerError:
        """What the group has committed for these partitions, or for all; partitions without an offset are left out.

        `require_stable` waits for the end of a transaction with offsets of the group, and is UNSTABLE_OFFSET_COMMIT
        after `patience_ms` (`default.api.timeout.ms` if None). Raises ClientError.
        """
        request = requests.offset_fetch(group, partitions, require_stable=require_stable)

        def retried(answer: dict[TopicPartition, CommittedOffset | BrokerError] | BrokerError) -> BrokerError | None:
            if isinstance(answer, BrokerError):
                return answer
            return next((each for each in answer.values() if isinstance(each, BrokerError) and each.is_retriable), None)

        return self._at_coordinator(GROUP, group, lambda: request, retried, patience_ms)

    # Transactions

    def init_producer_id(
        self,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        known: Producer | None = None,
    ) -> Producer | BrokerError:
        """A new producer; with a transactional id it ends what an earlier one left open, and fences that one.

        `known`: the producer that this one follows; PRODUCER_FENCED if another took over in between.
        """
        request = requests.init_producer_id(transactional_id, transaction_timeout_ms, known)
        if transactional_id is None:

            def attempt() -> _Attempt[Producer | BrokerError]:
                answer = self._ask_any(request)
                return _Attempt(answer, not (isinstance(answer, BrokerError) and answer.is_retriable))

            return self._retry(attempt)
        return self._at_coordinator(TRANSACTION, transactional_id, lambda: request, _error_in)

    def add_partitions_to_transaction(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> PartitionErrors:
        """Returns the partitions that failed: then none was added. Kafka does not attempt the others."""
        request = requests.add_partitions_to_txn(transactional_id, producer, partitions)

        def retried(errors: PartitionErrors) -> BrokerError | None:
            failed = _attempted(errors)
            return next(iter(failed.values()), None) if all(each.is_retriable for each in failed.values()) else None

        answer = self._at_coordinator(TRANSACTION, transactional_id, lambda: request, retried)
        return dict.fromkeys(partitions, answer) if isinstance(answer, BrokerError) else _attempted(answer)

    def add_offsets_to_transaction(self, transactional_id: str, producer: Producer, group: str) -> BrokerError | None:
        """Comes before `commit_offsets_in_transaction` for this group."""
        request = requests.add_offsets_to_txn(transactional_id, producer, group)
        return self._at_coordinator(TRANSACTION, transactional_id, lambda: request, _error_in)

    def commit_offsets_in_transaction(
        self, transactional_id: str, producer: Producer, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> PartitionErrors:
        """The offsets are committed with the transaction, or not at all. Returns the partitions that failed."""
        return self._for_partitions(
            GROUP, group, offsets, lambda left: requests.txn_offset_commit(transactional_id, producer, group, left)
        )

    def end_transaction(self, transactional_id: str, producer: Producer, *, commit: bool) -> BrokerError | None:
        """Commit or abort."""
        request = requests.end_txn(transactional_id, producer, commit=commit)
        return self._at_coordinator(TRANSACTION, transactional_id, lambda: request, _error_in)

    # Coordinators

    def _at_coordinator(
        self,
        kind: int,
        key: str,
        request: Callable[[], Request[Answer]],
        error_in: Callable[[Answer], BrokerError | None],
        patience_ms: int | None = None,
    ) -> Answer | BrokerError:
        def attempt() -> _Attempt[Answer | BrokerError]:
            address = self._coordinators.get((kind, key))
            if address is None:
                found = self._ask_any(find_coordinator(key, kind))
                if (refused := error_of(found.error_code, found.detail)) is not None:
                    return _Attempt(refused, not refused.is_retriable)
                address = self._coordinators[kind, key] = found.host, found.port
            try:
                answer = self._ask(address, request())
            except UNREACHABLE:
                self._coordinators.pop((kind, key), None)
                raise
            error = error_in(answer)
            if error is not None and error.code in _COORDINATOR_MOVED:
                self._coordinators.pop((kind, key), None)
            return _Attempt(answer, error is None or not error.is_retriable)

        return self._retry(attempt, patience_ms)

    def _for_partitions(
        self,
        kind: int,
        key: str,
        asked: Mapping[TopicPartition, Value],
        request: Callable[[Mapping[TopicPartition, Value]], Request[PartitionErrors]],
    ) -> PartitionErrors:
        """Ask again for the partitions with errors that can pass; returns the errors that are left."""
        final: PartitionErrors = {}
        left = dict(asked)

        def error_in(errors: PartitionErrors) -> BrokerError | None:
            for each in list(left):
                if each not in errors:
                    del left[each]
                elif not errors[each].is_retriable:
                    final[each] = errors[each]
                    del left[each]
            return next((errors[each] for each in left), None)

        answer = self._at_coordinator(kind, key, lambda: request(left), error_in)
        if isinstance(answer, BrokerError):
            return final | dict.fromkeys(left, answer)
        return final | {each: answer[each] for each in left if each in answer}

    # Leaders

    def _leader(self, of: TopicPartition) -> tuple[Address, int] | BrokerError:
        """The address of the leader and its epoch; looks for a leader if none is known."""
        topic, partition = of
        if (found := self._known_leader(of)) is not None:
            return found
        known = self.cluster([topic]).topics[topic]
        if known.error is not None:
            return known.error
        if partition not in known.partitions:
            return _no_partition(known)
        return self._known_leader(of) or BrokerError(ErrorCode.leader_not_available)

    def _known_leader(self, of: TopicPartition) -> tuple[Address, int] | None:
        topic, number = of
        known = self._topics.get(topic)
        partition = known.partitions.get(number) if known is not None else None
        if partition is None or partition.leader not in self._brokers:
            return None
        return self._brokers[partition.leader], partition.leader_epoch

    def _by_leader(
        self, wanted: Collection[TopicPartition], failed: dict[TopicPartition, BrokerError]
    ) -> dict[Address, dict[TopicPartition, int]]:
        """Partitions by the address of their leader, with its epoch; puts those without a leader into `failed`."""
        unknown = {of[0] for of in wanted if self._known_leader(of) is None}
        topics = self.cluster(unknown).topics if unknown else {}
        found: dict[Address, dict[TopicPartition, int]] = {}
        for of in wanted:
            if (leader := self._known_leader(of)) is not None:
                found.setdefault(leader[0], {})[of] = leader[1]
                continue
            # It has no answer here if its leader left the cluster with the answer about others.
            topic = topics.get(of[0])
            if topic is not None and topic.error is not None:
                failed[of] = topic.error
            elif topic is not None and of[1] not in topic.partitions:
                failed[of] = _no_partition(topic)
            else:
                failed[of] = BrokerError(ErrorCode.leader_not_available)
        return found

    def _forget_leaders(self, failed: Mapping[TopicPartition, BrokerError]) -> None:
        """The next attempt asks for the leaders of these again; the partitions stay known."""
        for (topic, partition), error in failed.items():
            known = self._topics.get(topic)
            if error.code in _MOVED and known is not None and partition in known.partitions:
                forgotten = PartitionMetadata(None, known.partitions[partition].leader_epoch)
                self._topics[topic] = replace(known, partitions={**known.partitions, partition: forgotten})

    def _can_pass(self, of: TopicPartition, error: BrokerError) -> bool:
        """Whether to try again. A partition that this client has seen may be unknown to a broker that just started."""
        topic, partition = of
        if error.code is ErrorCode.unknown_topic_or_partition:
            return topic in self._topics and partition in self._topics[topic].partitions
        return error.is_retriable

    # Brokers

    def _ask(self, address: Address, request: Request[Answer], wait_ms: int = 0) -> Answer:
        """Ask this broker. If it cannot be reached, the leaders it had are looked up before the next attempt."""
        try:
            answer = self._connection(address).ask(request, wait_ms)
        except UNREACHABLE as error:
            if self._has_answer:
                found = failure(address, request.name, error)
            elif (found := explained(address, self.settings, request.name, error)).is_refusal:
                raise HandshakeError(str(found)) from None
            self._brokers = {node: each for node, each in self._brokers.items() if each != address}
            raise _UnreachableError(str(found)) from error
        self._has_answer = True
        return answer

    def _connection(self, address: Address) -> BrokerConnection:
        """The connection to a broker, made if need be. Raises UNREACHABLE or ClientError."""
        connection = self._connections.get(address)
        if connection is None or not connection.is_usable:
            if connection is not None:
                connection.close()
            connection = self._connections[address] = BrokerConnection(address, self.settings)
        return connection

    def _ask_any(self, request: Request[Answer]) -> Answer:
        """Ask the brokers that are known, those with a connection first, then the bootstrap servers."""
        others = [*self._brokers.values(), *self.settings.bootstrap_servers]
        usable = [address for address, each in self._connections.items() if each.is_usable and address in others]
        problem: Exception | None = None
        for address in dict.fromkeys([*usable, *random.sample(others, len(others))]):
            try:
                return self._ask(address, request)
            except UNREACHABLE as error:
                problem = error
        assert problem is not None
        raise problem

    def _retry(self, attempt: Callable[[], _Attempt[Value]], patience_ms: int | None = None) -> Value:
        """Attempt until it is finished, or the time is over: then return the last value, or raise ClientError."""
        if self._deadline_s is not None:
            return self._retry_until(self._deadline_s, attempt)
        self._patience_s = self.settings.api_timeout_s if patience_ms is None else patience_ms / 1000
        self._deadline_s = time.monotonic() + self._patience_s
        try:
            return self._retry_until(self._deadline_s, attempt)
        finally:
            self._deadline_s = None

    def _retry_until(self, deadline_s: float, attempt: Callable[[], _Attempt[Value]]) -> Value:
        backoff_s = self.settings.retry_backoff_s
        while True:
            last: Value | None = None
            problem = ""
            try:
                outcome = attempt()
                if outcome.is_final:
                    return outcome.value
                last = outcome.value
            except UNREACHABLE as error:
                problem = str(error)
            if time.monotonic() + backoff_s >= deadline_s:
                if last is not None:
                    return last
                raise ClientError(f"no answer within {self._patience_s * 1000:.0f} ms; the last try: {problem}")
            time.sleep(backoff_s * random.uniform(0.8, 1.2))
            backoff_s = min(2 * backoff_s, max(_BACKOFF_S_MAX, self.settings.retry_backoff_s))


def _attempted(errors: PartitionErrors) -> PartitionErrors:
    return {of: each for of, each in errors.items() if each.code is not ErrorCode.operation_not_attempted} or errors


def _error_in(answer: object) -> BrokerError | None:
    return answer if isinstance(answer, BrokerError) else None


def _no_partition(topic: Topic) -> BrokerError:
    detail = f"{topic.name} has {len(topic.partitions)} partitions"
    return BrokerError(ErrorCode.unknown_topic_or_partition, detail)


def _lacks(topic: Topic | None, known: Topic) -> bool:
    """Whether an answer lacks something of a topic that was there before."""
    if topic is None:
        return True
    if topic.error is not None:
        return topic.error.is_retriable
    return topic.topic_id == known.topic_id and not known.partitions.keys() <= topic.partitions.keys()


def _lacking(topic: Topic | None, known: Topic) -> BrokerError:
    if topic is not None and topic.error is not None:
        return topic.error
    there = 0 if topic is None else len(topic.partitions)
    return BrokerError(
        ErrorCode.unknown_topic_or_partition, f"the answer has {there} of {len(known.partitions)} known partitions"
    )
