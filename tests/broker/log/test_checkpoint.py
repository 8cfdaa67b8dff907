"""Kafka's text files: what is written, to the byte, and what is refused."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.log.checkpoint import (
    MalformedFile,
    NewerVersion,
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    decode_properties,
    decode_topic_id,
    encode_clean_shutdown,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
    encode_properties,
    encode_topic_id,
)

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=20)
TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@given(st.dictionaries(st.tuples(TOPICS, st.integers(0, 1000)), st.integers(0, 2**62)))
def test_offsets_round_trip(offsets: dict[tuple[str, int], int]) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


def test_the_formats_to_the_byte() -> None:
    assert encode_offsets({("b", 0): 7, ("a", 10): 12}) == b"0\n2\na 10 12\nb 0 7\n"
    assert encode_epochs([(0, 0), (3, 120)]) == b"0\n2\n0 0\n3 120\n"
    assert encode_partition_metadata(TOPIC_ID) == b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    assert encode_clean_shutdown(-1) == b'{"version":0,"brokerEpoch":-1}'
    assert encode_properties({"version": "0", "broker.id": "1"}) == b"#\nbroker.id=1\nversion=0\n"


def test_reading_back() -> None:
    assert decode_epochs(b"0\n2\n0 0\n3 120\n") == [(0, 0), (3, 120)]
    assert decode_offsets(b"") == {}
    assert decode_partition_metadata(encode_partition_metadata(TOPIC_ID)) == TOPIC_ID
    assert decode_topic_id(encode_topic_id(TOPIC_ID)) == TOPIC_ID


def test_properties_as_java_writes_them() -> None:
    text = b"#\n#Fri Nov 21 05:15:00 UTC 2025\ncluster.id=a\\=b\\:c\n\n  broker.id = 1\n! other comment\n"
    assert decode_properties(text) == {"cluster.id": "a=b:c", "broker.id": "1"}
    with pytest.raises(MalformedFile, match="nonsense"):
        decode_properties(b"nonsense\n")


@pytest.mark.parametrize(
    "text",
    [
        b"x\n0\n",
        b"0\n",
        b"0\n2\na 0 1\n",
        b"0\n0\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na b c\n",
        b"0\n1\n 0 1\n",
        b"0\n1\na 0 1 2\n",
        b"\x00" * 40,
        b"0\n1\na 0 \xff\n",
        b"0\n" + b"9" * 5_000 + b"\n",
        b"0\n1\na 0 " + b"9" * 5_000 + b"\n",
    ],
)
def test_malformed_offsets_are_refused(text: bytes) -> None:
    with pytest.raises(MalformedFile):
        decode_offsets(text)


def test_a_newer_version_is_told_from_damage() -> None:
    for decode, text in ((decode_offsets, b"1\n0\n"), (decode_partition_metadata, b"version: 1\ntopic_id: x")):
        with pytest.raises(NewerVersion, match="version is 1"):
            decode(text)


@pytest.mark.parametrize("text", [b"", b"version: 0\n", b"version: 0\ntopic_id: short", b"\x00\x00"])
def test_malformed_partition_metadata_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedFile):
        decode_partition_metadata(text)
