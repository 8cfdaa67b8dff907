"""The workload that replays a trace, with settings of its producers that fit the batches. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import yaml

from highwater.bench.workload.replay import records_of, sizes_of
from highwater.bench.workload.trace_directory import Trace
from highwater.common.quantities import format_duration_s, format_size
from highwater.spark_loadgen.compression import CODECS, Codec, compression_of
from highwater.spark_loadgen.keys import traced_keys
from highwater.spark_loadgen.payload import body_pool
from highwater.spark_loadgen.records import GeneratedPayload
from highwater.spark_loadgen.stamp import STAMP_BYTES, encode_stamps
from highwater.studies.capture.counts import quantile

_PRODUCERS_MAX: Final = 64
_LINGER_MS_MAX: Final = 10_000
_BATCH_BYTES_MAX: Final = 16 << 20
_FIT_STEPS: Final = 3
_FIT_BYTES: Final = 1 << 20
_FIT_SEED: Final = 1
_FIT_MAGIC: Final = 0x5AD1C7E3
_FIT_GAP_NS: Final = 1_234_567
_FIT_BATCHES_MIN: Final = 8
_FIT_BATCHES_MAX: Final = 1000
_NOT_MEASURED: Final = 0.5
_BATCH_HEADER_BYTES: Final = 61
_LARGEST_BATCH_BYTES_MIN: Final = 16 << 10
_OVERHEAD_BYTES: Final = 20
"""About what a record takes in a batch without its key and value."""


def workload_text(trace: Trace, name: str) -> str:
    """The workload as YAML, with notes as comments; the trace is the folder of the file."""
    manifest, batches = trace.manifest, trace.distributions.batches
    codec = _codec(trace)
    client: dict[str, Any] = {"acks": "all", "linger.ms": linger_ms(trace)}
    records_max = max(value for value, _ in batches.records)
    if (full := _records_of_full_batches(trace)) is not None:
        client["batch.num.messages"] = full
    client["batch.size"] = format_size(_batch_bytes(trace, records_max))
    if codec != "none":
        client["compression.type"] = codec
    document: dict[str, Any] = {
        "schema": "bench.workload/1",
        "name": name,
        "purpose": "Replay of a captured load.",
        "topics": {"partitions": manifest.partitions},
        "producers": {"count": producers(trace), "client": client},
        "records": _records(trace),
        "load": {"trace": {"path": ".", "speed": 1.0, "share": "100%"}},
        "phases": {"warmup": "5s", "measure": format_duration_s(math.ceil(manifest.lasts_ms / 1000))},
        "trials": {"n": 3},
    }
    comments = "".join(f"# - {note}\n" for note in (*manifest.notes, *_assumptions(trace)))
    return f"# Replays the trace in this folder.\n{comments}" + yaml.safe_dump(
        document, sort_keys=False, allow_unicode=True, width=120
    )


def producers(trace: Trace) -> int:
    """The number of producers: those with an id, one more for all without; at most what one host can run."""
    found = trace.distributions.producers
    return min(_PRODUCERS_MAX, max(1, found.with_id + bool(found.records_without_id)))


def linger_ms(trace: Trace) -> int:
    """How long a producer held a batch open: the time from the first to the last record of nearly the longest batches.

    The longest ones are those that a busy producer or a slow broker held up.
    """
    spans = Counter(dict(trace.distributions.batches.span_ms))
    return min(_LINGER_MS_MAX, quantile(spans, 0.9))


def _records_of_full_batches(trace: Trace) -> int | None:
    """The limit of records in a batch, where one number of records stands out at the upper end."""
    counts = trace.distributions.batches.records
    value, most = counts[-1]
    total = sum(count for _, count in counts)
    return value if value > 1 and most > total / 2 and len(counts) > 1 else None


def _batch_bytes(trace: Trace, records_max: int) -> int:
    """A limit that no captured batch reached: the next power of two above its largest one, uncompressed."""
    found = trace.distributions
    stored_max = found.batches.size_bytes[-1][0]
    stored, unpacked = (
        sum(getattr(codec, name) for codec in found.codecs.values()) for name in ("stored_bytes", "unpacked_bytes")
    )
    largest = max(stored_max * max(1.0, unpacked / stored if stored else 1.0), _LARGEST_BATCH_BYTES_MIN)
    return min(_BATCH_BYTES_MAX, 1 << int(largest - 1).bit_length())


def _codec(trace: Trace) -> str:
    """The codec of most records."""
    return max(trace.distributions.codecs.items(), key=lambda item: item[1].records)[0]


def judged_codec(trace: Trace) -> Codec:
    """The codec that the compressibility of a replay is fitted by: the topic's own, or lz4."""
    codec = _codec(trace)
    return next((each for each in CODECS if each == codec and each != "none"), "lz4")


def _records(trace: Trace) -> dict[str, Any]:
    if trace.distributions.records is None:
        batches = trace.distributions.batches
        mean = batches.stored_bytes / max(1, sum(each.records for each in trace.distributions.codecs.values()))
        return {"size": format_size(max(STAMP_BYTES, round(mean - _OVERHEAD_BYTES)))}
    return {"trace": ".", "compress_ratio": round(compress_ratio(trace), 3)}


def compress_ratio(trace: Trace) -> float:
    """The share of random text with which replayed batches compress as the captured ones did, by this codec.

    Without compression in the topic, by lz4. It is 1 where the captured records compress less than random text does.
    """
    measured = judged_codec(trace)
    target, compression = _captured_ratio(trace, measured), compression_of(measured)
    if target is None or compression is None:
        return _NOT_MEASURED
    batches = _GeneratedBatches(trace)

    def too_large(share: float) -> float:
        before = after = 0
        for batch in batches.with_random_share(share):
            before += len(batch)
            after += len(compression.compress(memoryview(batch)))
        return after / before - target

    low, high = 0.0, 1.0
    at_low, at_high = too_large(low), too_large(high)
    if at_low >= 0 or at_high <= 0:
        return low if at_low >= 0 else high
    # The ratio is nearly a straight line over the share.
    for _ in range(_FIT_STEPS):
        middle = low + (high - low) * -at_low / (at_high - at_low)
        at_middle = too_large(middle)
        if at_middle < 0:
            low, at_low = middle, at_middle
        else:
            high, at_high = middle, at_middle
    return low + (high - low) * -at_low / (at_high - at_low)


def _captured_ratio(trace: Trace, codec: str) -> float | None:
    """The ratio of the batches as produced; of samples, where the topic has no compression."""
    produced = trace.distributions.codecs.get(codec)
    if produced is not None and produced.unpacked_bytes:
        return (produced.stored_bytes - _BATCH_HEADER_BYTES * produced.batches) / produced.unpacked_bytes
    records = trace.distributions.records
    found = records.compressibility.get(codec) if records is not None else None
    return found.ratio if found is not None else None


class _GeneratedBatches:
    """Batches as a replay would make them, with as many records as the captured ones had."""

    def __init__(self, trace: Trace) -> None:
        self._counts = _records_of_batches(trace)
        self._total = sum(self._counts)
        replayed = records_of(trace, trace.manifest.partitions)
        sequences = np.arange(self._total, dtype=np.int64)
        keys: list[bytes | None] = [None] * self._total
        if replayed.keys is not None:
            keys, _ = traced_keys(replayed.keys, _FIT_SEED, 0, sequences)
        shapes = replayed.headers.drawn(_FIT_SEED, 0, sequences)
        headers = [b"".join(name.encode() + value for name, value in replayed.headers.made[shape]) for shape in shapes]
        self._sizes = replayed.sizes
        self._keys = keys
        self._headers = headers
        self._stamps = encode_stamps(1, _FIT_MAGIC, 0, sequences * _FIT_GAP_NS)

    def with_random_share(self, ratio: float) -> Iterator[bytes]:
        pool = body_pool(GeneratedPayload(ratio), self._sizes, _FIT_SEED)
        at = 0
        for count in self._counts:
            batch = bytearray()
            for number in range(at, at + count):
                # Length, attributes, deltas, and the lengths of key and value.
                batch += bytes((0x80 | number & 0x7F, 5, 0, number - at & 0x7F, number - at & 0x7F, 7, 0x80, 4))
                batch += (self._keys[number] or b"") + self._stamps[number] + pool[number % len(pool)]
                batch += self._headers[number]
            at += count
            yield bytes(batch)


def _records_of_batches(trace: Trace) -> list[int]:
    """Numbers of records of batches, distributed as the captured ones, for about _FIT_BYTES of values."""
    records = trace.distributions.records
    assert records is not None
    counts, times = np.array(trace.distributions.batches.records, np.int64).T
    mean_bytes = sizes_of(records).mean_bytes * float((counts * times).sum()) / float(times.sum())
    batches = int(min(_FIT_BATCHES_MAX, max(_FIT_BATCHES_MIN, _FIT_BYTES / mean_bytes)))
    places = (np.arange(batches) + 0.5) / batches * times.sum()
    found: list[int] = counts[np.searchsorted(np.cumsum(times), places, side="right")].tolist()
    return found


def _assumptions(trace: Trace) -> Iterator[str]:
    yield "acks is not in a log: all is assumed"
    yield "linger.ms and batch.size are estimates from the batches; highwater capture compare says how near they come"
    found = trace.distributions.producers
    if found.records_without_id:
        yield "producers.count is a guess, as producers without idempotence leave no id: correct it"
    elif found.with_id > _PRODUCERS_MAX:
        yield f"there were {found.with_id} producers; {_PRODUCERS_MAX} of them replay the load"
    if trace.distributions.records is None:
        yield "a capture of level 0 does not look into batches: records have one size, the mean, and no keys"
