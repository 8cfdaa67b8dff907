"""How the sink of a whole batch ends, with a client that answers by script: nothing twice, nothing in silence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from pyspark.sql.types import StringType, StructType

from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.kafka.model import Producer
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf, ProgressError
from highwater.pipeline.sink import batch_transaction
from highwater.pipeline.sink.batch_transaction import TransactionalSink
from highwater.pipeline.sink.errors import SinkError

CONF = SimpleNamespace(get=lambda name, default: default)
FRAME: Any = SimpleNamespace(
    sparkSession=SimpleNamespace(conf=CONF),
    schema=StructType().add("value", StringType()),
)


class ScriptedClient:
    def __init__(self, end: BrokerError | None, begin: BrokerError | None = None) -> None:
        self._end = end
        self._begin = begin
        self.followed: list[object] = []

    def init_producer_id(self, *given: object) -> Producer:
        self.followed.append(given[-1])
        return Producer(len(self.followed), 0)

    def committed_offsets(self, _: str) -> dict[object, object]:
        return {}

    def add_partitions_to_transaction(self, *_: object) -> dict[object, BrokerError]:
        """The error comes once."""
        found, self._begin = self._begin, None
        return {} if found is None else {("out", 0): found}

    def add_offsets_to_transaction(self, *_: object) -> None:
        return None

    def commit_offsets_in_transaction(self, *_: object) -> dict[object, BrokerError]:
        return {}

    def end_transaction(self, *_: object, commit: bool) -> BrokerError | None:
        return self._end if commit else None


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Each time that the rows were written."""
    found: list[object] = []
    monkeypatch.setattr(TransactionalSink, "_counts", lambda _: {"out": 1})

    def run(*given: object) -> dict[object, int]:
        found.append(given)
        return {}

    monkeypatch.setattr(TransactionalSink, "_run", run)
    return found


def sink(monkeypatch: pytest.MonkeyPatch, end: BrokerError | None = None, first_batch: int = 0) -> TransactionalSink:
    monkeypatch.setattr(batch_transaction, "Client", lambda _: ScriptedClient(end))
    return TransactionalSink("127.0.0.1:9092", "copy", "out", first_batch=first_batch)


@pytest.mark.parametrize("code", [ErrorCode.concurrent_transactions, ErrorCode.invalid_producer_id_mapping])
def test_a_frame_whose_commit_may_have_worked_is_not_written_again(
    monkeypatch: pytest.MonkeyPatch, runs: list[object], code: ErrorCode
) -> None:
    """The brokers forget no producer whose transaction is open: it has ended, one way or the other."""
    slow = sink(monkeypatch, BrokerError(code))
    with pytest.raises(SinkError, match=r"^it is not known whether the transaction was committed: "):
        slow.append(FRAME)
    assert len(runs) == 1


def test_a_second_write_of_a_batch_is_not_taken_for_a_replay(
    monkeypatch: pytest.MonkeyPatch, runs: list[object]
) -> None:
    batch = BatchOf("query", 0, (Offsets({("in", 0): 5}),), run_id="run")
    monkeypatch.setattr(batch_transaction, "batch_in_hand", lambda *_: batch)
    sink(monkeypatch).write(FRAME, 0)
    with pytest.raises(ProgressError, match=r"^sink copy at 127\.0\.0\.1:9092 was given batch 0 twice"):
        sink(monkeypatch).write(FRAME, 0)
    assert len(runs) == 1


def test_a_query_whose_marker_has_expired_has_a_way_out(monkeypatch: pytest.MonkeyPatch, runs: list[object]) -> None:
    batch = BatchOf("query", 13, (Offsets({("in", 0): 5}),), run_id="expired")
    monkeypatch.setattr(batch_transaction, "batch_in_hand", lambda *_: batch)
    with pytest.raises(ProgressError, match="first_batch=13 says"):
        sink(monkeypatch).write(FRAME, 13)
    sink(monkeypatch, first_batch=13).write(FRAME, 13)
    assert len(runs) == 1


def test_a_producer_that_the_brokers_forgot_gets_a_successor(
    monkeypatch: pytest.MonkeyPatch, runs: list[object]
) -> None:
    """After a week without a batch, transactional.id.expiration.ms has passed."""
    client = ScriptedClient(None, begin=BrokerError(ErrorCode.invalid_producer_id_mapping))
    monkeypatch.setattr(batch_transaction, "Client", lambda _: client)
    TransactionalSink("127.0.0.1:9092", "copy", "out").append(FRAME)
    assert len(runs) == 1
    # The successor names whom it follows, so that it is refused if another driver took over.
    assert client.followed == [None, Producer(1, 0)]
