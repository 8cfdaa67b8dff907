"""The files of Apache Kafka 3.9 and ours, byte for byte, after the same requests at the same times.

Commit `abc5365b` has the program that made tests/golden/kafka-3.9, `tests.compat.apache_kafka.golden`, which says what
the requests are. Each line of `requests.jsonl` is one: the API, its version, the time Kafka took it to be, the frame
and Kafka's answer (base64). `log/` is what Kafka had in its log directory after a clean stop.

These alone are not compared:

- topic ids, which are drawn at random;
- of a snapshot the batches of a producer before its last one, which Kafka does not keep there;
- the order of the lines of a checkpoint, which is that of a hash map in Kafka;
- of a committed offset its time, as Kafka reads its clock a second time for it, and the base sequence of its batch:
  with no producer it means nothing, and Kafka writes 0 there where it writes -1 in all other such batches.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from highwater.broker.features import NOTHING
from highwater.broker.handlers.shared.reply import PendingResponse
from highwater.broker.log.compaction import compact
from highwater.broker.log.compaction_job import CleanedGroup
from highwater.broker.log.config import LogConfig
from highwater.broker.log.files import RealFiles
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.partition_log import PartitionLog
from highwater.kafka.protocol.frame import Part
from highwater.kafka.records.batch import BatchHeader, headers, read_header
from highwater.kafka.records.checksum import crc32c
from highwater.kafka.records.record import decode_batch, encode_batch
from tests.broker.handlers.harness import NodeHarness, decode_answer
from tests.broker.log.building import flush
from tests.broker.manual_clock import ManualClock

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-3.9"
TRANSACTION_STATE = "__transaction_state-0"
TOPICS = sorted(path.name for path in (GOLDEN / "log").iterdir() if path.is_dir() and path.name != TRANSACTION_STATE)
RETRIABLE = {3, 5, 6, 14, 15, 16, 51}
INDEX_INTERVALS = {"codecs-0": 500} | dict.fromkeys(
    ("plain-0", "append-time-0", "idempotent-0", "transactional-0", "compacted-0"), 300
)
CHECKPOINTS = sorted(path.name for path in (GOLDEN / "log").iterdir() if path.is_file())


class Replay(NamedTuple):
    log_dir: Path
    answers: list[tuple[dict[str, Any], Any, Any]]
    """Requests, Kafka's answers, ours."""


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """Our log directory after all requests, compacted and closed cleanly."""
    log_dir = tmp_path_factory.mktemp("replay") / "log"
    node = NodeHarness(
        log_dir,
        offsets_topic_num_partitions="1",
        transaction_state_log_num_partitions="1",
        transaction_partition_verification_enable="false",
    )
    # Kafka 3.9 has no features.
    node.node.features.take_up(NOTHING._replace(epoch=node.node.features.finalised.epoch + 1))
    answers = [
        (request, _decoded(request, base64.b64decode(request["answer"])), _decoded(request, _answer(node, request)))
        for request in map(json.loads, (GOLDEN / "requests.jsonl").read_text().splitlines())
    ]
    _compact(node, node.log_directory.logs["compacted", 0])
    node.log_directory.close(
        high_watermarks={
            (partition.topic, partition.index): partition.high_watermark for partition in node.node.partitions.live()
        }
    )
    return Replay(log_dir, answers)


def error_codes(answer: Any) -> set[int]:
    """Of all levels of an answer."""
    if isinstance(answer, tuple):
        return {code for item in answer for code in error_codes(item)}
    if hasattr(answer, "__dataclass_fields__"):
        codes = {int(answer.error_code)} if hasattr(answer, "error_code") else set()
        return codes | {code for name in answer.__dataclass_fields__ for code in error_codes(getattr(answer, name))}
    return set()


def _answer(node: NodeHarness, request: dict[str, Any]) -> bytes:
    node.clock.advance_ms(request["now_ms"] - node.clock.now_ms())
    frame = base64.b64decode(request["frame"])
    while True:
        reply = node.send(frame)
        assert reply is not None
        parts = _awaited(node, reply) if isinstance(reply, PendingResponse) else reply
        answer = b"".join(bytes(part) for part in parts)
        if not error_codes(_decoded(request, answer)) & RETRIABLE:
            return answer
        node.scheduler.run(1)


def _awaited(node: NodeHarness, pending: PendingResponse) -> list[Part]:
    found: list[list[Part]] = []
    pending.deferred.on_ready(lambda parts: found.append(pending.frame(parts)))
    while not found:
        node.scheduler.run(1)
    return found[0]


def _decoded(request: dict[str, Any], answer: bytes) -> Any:
    return decode_answer(request["api"], request["version"], [answer])


def _compact(node: NodeHarness, log: PartitionLog) -> None:
    """One pass at the time at which Kafka's was, which shows in the horizon of what it leaves of tombstones."""
    golden = sorted((GOLDEN / "log" / "compacted-0").glob("*.log"))
    found = [header.delete_horizon_ms for path in golden for _, header in headers(path.read_bytes())]
    (horizon_ms,) = {horizon_ms for horizon_ms in found if horizon_ms is not None}
    now_ms = horizon_ms - log.config.delete_retention_ms
    flush(log)
    job = log.compaction_job(log.dirtiness(0, log.log_end_offset, now_ms), now_ms, 1 << 20, 0.9, ".cleaned")
    for step in compact(RealFiles(), job, lambda _: None):
        if isinstance(step, CleanedGroup):
            log.replace_segments(step, now_ms)
        else:
            node.log_directory.clean_offsets["compacted", 0] = step.clean_up_to
            node.log_directory.begin_cleaner_checkpoint().write()


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.suffix != ".deleted"}


def _without_commit_times(log: bytes) -> bytes:
    batches = []
    for position, header in headers(log):
        records = [record._replace(value=(record.value or b"")[:-8]) for record in decode_batch(log[position:], header)]
        batches.append(encode_batch(records, base_offset=header.base_offset, leader_epoch=header.leader_epoch))
        assert header._replace(length=0, crc=0, base_sequence=-1) == read_header(batches[-1])._replace(length=0, crc=0)
    return b"".join(batches)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_files_of_a_partition_are_kafkas(replay: Replay, topic: str) -> None:
    ours = _files(replay.log_dir / topic)
    kafkas = _files(GOLDEN / "log" / topic)
    for files in (ours, kafkas):
        files["partition.metadata"] = re.sub(rb"topic_id: \S{22}\b", b"topic_id: x", files["partition.metadata"])
        if topic.startswith("__consumer_offsets"):
            files[f"{0:020}.log"] = _without_commit_times(files[f"{0:020}.log"])
    _same_files(ours, kafkas)


def test_the_states_of_transactions_are_written_as_kafka_writes_them(replay: Replay) -> None:
    """But for the times, for which Kafka reads its clock twice for each record: at its end, and for its batch."""

    def states(log_dir: Path) -> list[tuple[bytes | None, bytes, BatchHeader]]:
        data = (log_dir / TRANSACTION_STATE / f"{0:020}.log").read_bytes()
        return [
            (record.key, (record.value or b"")[:-16], header._replace(crc=0, base_timestamp_ms=0, max_timestamp_ms=0))
            for position, header in headers(data)
            for record in decode_batch(data[position:], header)
        ]

    assert len(states(GOLDEN / "log")) > 8
    assert states(replay.log_dir) == states(GOLDEN / "log")


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_checkpoints_are_kafkas(replay: Replay, name: str) -> None:
    assert sorted((replay.log_dir / name).read_text().splitlines()) == sorted(
        (GOLDEN / "log" / name).read_text().splitlines()
    )


def test_the_answers_are_kafkas(replay: Replay) -> None:
    compared = [
        (number, kafkas, ours)
        for number, (request, kafkas, ours) in enumerate(replay.answers)
        if request["api"] not in ("find_coordinator", "create_topics")  # addresses and topic ids
    ]
    assert len(compared) > 100
    for number, kafkas, ours in compared:
        assert ours == kafkas, f"request {number}"


def test_refused_and_repeated_batches_are_among_the_requests() -> None:
    """The comparison covers what the broker decides about producers, not only what it is given."""
    codes = {code for request in _requests() for code in _error_codes(request)}
    assert {0, 45, 47} <= codes, codes


def _requests() -> Iterator[dict[str, Any]]:
    for line in (GOLDEN / "requests.jsonl").read_text().splitlines():
        yield json.loads(line)


def _error_codes(request: dict[str, Any]) -> Iterator[int]:
    if request["api"] == "produce":
        for response in _decoded(request, base64.b64decode(request["answer"])).responses:
            yield from (int(partition.error_code) for partition in response.partition_responses)


@pytest.fixture
def kafkas_directory(tmp_path: Path) -> Path:
    """A copy of Kafka's log directory, with what ZooKeeper knew of its topics."""
    log_dir = tmp_path / "log"
    shutil.copytree(GOLDEN / "log", log_dir)
    (log_dir / "meta.properties").write_text("version=0\ncluster.id=kafkas\nbroker.id=0\n")
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":24}')
    tree: dict[str, Any] = {"/cluster/id": {"version": "1", "id": "kafkas"}, "/controller_epoch": 1}
    for directory in (*TOPICS, TRANSACTION_STATE):
        found = re.search(r"topic_id: (\S+)", (log_dir / directory / "partition.metadata").read_text())
        assert found is not None
        tree[f"/brokers/topics/{directory.removesuffix('-0')}"] = {
            "version": 3,
            "topic_id": found[1],
            "partitions": {"0": [0]},
            "adding_replicas": {},
            "removing_replicas": {},
        }
    (log_dir / "embedded-metadata.json").write_text(json.dumps(tree))
    return log_dir


@pytest.mark.parametrize("topic", [*TOPICS, TRANSACTION_STATE])
def test_what_kafka_wrote_is_served(kafkas_directory: Path, topic: str) -> None:
    node = NodeHarness(kafkas_directory)
    log = node.log_directory.logs[topic.removesuffix("-0"), 0]
    wanted = b"".join(path.read_bytes() for path in sorted((GOLDEN / "log" / topic).glob("*.log")))
    served = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1000, end_offset=log.log_end_offset, at_least_one_batch=True)
        assert isinstance(data, bytes)
        if not data:
            break  # Compaction took the records at the end of a segment.
        served += data
        offset = [header.next_offset for _, header in headers(data)][-1]
    assert served == wanted
    node.close()
    _same_files(_files(kafkas_directory / topic), _files(GOLDEN / "log" / topic))


@pytest.mark.parametrize("topic", [*TOPICS, TRANSACTION_STATE])
def test_indexes_are_rebuilt_as_kafka_had_them(kafkas_directory: Path, topic: str) -> None:
    (kafkas_directory / ".kafka_cleanshutdown").unlink()
    (kafkas_directory / "recovery-point-offset-checkpoint").unlink()
    for suffix in ("index", "timeindex", "txnindex", "snapshot"):
        for path in (kafkas_directory / topic).glob(f"*.{suffix}"):
            path.unlink()
    config = LogConfig(index_interval_bytes=INDEX_INTERVALS.get(topic, 4096), cleanup_policy=("compact",))
    directory = LogDirectory(RealFiles(), kafkas_directory, config, broker_id=0, clock=ManualClock())
    directory.load(lambda _: config, lambda done, total: None)
    directory.close()
    ours, kafkas = _files(kafkas_directory / topic), _files(GOLDEN / "log" / topic)
    # Of producers only what they are at the end is found again, of aborted transactions those that have records yet.
    last = max((name for name in kafkas if name.endswith(".snapshot")), default="")
    gone = [name for name in kafkas if name.endswith(".snapshot") and name != last]
    gone += [name for name in kafkas if name.endswith(".txnindex") and topic == "compacted-0"]
    _same_files(ours, {name: data for name, data in kafkas.items() if name not in gone})


def _same_files(ours: dict[str, bytes], kafkas: dict[str, bytes]) -> None:
    """Snapshots have more batches of each producer than Kafka's, which are the last ones."""
    assert sorted(ours) == sorted(kafkas)
    ours = {name: _last_batches(data) if name.endswith(".snapshot") else data for name, data in ours.items()}
    different = [name for name in kafkas if ours[name] != kafkas[name]]
    assert not different, f"{different[0]}: {ours[different[0]].hex(' ')} in place of {kafkas[different[0]].hex(' ')}"


def _last_batches(snapshot: bytes) -> bytes:
    """The snapshot with the last entry of each producer alone."""
    last = dict(struct.iter_unpack(">q38s", snapshot[10:]))
    body = struct.pack(">i", len(last)) + b"".join(struct.pack(">q38s", *entry) for entry in last.items())
    return snapshot[:2] + struct.pack(">I", crc32c(body)) + body
