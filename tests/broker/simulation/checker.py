"""What must hold of a cluster whatever befalls it, looked at after each event of a broker.

Of every partition the checker keeps its committed history: all batches that any leader's high watermark has passed. It
is the one thing that may only grow, as consumers have seen it and producers were told so (acks=all). A leader elected
uncleanly may cut it, where that is allowed: what was lost then is counted, and told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from highwater.broker.replica.partition import Partition
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.records.batch import headers
from highwater.kafka.records.record import decode_batch

IDEMPOTENT: Final = b"i"
"""What the values of idempotent producers begin with."""


class Violation(AssertionError):  # noqa: N818 - it names what was found
    """The cluster did what no cluster may do."""


class _Seen(NamedTuple):
    """Of one replica in one life of its broker."""

    leader_epoch: int
    is_leader: bool
    high_watermark: int
    log_end_offset: int


class PartitionHistory:
    def __init__(self, key: TopicPartition) -> None:
        self.key = key
        self.batches: dict[int, bytes] = {}
        """By base offset, all committed."""
        self.committed_in: dict[int, int] = {}
        """The leader epoch in which each of them was."""
        self.values: dict[int, bytes | None] = {}
        """By offset, all committed."""
        self.end_offset = 0
        self.leader_of_epoch: dict[int, int] = {}
        self.acknowledged: dict[bytes, int] = {}
        """Offset by value, of what acks=all was answered for."""
        self.lost = 0
        """Records that unclean elections cost."""


class Checker:
    def __init__(self, *, may_lose: bool = False) -> None:
        self.may_lose = may_lose
        """Whether unclean elections are allowed."""
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self.elections = 0
        self._seen: dict[tuple[object, TopicPartition], _Seen] = {}
        self._controllers: dict[int, int] = {}

    def partition(self, key: TopicPartition) -> PartitionHistory:
        return self.partitions.setdefault(key, PartitionHistory(key))

    # Brokers

    def broker_moved(self, life: object, broker_id: int, partitions: Iterable[Partition]) -> None:
        """Something happened in a broker, in this life of it: look at its replicas."""
        for partition in partitions:
            if partition.has_failed or partition.has_ended:
                continue
            key = partition.topic, partition.index
            log_end_offset = partition.log.log_end_offset
            now = _Seen(partition.leader_epoch, partition.is_leader, partition.high_watermark, log_end_offset)
            before = self._seen.get((life, key))
            if now != before:
                self._seen[life, key] = now
                self._replica_changed(broker_id, partition, before, now)

    def broker_dies(self, life: object, broker_id: int, partitions: Iterable[Partition]) -> None:
        """It may have told producers and consumers what it committed in the event in which it dies.

        The log of a follower may be half cut then. The log of a leader only grows.
        """
        self.broker_moved(life, broker_id, (partition for partition in partitions if partition.is_leader))

    def _replica_changed(self, broker_id: int, partition: Partition, before: _Seen | None, now: _Seen) -> None:
        history = self.partition((partition.topic, partition.index))
        place = f"{partition.topic}-{partition.index} on broker {broker_id}"
        if now.high_watermark > now.log_end_offset:
            raise Violation(f"{place}: high watermark {now.high_watermark} is beyond the log's end, {now}")
        if before is not None and now.leader_epoch < before.leader_epoch:
            raise Violation(f"{place}: leader epoch went back, {before} to {now}")
        if not now.is_leader:
            return
        leads_anew = before is None or not before.is_leader or before.leader_epoch != now.leader_epoch
        if leads_anew:
            self._begins_to_lead(broker_id, partition, history, place)
        elif before is not None:
            if now.high_watermark < before.high_watermark:
                raise Violation(f"{place}: high watermark went back while it leads, {before} to {now}")
            if now.log_end_offset < before.log_end_offset:
                raise Violation(f"{place}: the log was cut while it leads, {before} to {now}")
        start = 0 if before is None or leads_anew else before.high_watermark
        self._committed(partition, history, start, now.high_watermark, place)

    def _begins_to_lead(self, broker_id: int, partition: Partition, history: PartitionHistory, place: str) -> None:
        self.elections += 1
        epoch = partition.leader_epoch
        other = history.leader_of_epoch.setdefault(epoch, broker_id)
        if other != broker_id:
            raise Violation(f"{place}: leads in epoch {epoch}, in which broker {other} led")
        own = dict(_batches(partition, 0, partition.log.log_end_offset))
        for base_offset, batch in history.batches.items():
            # Who was paused when it was told to lead may find out about that after its successor was told.
            if own.get(base_offset) != batch and history.committed_in[base_offset] < epoch:
                if not self.may_lose:
                    found = "other data" if base_offset in own else "nothing"
                    raise Violation(
                        f"{place}: it leads in epoch {epoch} and has {found} at offset {base_offset}, which was "
                        f"committed (up to {history.end_offset}); its log ends at {partition.log.log_end_offset}"
                    )
                self._lose(history, base_offset)
                return

    def _lose(self, history: PartitionHistory, offset: int) -> None:
        history.lost += sum(at >= offset for at in history.values)
        history.batches = {at: batch for at, batch in history.batches.items() if at < offset}
        history.values = {at: value for at, value in history.values.items() if at < offset}
        history.acknowledged = {value: at for value, at in history.acknowledged.items() if at < offset}
        history.end_offset = offset

    def _committed(
        self, partition: Partition, history: PartitionHistory, start: int, high_watermark: int, place: str
    ) -> None:
        if self.may_lose and partition.leader_epoch < max(history.leader_of_epoch):
            return  # alone in sync, it does not know that another was elected uncleanly
        for base_offset, batch in _batches(partition, start, high_watermark):
            known = history.batches.get(base_offset)
            if known is None:
                if base_offset != history.end_offset:
                    raise Violation(f"{place}: committed {base_offset} after {history.end_offset}")
                _, header = next(headers(batch))
                history.batches[base_offset] = batch
                history.committed_in[base_offset] = partition.leader_epoch
                history.end_offset = header.next_offset
                if header.is_control:
                    history.values |= dict.fromkeys(range(base_offset, header.next_offset))
                else:
                    history.values |= {record.offset: record.value for record in decode_batch(batch, header)}
            elif known != batch:
                raise Violation(f"{place}: two batches were committed at offset {base_offset}")

    def controls(self, broker_id: int, epoch: int) -> None:
        """A broker takes itself for the controller of an epoch."""
        other = self._controllers.setdefault(epoch, broker_id)
        if other != broker_id:
            raise Violation(f"brokers {other} and {broker_id} are both the controller of epoch {epoch}")

    # Clients

    def acknowledged(self, key: TopicPartition, value: bytes, offset: int) -> None:
        """A producer was told, with acks=all, that a record is safe."""
        history = self.partition(key)
        if offset >= 0 and history.values.get(offset) != value:
            if self.may_lose:
                history.lost += 1  # the leader did not know yet that another was elected uncleanly
                return
            raise Violation(
                f"{key[0]}-{key[1]}: {value!r} was acknowledged at offset {offset}, where "
                f"{history.values.get(offset)!r} is committed (up to {history.end_offset})"
            )
        history.acknowledged[value] = offset

    def consumed(self, key: TopicPartition, offset: int, value: bytes | None) -> None:
        history = self.partition(key)
        if not self.may_lose and history.values.get(offset, b"?") != value:
            raise Violation(
                f"{key[0]}-{key[1]}: a consumer read {value!r} at offset {offset}, where "
                f"{history.values.get(offset)!r} is committed (up to {history.end_offset})"
            )

    # The end

    def converged(self, key: TopicPartition, replicas: Iterable[tuple[int, Partition]]) -> None:
        """All is healed, and time enough has passed: the replicas are the same, and hold what they must."""
        history = self.partition(key)
        name = f"{key[0]}-{key[1]}"
        logs: list[tuple[int, list[tuple[int, bytes]]]] = []
        for broker_id, partition in replicas:
            end_offset = partition.log.log_end_offset
            if partition.high_watermark != end_offset:
                raise Violation(
                    f"{name}: high watermark {partition.high_watermark} and log end {end_offset} on broker {broker_id} "
                    "do not meet"
                )
            logs.append((broker_id, list(_batches(partition, partition.log.log_start_offset, end_offset))))
        first_id, first = logs[0]
        for broker_id, log in logs[1:]:
            if log != first:
                raise Violation(f"{name}: the logs of brokers {first_id} and {broker_id} are not the same")
        expected = 0
        values: list[bytes] = []
        for base_offset, batch in first:
            _, header = next(headers(batch))
            if base_offset != expected:
                raise Violation(f"{name}: offset {base_offset} follows {expected - 1}")
            expected = header.next_offset
            if not header.is_control:
                values += [record.value or b"" for record in decode_batch(batch, header)]
        there = set(values)
        missing = [value for value in history.acknowledged if value not in there]
        if missing:
            raise Violation(f"{name}: acknowledged and not there: {missing[:5]}")
        self._in_order_and_once(name, [value for value in values if value.startswith(IDEMPOTENT)])

    def _in_order_and_once(self, name: str, values: list[bytes]) -> None:
        last: dict[bytes, int] = {}
        for value in values:
            producer, _, number_text = value.rpartition(b":")
            number = int(number_text)
            if number <= last.get(producer, -1):
                raise Violation(f"{name}: record {value!r} stands after {producer.decode()}:{last[producer]}")
            last[producer] = number


def _batches(partition: Partition, start: int, end: int) -> Iterable[tuple[int, bytes]]:
    """(base offset, whole batch) of those below `end`, from the one that holds `start` on."""
    offset = max(start, partition.log.log_start_offset)
    while offset < end:
        data = partition.log.read(offset, 1 << 20, end_offset=end, at_least_one_batch=True)
        if not isinstance(data, bytes):
            raise Violation(f"{partition.topic}-{partition.index} cannot be read at {offset}: {data!r}")
        if not data:
            return
        for position, header in headers(data):
            yield header.base_offset, data[position : position + header.size_bytes]
            offset = header.next_offset
