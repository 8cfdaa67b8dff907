"""A story of transactional producers, told with the answers of the broker that it is played on, a request on each line.

    A = init x                      a producer begins; A stands for the id and epoch it was given (its zombies keep it)
    A(+1) A(?)                      the same with another epoch; an epoch with an id that was never given out

Producer ids are told as p1, p2 ... in the order in which they come, as they differ from one broker to the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from kio.schema.errors import ErrorCode

from tests.broker.handlers.harness import one_batch
from tests.broker.storytelling import Ask, Story

PROPERTIES: Final = {
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 3,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "transaction.max.timeout.ms": 100_000,
}
_UNKNOWN_ID: Final = 77_777
_NO_ID, _NO_EPOCH = -1, -1

Producer = tuple[int, int]
Partition = tuple[str, int]
T0, T1, NOWHERE = ("t", 0), ("t", 1), ("nowhere", 0)


class TransactionStory(Story):
    def __init__(self, ask: Ask) -> None:
        super().__init__(ask, width=58)
        self._ids: dict[int, str] = {}
        self._names: dict[Producer, str] = {}

    def _id(self, producer_id: int) -> str:
        return "-" if producer_id < 0 else self._ids.setdefault(producer_id, f"p{len(self._ids) + 1}")

    def _name(self, producer: Producer) -> str:
        if producer in self._names:
            return self._names[producer]
        by_id = [(name, epoch) for (producer_id, epoch), name in self._names.items() if producer_id == producer[0]]
        return f"{by_id[-1][0]}({producer[1] - by_id[-1][1]:+d})" if by_id else "?"

    # Preparing

    def prepare(self) -> None:
        """The coordinators and their topics are there, and a topic `t` of two partitions."""
        self._until(self._has_topic)
        self._until(lambda: self._has_coordinator("g", 0))
        self._until(lambda: self._offset(require_stable=False)[0] is ErrorCode.none)
        for name in ("x", "y", "z"):
            self._until(partial(self._has_coordinator, name, 1))
            self._until(partial(self._is_loaded, name))
        self._until(self._has_producer_ids)

    def _has_topic(self) -> bool:
        self._create_topic()
        return all(entry.offset == 0 for entry in self._ends(0))

    def _is_loaded(self, name: str) -> bool:
        found: ErrorCode = self._state(name).error_code
        return found is ErrorCode.transactional_id_not_found

    def _has_producer_ids(self) -> bool:
        answer = self._ask("init_producer_id", 4, transactional_id=None, transaction_timeout=1000)
        return bool(answer.error_code is ErrorCode.none)

    # The coordinator

    def init(
        self,
        name: str | None,
        letter: str = "",
        *,
        own: Producer | None = None,
        timeout: int = 60_000,
        version: int = 4,
    ) -> Producer:
        fields = {} if own is None else {"producer_id": own[0], "producer_epoch": own[1]}
        answer = self._ask("init_producer_id", version, transactional_id=name, transaction_timeout=timeout, **fields)
        producer = (int(answer.producer_id), int(answer.producer_epoch))
        if letter:
            self._names.setdefault(producer, letter)
        request = f"{letter + ' = ' if letter else ''}init {name!r}"
        request += f" own {self._name(own)}" if own else ""
        request += f" timeout {timeout}" if timeout != 60_000 else ""
        request += f" v{version}" if version != 4 else ""
        error = answer.error_code
        self._tell(request, error.name if error else f"{self._id(producer[0])} epoch {producer[1]}")
        if name:
            self._settle(name)
        return producer

    def add(self, producer: Producer, *partitions: Partition, name: str = "x", version: int = 3) -> None:
        answer = self._ask(
            "add_partitions_to_txn",
            version,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=_by_topic(partitions),
        )
        outcomes = _outcomes(answer.results_by_topic_v3_and_below)
        self._tell(f"{self._name(producer)} adds {_text(partitions)} to {name!r} v{version}", outcomes)

    def batch(self, *transactions: tuple[str, Producer, bool, tuple[Partition, ...]], version: int = 5) -> None:
        answer = self._ask(
            "add_partitions_to_txn",
            version,
            transactions=[
                {
                    "transactional_id": name,
                    "producer_id": producer[0],
                    "producer_epoch": producer[1],
                    "verify_only": verify_only,
                    "topics": _by_topic(partitions),
                }
                for name, producer, verify_only, partitions in transactions
            ],
        )
        self.lines.append(f"a broker asks, v{version}: {answer.error_code.name}")
        found = {result.transactional_id: _outcomes(result.topic_results) for result in answer.results_by_transaction}
        for name, producer, verify_only, partitions in transactions:
            verb = "verify" if verify_only else "add"
            self._tell(f"    {verb} {_text(partitions)} of {self._name(producer)} in {name!r}", found[name])

    def add_offsets(self, producer: Producer, *, name: str = "x", version: int = 3) -> None:
        answer = self._ask(
            "add_offsets_to_txn",
            version,
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id="g",
        )
        self._tell(f"{self._name(producer)} adds the offsets of 'g' to {name!r} v{version}", answer.error_code.name)

    def end(self, producer: Producer, is_commit: bool, *, name: str = "x", version: int = 3) -> None:
        answer = self._ask(
            "end_txn",
            version,
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=is_commit,
        )
        verb = "commits" if is_commit else "aborts"
        self._tell(f"{self._name(producer)} {verb} {name!r} v{version}", answer.error_code.name)
        if name:
            self._settle(name)

    def _state(self, name: str) -> Any:
        return self._ask("describe_transactions", 0, transactional_ids=[name]).transaction_states[0]

    def _settle(self, name: str) -> None:
        """Markers are written behind the answer."""
        self._until(lambda: not self._state(name).transaction_state.startswith("Prepare"))

    def describe(self, name: str) -> None:
        found = self._state(name)
        if found.error_code:
            self._tell(f"describe {name!r}", found.error_code.name)
            return
        partitions = [(topic.topic, index) for topic in found.topics for index in topic.partitions]
        timeout_ms = round(found.transaction_timeout.total_seconds() * 1000)
        outcome = f"{found.transaction_state} {self._id(found.producer_id)} epoch {found.producer_epoch}"
        self._tell(f"describe {name!r}", f"{outcome}, {timeout_ms} ms, {_text(partitions)}")

    def list_(self, version: int = 1, **filters: Any) -> None:
        answer = self._ask("list_transactions", version, **({"state_filters": (), "producer_id_filters": ()} | filters))
        found = sorted(
            (state.transactional_id, self._id(state.producer_id), state.transaction_state)
            for state in answer.transaction_states
        )
        told = {**filters, "producer_id_filters": tuple(map(self._id, filters.get("producer_id_filters", ())))}
        request = "list" + "".join(f" {key}={value}" for key, value in told.items() if value)
        listed = " ".join("/".join(entry) for entry in found) or "nothing"
        self._tell(request, f"{answer.error_code.name} {listed} {' '.join(answer.unknown_state_filters)}".rstrip())

    def wait_for_abort(self, name: str) -> None:
        self._until(lambda: self._state(name).transaction_state == "CompleteAbort")

    # Partitions and the group

    def produce(
        self,
        producer: Producer,
        sequence: int,
        count: int = 1,
        *,
        partition: int = 0,
        name: str | None = "x",
        is_transactional: bool = True,
    ) -> None:
        records = one_batch(
            *[b"v"] * count,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        answer = self._ask(
            "produce",
            9,
            transactional_id=name,
            acks=-1,
            timeout=30_000,
            topic_data=[{"name": "t", "partition_data": [{"index": partition, "records": records}]}],
        )
        (found,) = answer.responses[0].partition_responses
        kind = "" if is_transactional else " outside of transactions"
        request = f"{self._name(producer)} writes {count} at {sequence} to t-{partition} in {name!r}{kind}"
        self._tell(request, found.error_code.name if found.error_code else f"at {found.base_offset}")

    def commit_offset(self, producer: Producer, offset: int, *, name: str = "x") -> None:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        answer = self._ask(
            "txn_offset_commit",
            3,
            transactional_id=name,
            group_id="g",
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[{"name": "t", "partitions": [partition]}],
        )
        error = answer.topics[0].partitions[0].error_code
        self._tell(f"{self._name(producer)} commits offset {offset} of 'g' in {name!r}", error.name)

    def _offset(self, *, require_stable: bool) -> tuple[ErrorCode, int]:
        topics = [{"name": "t", "partition_indexes": [0]}]
        answer = self._ask("offset_fetch", 7, group_id="g", topics=topics, require_stable=require_stable)
        if answer.error_code:
            return answer.error_code, -1
        (found,) = answer.topics[0].partitions
        return found.error_code, found.committed_offset

    def offset(self, *, is_unstable: bool = False) -> None:
        """Kafka's group coordinator comes to a marker after it was answered."""
        expected = ErrorCode.unstable_offset_commit if is_unstable else ErrorCode.none
        self._until(lambda: self._offset(require_stable=True)[0] is expected)
        for require_stable in (True, False):
            error, offset = self._offset(require_stable=require_stable)
            self._tell(f"offset of 'g'{', stable' if require_stable else ''}", f"{error.name} {offset}")

    def mark(self, producer: Producer, *partitions: Partition, is_commit: bool = False) -> None:
        topics = [{"name": topic["name"], "partition_indexes": topic["partitions"]} for topic in _by_topic(partitions)]
        marker = {
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "transaction_result": is_commit,
            "topics": topics,
            "coordinator_epoch": 0,
        }
        (found,) = self._ask("write_txn_markers", 1, markers=[marker]).markers
        outcomes = sorted(
            (topic.name, partition.partition_index, partition.error_code.name)
            for topic in found.topics
            for partition in topic.partitions
        )
        self._tell(f"a marker of {self._name(producer)} in {_text(partitions)}", _joined(outcomes))

    def producers(self, partition: int = 0) -> None:
        (topic,) = self._ask("describe_producers", 0, topics=[{"name": "t", "partition_indexes": [partition]}]).topics
        (found,) = topic.partitions
        told = sorted(
            f"{self._id(producer.producer_id)} epoch {producer.producer_epoch} sequence {producer.last_sequence} "
            f"coordinator {producer.coordinator_epoch} open {producer.current_txn_start_offset}"
            for producer in found.active_producers
        )
        self._tell(f"producers of t-{partition}", f"{found.error_code.name} {'; '.join(told)}".rstrip())

    def ends(self) -> None:
        for isolation_level, name in enumerate(("end", "last stable offset")):
            self._tell(f"{name} of t-0, t-1", " ".join(str(entry.offset) for entry in self._ends(isolation_level)))

    def _ends(self, isolation_level: int) -> list[Any]:
        partitions = [{"partition_index": index, "timestamp": -1} for index in (0, 1)]
        topics = [{"name": "t", "partitions": partitions}]
        answer = self._ask("list_offsets", 5, replica_id=-1, isolation_level=isolation_level, topics=topics)
        return sorted(answer.topics[0].partitions, key=lambda entry: int(entry.partition_index))


def _by_topic(partitions: Iterable[Partition]) -> list[dict[str, Any]]:
    return [
        {"name": topic, "partitions": [index for _, index in group]}
        for topic, group in groupby(sorted(partitions), key=itemgetter(0))
    ]


def _outcomes(topics: Any) -> str:
    return _joined(
        sorted(
            (topic.name, result.partition_index, result.partition_error_code.name)
            for topic in topics
            for result in topic.results_by_partition
        )
    )


def _joined(outcomes: Iterable[tuple[str, int, str]]) -> str:
    return " ".join(f"{topic}-{index}={error}" for topic, index, error in outcomes) or "nothing"


def _text(partitions: Iterable[Partition]) -> str:
    return ",".join(f"{topic}-{index}" for topic, index in sorted(partitions)) or "nothing"


def tell(ask: Ask) -> str:
    """The whole story, as text."""
    story = TransactionStory(ask)
    story.prepare()
    story.note("Nobody has begun.")
    nobody = (_UNKNOWN_ID, 0)
    story.describe("x")
    story.describe("")
    story.list_()
    story.add(nobody, T0)
    story.add_offsets(nobody)
    story.end(nobody, True)
    story.end(nobody, True, name="")
    story.init("")
    for timeout in (0, -1, 100_001):
        story.init("x", timeout=timeout)
    story.init("x", own=(1, _NO_EPOCH))
    story.init("x", own=(_NO_ID, 1))

    story.note("A producer begins, and has nothing to end.")
    a = story.init("x", "A")
    story.describe("x")
    for filters in ({"state_filters": ("Empty", "Ongoing", "Nope")}, {"state_filters": ("Ongoing",)}):
        story.list_(**filters)
    story.end(a, True)
    story.end(a, False)
    for version in (1, 2):
        story.end((a[0], a[1] + 1), True, version=version)

    story.note("All partitions come into the transaction, or none.")
    story.add(a, T0, ("t", 9), NOWHERE)
    story.describe("x")
    story.add(a, T0)
    story.add(a, T0)
    story.describe("x")

    story.note("What may be written, and how far it can be read.")
    story.produce(a, 0, 2)
    story.produce(a, 0, 2)
    story.produce(a, 0, partition=1)
    story.produce(a, 7)
    story.produce(a, 2, is_transactional=False, name=None)
    story.produce(a, 2, name=None)
    story.producers()
    story.ends()
    story.list_(producer_id_filters=(a[0],))
    story.list_(producer_id_filters=(_UNKNOWN_ID,))
    for version in (4, 5):
        story.batch(("x", a, True, (T0, T1)), ("y", a, True, (T0,)), version=version)
    story.batch(("x", a, True, (T0, NOWHERE)), ("y", a, True, (NOWHERE,)))
    story.batch(("x", (a[0], a[1] + 9), True, (T0,)))
    story.batch(("x", a, False, (T1,)), ("q", a, False, (T1,)))

    story.note("It ends, once.")
    story.end(a, True)
    story.describe("x")
    story.ends()
    story.producers()
    story.end(a, True)
    story.end(a, False)
    story.produce(a, 2)
    story.batch(("x", a, True, (T0,)))

    story.note("A second producer takes over while the next transaction is open.")
    story.add(a, T0)
    story.produce(a, 2)
    story.init("x")
    story.describe("x")
    b = story.init("x", "B")
    story.producers()
    story.ends()
    for version in (1, 2):
        story.add(a, T0, version=version)
        story.add_offsets(a, version=version)
        story.end(a, False, version=version)
    story.produce(a, 3)
    story.commit_offset(a, 5)
    story.produce(b, 0)
    story.add(b, T0)
    story.produce(b, 5)
    story.produce(b, 0)
    story.produce(a, 3)

    story.note("Offsets of a group go with the transaction.")
    story.add_offsets(b)
    story.commit_offset(b, 7)
    story.offset(is_unstable=True)
    story.end(b, True)
    story.offset()
    story.producers()
    story.add_offsets(b)
    story.commit_offset(b, 9)
    story.offset(is_unstable=True)
    story.end(b, False)
    story.offset()
    story.commit_offset(b, 11)
    story.offset()

    story.note("A producer begins anew with the epoch it has (KIP-360).")
    c = story.init("x", "C", own=b)
    story.init("x", own=b)
    d = story.init("x", "D", own=c)
    for version in (3, 4):
        story.init("x", own=b, version=version)
    story.init("x", own=(_UNKNOWN_ID, 0))
    story.add(d, T0)
    story.produce(d, 0)
    story.init("x", own=d)
    story.describe("x")
    story.init("x", own=d)
    story.init("x", "E")

    story.note("A transaction takes too long.")
    f = story.init("y", "F", timeout=1000)
    story.add(f, T0, name="y")
    story.produce(f, 0, name="y")
    story.wait_for_abort("y")
    story.describe("y")
    story.end(f, True, name="y")
    story.add(f, T0, name="y")
    story.produce(f, 1, name="y")
    story.init("y", own=f)
    story.init("y", "G")
    story.producers()
    story.ends()

    story.note("A transaction without partitions.")
    h = story.init("z", "H")
    story.add(h, name="z")
    story.describe("z")
    story.end(h, True, name="z")
    story.describe("z")

    story.note("Markers that nobody should send.")
    story.mark((a[0], a[1]), T0)
    story.mark((_UNKNOWN_ID, 0), T0, ("t", 8), NOWHERE, is_commit=True)
    story.producers()
    story.ends()
    return story.text
