"""Requests of transactional producers, for tests on a node without sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.features import TRANSACTION_VERSION, Finalised
from highwater.broker.log.files import FileOperations
from highwater.broker.txn.transaction import Producer
from tests.broker.handlers.harness import NodeHarness, Pending, one_batch

T0, T1 = ("t", 0), ("t", 1)


class TransactionHarness(NodeHarness):
    """A node that is asked about transactions. It has a topic `t` of two partitions, and a small topic of states."""

    def __init__(self, log_dir: Path, files: FileOperations | None = None, /, **properties: str) -> None:
        defaults = {"transaction_state_log_num_partitions": "2", "offsets_topic_num_partitions": "2"}
        super().__init__(log_dir, (), files, **(defaults | properties))
        if self.node.partitions.topic("t") is None:
            self.create_topic("t", 2)
        self.scheduler.run()

    def find(self, version: int = 3, key_type: int = 1) -> Any:
        wanted: dict[str, Any] = {"coordinator_keys": ["x"]} if version >= 4 else {"key": "x"}
        answer = self.ask("find_coordinator", version, key_type=key_type, **wanted)
        return answer.coordinators[0] if version >= 4 else answer

    def end_offset(self, topic: str, index: int) -> int:
        """Of what everybody can read."""
        partition = self.node.partitions.find(topic, index)
        assert partition is not None
        return partition.high_watermark

    def advance(self, duration_ms: int) -> None:
        self.clock.advance_ms(duration_ms)
        self.scheduler.run(duration_ms)

    def init(
        self,
        transactional_id: str | None = "x",
        *,
        timeout: int = 60_000,
        own: Producer | None = None,
        version: int = 4,
    ) -> Any:
        """The producer, the error, or Pending."""
        fields = {} if own is None else {"producer_id": own.producer_id, "producer_epoch": own.epoch}
        answer = self.ask(
            "init_producer_id", version, transactional_id=transactional_id, transaction_timeout=timeout, **fields
        )
        if isinstance(answer, Pending):
            return answer
        return answer.error_code or Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer: Producer, *partitions: tuple[str, int], name: str = "x", version: int = 3) -> Any:
        """The outcomes by partition, or Pending."""
        answer = self.ask(
            "add_partitions_to_txn",
            version,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=_by_topic(partitions),
        )
        return answer if isinstance(answer, Pending) else _outcomes(answer.results_by_topic_v3_and_below)

    def verify(self, producer: Producer, *partitions: tuple[str, int], name: str = "x", version: int = 5) -> Any:
        return self.add_batch((name, producer, partitions, True), version=version)[name]

    def add_batch(
        self, *transactions: tuple[str, Producer, tuple[tuple[str, int], ...], bool], version: int = 5
    ) -> Any:
        """The outcomes by partition by transactional id."""
        answer = self.ask(
            "add_partitions_to_txn",
            version,
            transactions=[
                {
                    "transactional_id": name,
                    "producer_id": producer.producer_id,
                    "producer_epoch": producer.epoch,
                    "verify_only": verify_only,
                    "topics": _by_topic(partitions),
                }
                for name, producer, partitions, verify_only in transactions
            ],
        )
        assert answer.error_code is ErrorCode.none
        return {result.transactional_id: _outcomes(result.topic_results) for result in answer.results_by_transaction}

    def finalise(self, level: int) -> None:
        """Set the level of transaction.version."""
        features = self.node.features
        features.take_up(Finalised(features.finalised.epoch + 1, {TRANSACTION_VERSION: level}))

    def end_raising(self, producer: Producer, *, commit: bool = True, name: str = "x") -> Any:
        """The producer of the next transaction, the error, or Pending, as clients of version 2 ask."""
        answer = self.ask(
            "end_txn",
            5,
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        if isinstance(answer, Pending):
            return answer
        return answer.error_code or Producer(answer.producer_id, answer.producer_epoch)

    def write(
        self, producer: Producer, value: bytes, *, partition: int = 0, sequence: int = 0, name: str = "x", version: int
    ) -> Any:
        """The error of a transactional Produce, or Pending."""
        records = one_batch(
            value,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        answer = self.ask(
            "produce",
            version,
            transactional_id=name,
            acks=-1,
            timeout=30_000,
            topic_data=[{"name": "t", "partition_data": [{"index": partition, "records": records}]}],
        )
        return answer if isinstance(answer, Pending) else answer.responses[0].partition_responses[0].error_code

    def end(self, producer: Producer, *, commit: bool = True, name: str = "x", version: int = 3) -> Any:
        """The error, or Pending."""
        answer = self.ask(
            "end_txn",
            version,
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        return answer if isinstance(answer, Pending) else answer.error_code

    def add_offsets(self, producer: Producer, *, group: str = "g", name: str = "x", version: int = 3) -> Any:
        answer = self.ask(
            "add_offsets_to_txn",
            version,
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group,
        )
        return answer if isinstance(answer, Pending) else answer.error_code

    def describe(self, name: str = "x") -> Any:
        (described,) = self.ask("describe_transactions", 0, transactional_ids=[name]).transaction_states
        return described

    def state(self, name: str = "x") -> str:
        """The state, or the error. kio cannot read the description of one that never began a transaction."""
        found = self.list()
        if isinstance(found, dict) and name in found:
            return str(found[name])
        return str(self.describe(name).error_code.name)

    def list(self, version: int = 1, **filters: Any) -> Any:
        """State by transactional id, or the error."""
        defaults: dict[str, Any] = {"state_filters": [], "producer_id_filters": []}
        answer = self.ask("list_transactions", version, **(defaults | filters))
        return answer.error_code or {
            state.transactional_id: state.transaction_state for state in answer.transaction_states
        }


def _by_topic(partitions: tuple[tuple[str, int], ...]) -> list[dict[str, Any]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [{"name": topic, "partitions": indexes} for topic, indexes in topics.items()]


def _outcomes(topics: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, result.partition_index): result.partition_error_code
        for topic in topics
        for result in topic.results_by_partition
    }
