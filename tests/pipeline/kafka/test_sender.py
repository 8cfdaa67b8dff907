"""The sender of batches: in order and once, whatever happens to requests and connections."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from kio.schema.errors import ErrorCode

from highwater.kafka.protocol.produce import ProduceRequest
from highwater.kafka.records.batch import Codec, read_header
from highwater.kafka.records.record import decode_batch
from highwater.pipeline.kafka.encode import EncodedBatch, encode
from highwater.pipeline.kafka.model import Producer
from highwater.pipeline.kafka.reader import OffsetRange, read_range
from highwater.pipeline.kafka.sender import BatchSender, FencedError, RefusedBatchError, SequenceLostError
from tests.broker.running import RunningBroker, running_broker
from tests.pipeline.kafka.asking import NOW_MS, client_of
from tests.pipeline.kafka.fake_broker import cluster_of, fake_broker
from tests.pipeline.source.topics import Topics

US = Producer(7, 1)


def batches_of(values: list[bytes], batch_bytes: int = 100) -> list[EncodedBatch]:
    return list(encode(pa.record_batch({"value": pa.array(values)}), now_ms=NOW_MS, batch_bytes=batch_bytes))


class Log:
    """A partition that checks sequences as a broker does."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self._known: list[tuple[int, int]] = []

    def append(self, batch: bytes) -> dict[str, Any]:
        header = read_header(batch)
        assert (header.producer_id, header.producer_epoch) == (US.producer_id, US.epoch)
        if (found := (header.base_sequence, header.record_count)) in self._known[-5:]:
            return {"base_offset": found[0]}
        if header.base_sequence != len(self.values):
            return {"error_code": ErrorCode.out_of_order_sequence_number}
        self._known.append(found)
        self.values += [record.value for record in decode_batch(batch)]
        return {"base_offset": header.base_sequence}


def answer_of(request: ProduceRequest, of_partition: Any) -> dict[str, Any]:
    return {
        "responses": [
            {
                "name": topic,
                "partition_responses": [
                    {"index": index, "log_append_time": -1, "base_offset": -1, **of_partition(index, records)}
                    for index, records in partitions
                ],
            }
            for topic, partitions in request.topics
        ]
    }


@pytest.mark.parametrize("seed", range(30))
def test_records_arrive_once_and_in_order(seed: int) -> None:
    chooser = random.Random(seed)
    logs = {partition: Log() for partition in range(3)}

    def answer(api: str, request: Any) -> Any:
        if api == "metadata":
            return cluster_of([broker.port], dict.fromkeys(logs, 0))

        def of_partition(index: int, records: Any) -> dict[str, Any]:
            if chooser.random() < 0.1:
                return {"error_code": chooser.choice([ErrorCode.not_leader_or_follower, ErrorCode.request_timed_out])}
            appended = logs[index].append(bytes(records))
            # A broker can append a batch and still answer that it timed out.
            return {"error_code": ErrorCode.request_timed_out} if chooser.random() < 0.05 else appended

        if chooser.random() < 0.1:
            return None
        found = answer_of(request, of_partition)
        return None if chooser.random() < 0.1 else found

    wanted = {partition: [b"%d-%d" % (partition, n) for n in range(200)] for partition in logs}
    with fake_broker(answer) as broker, client_of(broker.port) as client:
        sender = BatchSender(client, US)
        left = [(partition, batch) for partition, values in wanted.items() for batch in batches_of(values)]
        # In any order of partitions, in their order within each.
        order = chooser.sample([partition for partition, _ in left], len(left))
        queues = {partition: iter([b for p, b in left if p == partition]) for partition in logs}
        for partition in order:
            sender.send(("t", partition), next(queues[partition]))
        written = sender.finish()
    assert {partition: log.values for partition, log in logs.items()} == wanted
    for partition in logs:
        found = written["t", partition]
        assert (found.record_count, found.next_sequence, found.last_offset) == (200, 200, 199)


TOO_LARGE = (
    "t-0: a batch of 1 record, 69 B, is larger than max.message.bytes of the topic; raise that, or write smaller "
    "records"
)
FENCED = (
    "t-0: PRODUCER_FENCED: another query or driver writes with the transactional id tx, or the transaction was open "
    "for longer than transaction.timeout.ms; give each query an id of its own"
)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (ErrorCode.message_too_large, RefusedBatchError, TOO_LARGE),
        (ErrorCode.invalid_record, RefusedBatchError, "t-0: INVALID_RECORD (87)"),
        (ErrorCode.producer_fenced, FencedError, FENCED),
    ],
)
def test_a_refusal_is_one_line(code: ErrorCode, kind: type[Exception], text: str) -> None:
    def answer(api: str, request: Any) -> Any:
        if api == "metadata":
            return cluster_of([broker.port], {0: 0})
        return answer_of(request, lambda _, __: {"error_code": code})

    with fake_broker(answer) as broker, client_of(broker.port) as client:
        sender = BatchSender(client, US, transactional_id="tx")
        sender.send(("t", 0), *batches_of([b"v"]))
        with pytest.raises(kind) as refused:
            sender.finish()
    assert str(refused.value) == text
    assert str(pickle.loads(pickle.dumps(refused.value))) == text  # noqa: S301 - of our own making


def test_a_sequence_that_went_on_elsewhere_is_refused() -> None:
    log = Log()

    def answer(api: str, request: Any) -> Any:
        if api == "metadata":
            return cluster_of([broker.port], {0: 0})
        return answer_of(request, lambda _, records: log.append(bytes(records)))

    with fake_broker(answer) as broker, client_of(broker.port) as client:
        sender = BatchSender(client, US, sequences={("t", 0): 3})
        sender.send(("t", 0), *batches_of([b"v"]))
        with pytest.raises(SequenceLostError, match=r"^t-0: OUT_OF_ORDER_SEQUENCE_NUMBER \(45\)$"):
            sender.finish()


@pytest.fixture(scope="module")
def real_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("sender") / "log") as running:
        yield running


@pytest.mark.clients
@pytest.mark.parametrize("codec", Codec)
def test_our_broker_takes_every_codec(real_broker: RunningBroker, codec: Codec) -> None:
    topics = Topics(real_broker.address)
    name = f"codec-{codec.name.lower()}"
    topics.create(name, 2)
    values = [b"%06d" % n * 10 for n in range(20_000)]
    rows = pa.record_batch({"value": pa.array(values), "key": pa.array(values)})
    with client_of(real_broker.port) as client:
        producer = client.init_producer_id()
        assert isinstance(producer, Producer)
        sender = BatchSender(client, producer)
        for partition in (0, 1):
            for batch in encode(rows, now_ms=NOW_MS, codec=codec, batch_bytes=100_000):
                sender.send((name, partition), batch)
        for batch in encode(rows.slice(0, 1), now_ms=NOW_MS, codec=codec, batch_bytes=100_000):
            sender.send((name, 1), batch)
        written = sender.finish()
        assert {of: each.next_sequence for of, each in written.items()} == {(name, 0): 20_000, (name, 1): 20_001}
        for partition, more in ((0, []), (1, values[:1])):
            found = read_range(client, OffsetRange(name, partition, 0, 20_000 + len(more)), columns=("value",))
            assert [value for each in found for value in each.rows.column(0).to_pylist()] == values + more
    assert [row["value"] for row in topics.rows(name, 2)] == [*values, *values, values[0]]
