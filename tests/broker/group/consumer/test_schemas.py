"""The records of consumer groups: as Kafka 4.4 writes them, ours read back, and bytes that are none."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.group.consumer.schemas import (
    ClassicMember,
    ClassicProtocol,
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    Key,
    MemberState,
    MemberTarget,
    PartitionMetadata,
    RecordKind,
    ResolvedRegex,
    TargetEpoch,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from highwater.kafka.records.batch import CorruptBatch
from tests.broker.group.consumer.partitions import held, partitions

MEMBER: Final = ConsumerMember("i", "r", "c", "/h", frozenset(("a", "b")), "a.*", 300_000, "range")
CLASSIC: Final = ClassicMember(45_000, (ClassicProtocol("range", b"\x01\x02"),))
UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS
RECORDS: Final[dict[str, tuple[Key, Value | None]]] = {
    "group": (Key(RecordKind.GROUP, "g"), GroupEpoch(7, -5)),
    "group without a hash": (Key(RecordKind.GROUP, "g"), GroupEpoch(7)),
    "group gone": (Key(RecordKind.GROUP, "g"), None),
    "partitions gone": (Key(RecordKind.PARTITIONS, "g"), None),
    "member": (Key(RecordKind.MEMBER, "g", "m"), MEMBER),
    "plain member": (Key(RecordKind.MEMBER, "g", "m"), ConsumerMember(client_id="c", client_host="/h")),
    "classic member": (Key(RecordKind.MEMBER, "g", "m"), MEMBER._replace(classic=CLASSIC)),
    "member gone": (Key(RecordKind.MEMBER, "g", "m"), None),
    "target": (Key(RecordKind.TARGET, "g"), TargetEpoch(7, 1000)),
    "early target": (Key(RecordKind.TARGET, "g"), TargetEpoch(7)),
    "target gone": (Key(RecordKind.TARGET, "g"), None),
    "member's target": (Key(RecordKind.MEMBER_TARGET, "g", "m"), MemberTarget(partitions("a:5"))),
    "member's empty target": (Key(RecordKind.MEMBER_TARGET, "g", "m"), MemberTarget({})),
    "member's target gone": (Key(RecordKind.MEMBER_TARGET, "g", "m"), None),
    "current": (Key(RecordKind.CURRENT, "g", "m"), CurrentAssignment(7, 6, UNREVOKED, held("a:5@6"), held("b:0@3"))),
    "current of nothing": (Key(RecordKind.CURRENT, "g", "m"), CurrentAssignment(-2, 6)),
    "current gone": (Key(RecordKind.CURRENT, "g", "m"), None),
    "regex": (Key(RecordKind.REGEX, "g", "a.*"), ResolvedRegex(frozenset(("ab",)), 3, 1000)),
    "regex gone": (Key(RecordKind.REGEX, "g", "a.*"), None),
}

TEXT = st.text(max_size=10)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
INDEXES = st.integers(0, 2**31 - 1)
HELD = st.dictionaries(st.uuids(), st.dictionaries(INDEXES, INT32, min_size=1, max_size=3), max_size=3)
TARGETS = st.dictionaries(st.uuids(), st.frozensets(INDEXES, min_size=1, max_size=3), max_size=3)
CLASSICS = st.builds(
    ClassicMember, INT32, st.lists(st.builds(ClassicProtocol, TEXT, st.binary(max_size=9)), max_size=3).map(tuple)
)
VALUES = st.one_of(
    st.builds(GroupEpoch, INT32, INT64),
    st.builds(
        ConsumerMember, st.none() | TEXT, st.none() | TEXT, TEXT, TEXT, st.frozensets(TEXT, max_size=3), TEXT,
        INT32, st.none() | TEXT, st.none() | CLASSICS,
    ),
    st.builds(TargetEpoch, INT32, INT64),
    st.builds(MemberTarget, TARGETS),
    st.builds(CurrentAssignment, INT32, INT32, st.sampled_from(MemberState), HELD, HELD),
    st.builds(ResolvedRegex, st.frozensets(TEXT, max_size=3), INT64, INT64),
)  # fmt: skip
KINDS: Final = {
    GroupEpoch: RecordKind.GROUP,
    ConsumerMember: RecordKind.MEMBER,
    TargetEpoch: RecordKind.TARGET,
    MemberTarget: RecordKind.MEMBER_TARGET,
    CurrentAssignment: RecordKind.CURRENT,
    ResolvedRegex: RecordKind.REGEX,
}


def _of_kafka() -> dict[str, str]:
    """What Kafka 4.4 writes of `RECORDS`: see tests/compat/apache_kafka/ConsumerGroupRecords.java."""
    lines = (Path(__file__).parent / "records_4.4.txt").read_text().splitlines()
    return dict(line.split(" = ") for line in lines)


def test_all_are_compared_with_kafka() -> None:
    assert list(_of_kafka()) == list(RECORDS)


@pytest.mark.parametrize(("name", "data"), _of_kafka().items())
def test_the_records_are_those_of_kafka(name: str, data: str) -> None:
    key, value = RECORDS[name]
    raw_key, raw_value = data.split()
    assert encode_key(key).hex() == raw_key
    assert decode_key(bytes.fromhex(raw_key)) == key
    if value is None:
        assert raw_value == "-"
    else:
        assert encode_value(value).hex() == raw_value
        assert decode_value(key.kind, bytes.fromhex(raw_value)) == value


@given(VALUES)
def test_values_come_back(value: Value) -> None:
    assert decode_value(KINDS[type(value)], encode_value(value)) == value


def test_epochs_that_are_not_stored_are_older_than_each_commit() -> None:
    """Kafka before 4.3 does not store at which epochs partitions were assigned (KIP-1251)."""
    raw = "000000000007000000060002" + partition_of_a(5, 6) + "01" + "00"  # fmt: skip
    assert decode_value(RecordKind.CURRENT, bytes.fromhex(raw)) == CurrentAssignment(7, 6, assigned=held("a:5@0,6@0"))


def partition_of_a(*indexes: int) -> str:
    return f"{97:032x}{len(indexes) + 1:02x}" + "".join(f"{index:08x}" for index in indexes) + "00"


def test_a_state_of_a_newer_kafka_is_unknown() -> None:
    raw = bytes.fromhex("0000000000070000000605010100")  # fmt: skip
    assert decode_value(RecordKind.CURRENT, raw) == CurrentAssignment(7, 6, MemberState.UNKNOWN)


def test_what_kafka_4_0_kept_of_topics_is_not_looked_at() -> None:
    assert decode_value(RecordKind.PARTITIONS, b"\x00\x00\x02whatever") == PartitionMetadata()


def test_a_tag_of_a_newer_kafka_is_passed_over() -> None:
    written = encode_value(GroupEpoch(7))
    assert written.endswith(b"\0")
    assert decode_value(RecordKind.GROUP, written[:-1] + b"\1\11\2ok") == GroupEpoch(7)


@pytest.mark.parametrize("raw", ["0000000167", "0001", "000200", "000a000167", "0011000167", "7fff"])
def test_keys_of_other_kinds_are_none_of_ours(raw: str) -> None:
    assert decode_key(bytes.fromhex(raw)) is None


@pytest.mark.parametrize("raw", ["", "00", "0003", "0003ffff", "000500016700", "00050001670001ff"])
def test_a_key_that_is_none(raw: str) -> None:
    with pytest.raises(CorruptBatch):
        decode_key(bytes.fromhex(raw))


@pytest.mark.parametrize("kind", RecordKind)
@pytest.mark.parametrize("raw", ["", "00", "0001", "ffff"])
def test_a_value_that_is_none(kind: RecordKind, raw: str) -> None:
    with pytest.raises(CorruptBatch):
        decode_value(kind, bytes.fromhex(raw))


@given(st.sampled_from(sorted(KINDS.values())), st.binary(max_size=60))
def test_any_bytes_are_a_value_or_told(kind: RecordKind, raw: bytes) -> None:
    with suppress(CorruptBatch):
        decode_value(kind, b"\0\0" + raw)
