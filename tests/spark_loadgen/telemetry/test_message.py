from __future__ import annotations

import json
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.results.histogram import HIGHEST_VALUE_NS, Histogram
from highwater.spark_loadgen.telemetry.message import MalformedMessageError, TaskMessage

histograms = st.lists(st.integers(0, HIGHEST_VALUE_NS), min_size=1).map(Histogram.of_values)
messages = st.builds(
    TaskMessage,
    trial=st.text(max_size=40),
    task=st.integers(0, 1 << 20),
    number=st.integers(0, 1 << 40),
    second=st.integers(-1, 1 << 20),
    first=st.integers(0, 1 << 20),
    skipped=st.integers(0, 1 << 20),
    last=st.booleans(),
    counts=st.dictionaries(st.sampled_from(["sent", "acked", "acked_bytes"]), st.lists(st.integers(-5, 1 << 50))),
    cpu_ratio=st.lists(st.floats(0, 2)),
    histograms=st.dictionaries(
        st.tuples(st.sampled_from(["e2e_response", "send_delay"]), st.integers(0, 90)), histograms
    ),
)


def plain(message: TaskMessage) -> tuple[object, ...]:
    series = {key: (item.indices.tolist(), item.counts.tolist()) for key, item in message.histograms.items()}
    fields = ("trial", "task", "number", "second", "first", "skipped", "last", "counts", "cpu_ratio")
    return (*(getattr(message, name) for name in fields), series)


@given(messages)
def test_a_message_that_is_decoded_is_the_one_that_was_encoded(message: TaskMessage) -> None:
    encoded = message.encode()
    decoded = TaskMessage.decode(encoded)
    assert plain(decoded) == plain(message)
    assert decoded.encode() == encoded


def test_the_layout_of_version_1_to_the_byte() -> None:
    """A job that knows version 1 must be able to read what every later Highwater calls version 1."""
    histogram = Histogram(np.array([3, 2048]), np.array([7, 1]))
    encoded = TaskMessage("r/t", 2, 5, 9, 9, 1, True, {"acked": [8]}, [0.5], {("send_delay", 9): histogram}).encode()
    head = (
        b'{"counts":{"acked":[8]},"cpu_ratio":[0.5],"first":9,"last":true,"number":5,"second":9,'
        b'"series":[["send_delay",9,2]],"skipped":1,"task":2,"trial":"r/t"}'
    )
    assert encoded[: 8 + len(head)] == b"HWT\x01" + len(head).to_bytes(4, "little") + head
    body = b"\x03\0\0\0" + (2045).to_bytes(4, "little") + (7).to_bytes(8, "little") + (1).to_bytes(8, "little")
    assert zlib.decompress(encoded[8 + len(head) :]) == body


SOUND = TaskMessage("r/t", 0, 0, 1, histograms={("send_delay", 0): Histogram.of_values([1, 5, 5])}).encode()


def with_series(series: object, body: bytes) -> bytes:
    head = json.loads(SOUND[8 : 8 + int.from_bytes(SOUND[4:8], "little")]) | {"series": series}
    text = json.dumps(head).encode()
    return b"HWT\x01" + len(text).to_bytes(4, "little") + text + zlib.compress(body)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"", "0 bytes are too few"),
        (b'{"kind":"trial"}', "not a message of a load task"),
        (SOUND[:3] + b"\x02" + SOUND[4:], "version 2; this Highwater knows version 1"),
        (SOUND[:-3], "does not have the 2 buckets"),
        (SOUND[:20], "damaged"),
        (SOUND.replace(b'"task":0', b'"tusk":0'), "damaged: 'task'"),
        (with_series([["x", 0, -1]], b""), "names -1 buckets"),
        (with_series([["x", 0, 1 << 40]], b""), "names 1099511627776 buckets"),
        (with_series([["x", 0, 1]], bytes(1 << 20)), "does not have the 1 buckets"),
        (with_series([["x", 0, 1]], b"\xff\xff\xff\xff" + bytes(8)), "do not rise"),
        (with_series([["x", 0, 1]], bytes(12)), "not positive"),
    ],
)
def test_bytes_that_are_no_message_are_refused_in_one_line(message: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessageError, match=complaint):
        TaskMessage.decode(message)


@given(st.binary(max_size=60), st.integers(0, len(SOUND)))
def test_any_damage_is_refused_or_harmless(noise: bytes, position: int) -> None:
    with suppress(MalformedMessageError):
        TaskMessage.decode(SOUND[:position] + noise + SOUND[position + len(noise) :])
