"""Produce, Fetch, and everything that looks up offsets."""

from __future__ import annotations

import time
from typing import Any

from highwater.kafka.records.batch import HEADER, Codec, read_header, update_crc
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.handlers.harness import one_batch, versions
from tests.compat.apache_kafka.answers.script import (
    NO_SUCH_ID,
    TIMESTAMP_MS,
    YEAR_MS,
    Fields,
    Script,
    id_of,
    versions_of_both,
)


def producing(script: Script) -> None:
    script.note("Produce")

    def data(topic: str, records: bytes | None, partition: int = 0) -> Fields:
        return {"name": topic, "partition_data": [{"index": partition, "records": records}]}

    def one(
        told: str,
        *topic_data: Fields,
        version: int = 9,
        acks: int = -1,
        transactional_id: str | None = None,
    ) -> None:
        fields: Fields = {
            "transactional_id": transactional_id,
            "acks": acks,
            "timeout": 30_000,
            "topic_data": topic_data,
        }
        script.ask("produce", version, told, **fields)

    fine = one_batch(b"v")
    for version in versions_of_both("produce"):
        one("fine", data("t", fine), version=version)
    for version in versions_of_both("produce"):
        one("no such topic", data("nowhere", fine), version=version)
        one("too large", data("small", one_batch(b"v" * 400)), version=version)
        one("bad checksum", data("t", fine[:-1] + b"!"), version=version)
        one("no key where keys are needed", data("compacted", one_batch(b"v", b"w")), version=version)
        one("clock of the broker", data("append-time", fine), version=version)
        one("too old", data("bounded", one_batch(b"v", b"w")), version=version)
    one("bad topic name", data("a b", fine))
    for acks in (1, 2, -2):
        one(f"acks {acks}", data("t", fine), acks=acks)
    for partition in (9, -1):
        one(f"partition {partition}", data("t", fine, partition))
    one("records null", data("t", None))
    one("records empty", data("t", b""))
    one("records cut", data("t", fine[:-3]))
    one("records of 5 bytes", data("t", fine[:5]))
    one("bytes after", data("t", fine + b"abc"))
    one("two batches", data("t", fine + fine))
    one("the same partition twice", data("t", fine), data("t", one_batch(b"v", b"w")))
    one("nothing")
    one("no partition", {"name": "t", "partition_data": []})
    one("internal", data("__consumer_offsets", fine))
    one("magic 7", data("t", fine[:16] + b"\x07" + fine[17:]))
    one("zstd", data("t", bytes(encode_batch([Record(b"v" * 50)], codec=Codec.ZSTD))), version=6)
    one("zstd", data("t", bytes(encode_batch([Record(b"v" * 50)], codec=Codec.ZSTD))), version=7)
    one("base offset 7", data("t", bytes(encode_batch([Record(b"v")], base_offset=7))))
    one("leader epoch 7", data("t", bytes(encode_batch([Record(b"v")], leader_epoch=7))))
    one("control batch", data("t", bytes(encode_batch([Record(b"v", b"k")], is_control=True))))
    one("timestamp -1", data("t", bytes(encode_batch([Record(b"v", timestamp_ms=-1)]))))
    one("timestamp -2", data("t", bytes(encode_batch([Record(b"v", timestamp_ms=-2)]))))
    far = round(time.time() * 1000) + YEAR_MS
    one("from the future", data("t", bytes(encode_batch([Record(b"v", timestamp_ms=far)]))))
    for told, batch in (
        ("p 500 at 5", _idempotent(500, 0, 5)),
        ("p 500 at 6", _idempotent(500, 0, 6)),
        ("p 500 at 6 again", _idempotent(500, 0, 6)),
        ("p 500 at 5 again", _idempotent(500, 0, 5)),
        ("p 500 at 9", _idempotent(500, 0, 9)),
        ("p 500 at 2", _idempotent(500, 0, 2)),
        ("p 500 epoch 2 at 3", _idempotent(500, 2, 3)),
        ("p 500 epoch 2 at 0", _idempotent(500, 2, 0)),
        ("p 500 epoch 1 at 0", _idempotent(500, 1, 0)),
        ("p 500 epoch -1", _idempotent(500, -1, 1)),
        ("p 500 at -1", _idempotent(500, 2, -1)),
        ("p -5", _idempotent(-5, 0, 0)),
        ("two of an idempotent producer", _idempotent(501, 0, 0) + _idempotent(501, 0, 1)),
        ("sequences wrap", _idempotent(502, 0, (1 << 31) - 1)),
        ("sequences have wrapped", _idempotent(502, 0, 0)),
    ):
        one(told, data("t", batch, 1), version=9)
    one("transactional id of no transaction", data("t", fine), transactional_id="q")
    one("transactional, unknown", data("t", _idempotent(600, 0, 0, is_transactional=True)), transactional_id="q")
    one("transactional and not", data("t", fine), data("u", _idempotent(600, 0, 0, is_transactional=True)))


def _looking_up_what_headers_hide(script: Script) -> None:
    """Batches whose max timestamp is not the largest of their records, as some clients write them."""
    times = [TIMESTAMP_MS, TIMESTAMP_MS + 90_000, TIMESTAMP_MS + 60_000]
    for begin, max_timestamp_ms in enumerate((times[0], times[2], -1, TIMESTAMP_MS + 3 * YEAR_MS)):
        shifted = [time_ms + begin * 3_600_000 for time_ms in times]
        batch = encode_batch([Record(b"v", timestamp_ms=time_ms) for time_ms in shifted], codec=Codec(begin % 4))
        header = read_header(batch)._replace(max_timestamp_ms=max_timestamp_ms)
        HEADER.pack_into(batch, 0, *header)
        update_crc(batch, 0, len(batch))
        data = [{"name": "gone", "partition_data": [{"index": 1, "records": bytes(batch)}]}]
        script.quietly("produce", 9, acks=-1, timeout=30_000, topic_data=data)
    for minutes in (0, 1, 2, 59, 61, 62, 119, 121, 122, 179, 181, 182):
        where = {"partition_index": 1, "timestamp": TIMESTAMP_MS + minutes * 60_000, "current_leader_epoch": -1}
        told = f"{minutes} minutes after begin, by records"
        script.ask("list_offsets", 5, told, replica_id=-1, topics=[{"name": "gone", "partitions": [where]}])
    where = {"partition_index": 1, "timestamp": -3, "current_leader_epoch": -1}
    script.ask("list_offsets", 7, "at -3, by records", replica_id=-1, topics=[{"name": "gone", "partitions": [where]}])


def _idempotent(producer_id: int, epoch: int, sequence: int, *, is_transactional: bool = False) -> bytes:
    return one_batch(
        b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=is_transactional
    )


def fetching(script: Script) -> None:
    script.note("Fetch")
    batch = one_batch(*[b"v"] * 4)
    for _ in range(3):
        script.quietly(
            "produce",
            9,
            acks=-1,
            timeout=30_000,
            topic_data=[{"name": "u", "partition_data": [{"index": 0, "records": batch}]}],
        )

    def topic(name: str, *partitions: Fields) -> Fields:
        topic_id = NO_SUCH_ID if name == "nowhere" else id_of(script, name)
        return {"topic": name, "topic_id": topic_id, "partitions": partitions or [part()]}

    def part(offset: int = 0, index: int = 0, **fields: int) -> Fields:
        return {
            "partition": index,
            "fetch_offset": offset,
            "current_leader_epoch": -1,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        } | fields

    base: Fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_id": 0,
        "session_epoch": -1,
        "isolation_level": 0,
        "rack_id": "",
    }

    def one(told: str, *topics: Fields, version: int = 12, **fields: Any) -> Any:
        return script.ask("fetch", version, told, **(base | {"topics": topics} | fields))

    def every(told: str, *topics: Fields, **fields: Any) -> None:
        script.each("fetch", told, **(base | {"topics": topics} | fields))

    every("u", topic("u"))
    every("nowhere", topic("nowhere"))
    every("partition 9", topic("u", part(index=9)))
    every("u and nowhere", topic("u", part(12)), topic("nowhere"))
    every("offset 13", topic("u", part(13)))
    every("leader epoch 5", topic("u", part(current_leader_epoch=5)))
    every("last epoch 5", topic("u", part(last_fetched_epoch=5)))
    every("read committed", topic("u"), isolation_level=1)
    for told, partition in {
        "offset 5": part(5),
        "offset 12": part(12),
        "offset -1": part(-1),
        "offset -2": part(-2),
        "leader epoch 0": part(current_leader_epoch=0),
        "leader epoch -2": part(current_leader_epoch=-2),
        "last epoch 0": part(4, last_fetched_epoch=0),
        "last epoch -2": part(4, last_fetched_epoch=-2),
        "log start offset 99": part(log_start_offset=99),
        "one byte of the partition": part(partition_max_bytes=1),
        "no byte of the partition": part(partition_max_bytes=0),
        "negative bytes of the partition": part(partition_max_bytes=-1),
        "partition -1": part(index=-1),
    }.items():
        one(told, topic("u", partition))
    one("the same partition twice", topic("u", part(0), part(4)))
    one("the same topic twice", topic("u", part(0)), topic("u", part(4)))
    one("two partitions, one byte", topic("u", part(0)), topic("t", part(0)), max_bytes=1)
    one("no bytes", topic("u"), max_bytes=0)
    one("negative bytes", topic("u"), max_bytes=-1)
    one("more than there is", topic("u"), min_bytes=1 << 20, max_wait=10)
    one("min bytes 0", topic("u", part(12)), min_bytes=0, max_wait=5000)
    one("min bytes -1", topic("u", part(12)), min_bytes=-1, max_wait=5000)
    one("negative wait", topic("u", part(12)), max_wait=-1)
    one("nothing")
    one("isolation level 2", topic("u"), isolation_level=2)
    one("as replica -2", topic("u"), replica_id=-2, version=11)
    one("as replica 7", topic("u"), replica_id=7, version=11)
    for version in (7, 12, 13, 16):
        answer = one("a session begins", topic("u", part(0), part(0, 1)), session_epoch=0, version=version)
        session = answer.session_id
        one("nothing new", session_id=session, session_epoch=1, version=version)
        one("epoch again", session_id=session, session_epoch=1, version=version)
        one("another offset", topic("u", part(8)), session_id=session, session_epoch=2, version=version)
        one("all again", topic("u", part(12)), session_id=session, session_epoch=3, version=version)
        one("and no more", session_id=session, session_epoch=4, version=version)
        one("nowhere comes", topic("nowhere"), session_id=session, session_epoch=5, version=version)
        one("nowhere stays", session_id=session, session_epoch=6, version=version)
        one("out of range", topic("u", part(99)), session_id=session, session_epoch=7, version=version)
        one("still out of range", session_id=session, session_epoch=8, version=version)
        gone = [{"topic": "u", "topic_id": id_of(script, "u"), "partitions": [0]}]
        one("one is forgotten", session_id=session, session_epoch=9, forgotten_topics_data=gone, version=version)
        one("far epoch", session_id=session, session_epoch=20, version=version)
        one("ends", topic("u"), session_id=session, session_epoch=-1, version=version)
        one("has ended", session_id=session, session_epoch=10, version=version)
        one("no such session", session_id=5, session_epoch=1, version=version)
        one("an epoch and no session", session_id=0, session_epoch=5, version=version)
        one("epoch -2", session_id=0, session_epoch=-2, version=version)
        one("an empty session", session_epoch=0, version=version)


def looking_up(script: Script) -> None:
    script.note("ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers")
    for delta in (0, 500, 100):
        record = bytes(encode_batch([Record(b"v", timestamp_ms=TIMESTAMP_MS + delta)]))
        data = [{"name": "gone", "partition_data": [{"index": 0, "records": record}]}]
        script.quietly("produce", 9, acks=-1, timeout=30_000, topic_data=data)

    def where(timestamp: int, name: str = "gone", index: int = 0, **fields: int) -> Fields:
        default: Fields = {
            "partition_index": index,
            "timestamp": timestamp,
            "current_leader_epoch": -1,
            "max_num_offsets": 5,
        }
        return {"name": name, "partitions": [default | fields]}

    for timestamp in (-1, -2, -3, -4, -5, -6, TIMESTAMP_MS, TIMESTAMP_MS + 300, TIMESTAMP_MS + 501, 0):
        at = f"begin{timestamp - TIMESTAMP_MS:+d}" if timestamp > 0 else str(timestamp)
        script.each("list_offsets", f"at {at}", replica_id=-1, topics=[where(timestamp)])
    script.each("list_offsets", "of an empty log", replica_id=-1, topics=[where(0, index=1), where(-3, "u", 1)])
    script.each("list_offsets", "nowhere", replica_id=-1, topics=[where(-1, "nowhere")])
    script.each("list_offsets", "partition 9", replica_id=-1, topics=[where(-1, index=9)])
    script.each("list_offsets", "leader epoch 5", replica_id=-1, topics=[where(-1, current_leader_epoch=5)])
    script.each("list_offsets", "committed", replica_id=-1, isolation_level=1, topics=[where(-1)])
    script.ask("list_offsets", 5, "isolation level 2", replica_id=-1, isolation_level=2, topics=[where(-1)])
    script.ask("list_offsets", 5, "twice", replica_id=-1, topics=[where(-1), where(-2)])
    script.ask("list_offsets", 0, "twice", replica_id=-1, topics=[where(-1), where(-2)])
    script.ask("list_offsets", 0, "no offsets", replica_id=-1, topics=[where(-1, max_num_offsets=0)])
    script.ask("list_offsets", 5, "as replica -2", replica_id=-2, topics=[where(-1)])
    script.ask("list_offsets", 5, "as replica 7", replica_id=7, topics=[where(-1)])
    script.ask("list_offsets", 5, "nothing", replica_id=-1, topics=[])

    def epoch(leader_epoch: int, name: str = "gone", index: int = 0, current: int = -1) -> Fields:
        partition = {"partition": index, "leader_epoch": leader_epoch, "current_leader_epoch": current}
        return {"topic": name, "partitions": [partition]}

    for told, wanted in {
        "0": epoch(0),
        "5": epoch(5),
        "-1": epoch(-1),
        "-5": epoch(-5),
        "0 of an empty log": epoch(0, index=1),
        "0, current 0": epoch(0, current=0),
        "0, current 5": epoch(0, current=5),
        "0 of nowhere": epoch(0, "nowhere"),
        "0 of partition 9": epoch(0, index=9),
    }.items():
        script.each("offset_for_leader_epoch", told, replica_id=-1, topics=[wanted])
    script.ask("offset_for_leader_epoch", 4, "twice", replica_id=-1, topics=[epoch(0), epoch(5)])

    def delete(told: str, *offsets: int, name: str = "gone", index: int = 0, version: int = 2) -> None:
        partitions = [{"partition_index": index, "offset": offset} for offset in offsets]
        fields: Fields = {"topics": [{"name": name, "partitions": partitions}], "timeout": 30_000}
        script.ask("delete_records", version, f"before {told}", **fields)

    for version in versions("delete_records"):
        delete("2", 2, version=version)
    delete("1, which is gone", 1)
    delete("99", 99)
    delete("-5", -5)
    delete("1 of nowhere", 1, name="nowhere")
    delete("1 of partition 9", 1, index=9)
    delete("0 of a compacted topic", 0, name="compacted")
    delete("0 of an internal topic", 0, name="__consumer_offsets")
    delete("1 and 3", 1, 3)
    delete("the end", -1)
    script.each("list_offsets", "at -2, after", replica_id=-1, topics=[where(-2)])
    # Not at -3: Kafka tells the largest timestamp of deleted records until its cleaner has removed their segment.
    script.ask("offset_for_leader_epoch", 4, "0, after", replica_id=-1, topics=[epoch(0)])
    _looking_up_what_headers_hide(script)
    for name, index in (("t", 1), ("t", 9), ("nowhere", 0), ("a b", 0)):
        script.ask("describe_producers", 0, f"{name}-{index}", topics=[{"name": name, "partition_indexes": [index]}])
    script.ask("describe_producers", 0, "nothing", topics=[])
