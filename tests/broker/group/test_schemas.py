"""The records of `__consumer_offsets`: ours read back, those of other versions, and bytes that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.group.events import StoredGroup, StoredMember
from highwater.broker.group.offsets import CommittedOffset
from highwater.broker.group.schemas import (
    GroupKey,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from highwater.broker.topics.internal_topic import partition_of
from highwater.kafka.records.batch import CorruptBatch

TEXT = st.text(max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TOPIC_IDS = st.none() | st.uuids().filter(lambda topic_id: topic_id.int != 0)
OFFSETS = st.builds(CommittedOffset, INT64, INT32, TEXT, INT64, st.none(), TOPIC_IDS)
MEMBERS = st.builds(
    StoredMember, TEXT, st.none() | TEXT, TEXT, TEXT, INT32, INT32, st.binary(max_size=20), st.binary(max_size=20)
)
GROUPS = st.builds(
    StoredGroup, TEXT, INT32, st.none() | TEXT, st.none() | TEXT, INT64, st.lists(MEMBERS, max_size=3).map(tuple)
)


@given(OFFSETS, st.booleans())
def test_offsets_come_back(offset: CommittedOffset, with_topic_id: bool) -> None:
    expected = offset if with_topic_id else offset._replace(topic_id=None)
    assert decode_offset(encode_offset(offset, with_topic_id=with_topic_id)) == expected


@given(OFFSETS, st.integers(0, 2**63 - 1), st.booleans())
def test_an_expiry_of_its_own_comes_back_and_costs_what_is_newer(
    offset: CommittedOffset, expires_ms: int, with_topic_id: bool
) -> None:
    offset = offset._replace(expire_timestamp_ms=expires_ms)
    expected = offset._replace(leader_epoch=-1, topic_id=None)
    assert decode_offset(encode_offset(offset, with_topic_id=with_topic_id)) == expected


@given(GROUPS)
def test_groups_come_back(group: StoredGroup) -> None:
    if group.members and group.protocol_name is None:
        with pytest.raises(CorruptBatch, match="no assignor"):
            decode_group(encode_group(group))
    else:
        assert decode_group(encode_group(group)) == group


@given(TEXT, TEXT, INT32)
def test_keys_come_back(group_id: str, topic: str, partition: int) -> None:
    for key in (OffsetKey(group_id, topic, partition), GroupKey(group_id)):
        raw = encode_offset_key(key) if isinstance(key, OffsetKey) else encode_group_key(key)
        assert decode_key(raw) == key


def test_bytes_as_kafka_writes_them() -> None:
    """By the schemas OffsetCommitKey v1, OffsetCommitValue v3, GroupMetadataKey v2, GroupMetadataValue v3."""
    assert encode_offset_key(OffsetKey("g", "t", 7)).hex() == "000100016700017400000007"
    offset = encode_offset(CommittedOffset(42, 5, "m", 1000), with_topic_id=False)
    assert offset.hex() == "0003000000000000002a0000000500016d00000000000003e8"
    assert encode_group_key(GroupKey("g")).hex() == "0002000167"
    member = StoredMember("a", None, "c", "/h", 60000, 10000, b"\x01", b"\x02\x03")
    assert encode_group(StoredGroup("consumer", 3, "range", "a", 1000, (member,))).hex() == (
        "0003" + "0008" + b"consumer".hex() + "00000003" + "0005" + b"range".hex() + "000161" + "00000000000003e8"
        "00000001" + "000161" + "ffff" + "000163" + "00022f68" + "0000ea60" + "00002710" + "0000000101" + "000000020203"
    )  # fmt: skip


WRITTEN: Final = {
    "offset": CommittedOffset(42, 5, "m", 1000, topic_id=UUID(int=97)),
    "offset of nobody": CommittedOffset(42, -1, "", 1000),
    "offset with an expiry": CommittedOffset(42, 5, "m", 1000, 2000, UUID(int=97)),
}


@pytest.mark.parametrize(
    "line", (Path(__file__).parent / "offsets_4.4.txt").read_text().splitlines(), ids=lambda line: line.split(" =")[0]
)
def test_bytes_as_kafka_4_4_writes_them(line: str) -> None:
    """See tests/compat/apache_kafka/ConsumerGroupRecords.java."""
    name, raw = line.split(" = ")
    key, value = raw.split()
    assert encode_offset_key(OffsetKey("g", "t", 7)).hex() == key
    assert value == (encode_offset(WRITTEN[name], with_topic_id=True).hex() if name in WRITTEN else "-")


def test_values_of_other_versions() -> None:
    oldest = bytes.fromhex("0000000000000000002a00016d00000000000003e8")
    assert decode_offset(oldest) == CommittedOffset(42, -1, "m", 1000)
    flexible = bytes.fromhex("0004000000000000002a00000005026d00000000000003e800")
    assert decode_offset(flexible) == CommittedOffset(42, 5, "m", 1000)
    zeros = bytes.fromhex("0004000000000000002a00000005026d00000000000003e8" + "010010" + 16 * "00")
    assert decode_offset(zeros) == CommittedOffset(42, 5, "m", 1000)
    with_another_tag = bytes.fromhex(
        "0004000000000000002a00000005026d00000000000003e8" + "02" + "0010" + 15 * "00" + "61" + "090101"
    )
    assert decode_offset(with_another_tag) == CommittedOffset(42, 5, "m", 1000, topic_id=UUID(int=97))
    oldest = bytes.fromhex("00000001630000000300017200016100000001000161000163000168")
    group = decode_group(oldest + bytes.fromhex("0000271000000001010000000102"))
    assert group == StoredGroup("c", 3, "r", "a", -1, (StoredMember("a", None, "c", "h", 10000, 10000, b"\1", b"\2"),))
    flexible = bytes.fromhex("00040263000000030272026100000000000003e80202610002630268")
    group = decode_group(flexible + bytes.fromhex("0000ea6000002710020102020000"))
    assert group == StoredGroup(
        "c", 3, "r", "a", 1000, (StoredMember("a", None, "c", "h", 60000, 10000, b"\1", b"\2"),)
    )


def test_keys_of_newer_kinds_of_groups_are_none_of_ours() -> None:
    assert decode_key(bytes.fromhex("0003000167")) is None


@pytest.mark.parametrize("decode", [decode_key, decode_offset, decode_group])
@pytest.mark.parametrize(
    "raw", [b"", b"\x00", b"\x00\x01\x7f\xff", b"\x7f\xff" + bytes(60), b"\x00\x02\x00\x02\xff\xfe"]
)
def test_what_is_none_is_told(decode: object, raw: bytes) -> None:
    assert callable(decode)
    if decode is decode_key and raw.startswith(b"\x7f"):
        assert decode(raw) is None
    else:
        with pytest.raises(CorruptBatch):
            decode(raw)


@pytest.mark.parametrize(
    ("group_id", "partition"),
    # "polygenelubricants" has Java's least hash, of which there is no absolute value.
    [("", 0), ("g", 3), ("test-group", 12), ("polygenelubricants", 0), ("grüße-\U0001f600", 27)],
)
def test_the_partition_of_a_group_is_by_javas_hash(group_id: str, partition: int) -> None:
    assert partition_of(group_id, 50) == partition
