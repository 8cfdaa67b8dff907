"""A broker in a thread whose answers to Produce are told beforehand."""

from __future__ import annotations

import os
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from highwater.bench.calibrate.null_broker import NullBroker

OUT_OF_ORDER, DUPLICATE, INVALID_EPOCH = 45, 46, 47
# Of a batch's header: producer id, epoch, base sequence, number of records.
_PLACE: Final = struct.Struct(">qhii")
_PLACE_AT: Final = 43


class ScriptedBroker(NullBroker):
    """Partition -> errors of its next answers, one after the other; then none. The topic has two partitions."""

    def __init__(self, topic: str, script: Mapping[int, Sequence[int]]) -> None:
        super().__init__({topic: 2})
        self._stop, self._stopping = os.pipe()
        self._thread = threading.Thread(target=self.serve, args=(self._stop,))
        self._left = threading.Event()
        self._script = defaultdict(list, {partition: list(errors) for partition, errors in script.items()})

    def error_for(self, topic: str, partition: int, batch_header: bytes) -> int:
        return self._script[partition].pop(0) if self._script[partition] else 0

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Go away for good, at the next chance."""
        if not self._left.is_set():
            self._left.set()
            os.close(self._stopping)

    def close(self) -> None:
        self._thread.join()
        os.close(self._stop)

    @property
    def bootstrap_servers(self) -> str:
        host, port = self.address
        return f"{host}:{port}"


class SequencedBroker(ScriptedBroker):
    """Takes of each idempotent producer what follows on what it has, as Kafka does; the script comes first.

    LOST in the script: the batch is taken, and the answer says that it may not be.
    """

    LOST: Final = 7  # request timed out

    def __init__(self, topic: str, script: Mapping[int, Sequence[int]]) -> None:
        super().__init__(topic, script)
        self.epochs: set[int] = set()
        self.taken: dict[int, int] = defaultdict(int)
        """Records by partition, each once."""
        self._expected: dict[tuple[int, int], tuple[int, int]] = {}

    def error_for(self, topic: str, partition: int, batch_header: bytes) -> int:
        scripted = super().error_for(topic, partition, batch_header)
        if scripted not in (0, self.LOST):
            return scripted
        producer_id, epoch, first, count = _PLACE.unpack_from(batch_header, _PLACE_AT)
        known_epoch, expected = self._expected.get((producer_id, partition), (epoch, 0))
        if epoch < known_epoch:
            return INVALID_EPOCH
        if first < expected and epoch == known_epoch:
            return DUPLICATE
        if first != (0 if epoch > known_epoch else expected):
            return OUT_OF_ORDER
        self.epochs.add(epoch)
        self.taken[partition] += count
        self._expected[producer_id, partition] = epoch, first + count
        return scripted


@contextmanager
def scripted_broker(script: Mapping[int, Sequence[int]], topic: str = "scripted") -> Iterator[ScriptedBroker]:
    with _serving(ScriptedBroker(topic, script)) as broker:
        yield broker


@contextmanager
def sequenced_broker(script: Mapping[int, Sequence[int]], topic: str = "scripted") -> Iterator[SequencedBroker]:
    with _serving(SequencedBroker(topic, script)) as broker:
        yield broker


Scripted = TypeVar("Scripted", bound=ScriptedBroker)


@contextmanager
def _serving(broker: Scripted) -> Iterator[Scripted]:
    broker.start()
    try:
        yield broker
    finally:
        broker.leave()
        broker.close()
