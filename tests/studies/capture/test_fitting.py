"""The workload of a trace: settings of the load generator that fit what the log says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from highwater.bench.workload.trace_directory import Trace
from highwater.kafka.records.batch import Codec
from highwater.spark_loadgen.payload import body_pool
from highwater.spark_loadgen.records import GeneratedPayload
from highwater.spark_loadgen.traces import TracedSizes
from highwater.studies.capture.fitting import compress_ratio, linger_ms, producers, workload_text
from tests.studies.capture.logs import batch, observed, record, trace_of


def generated(directory: Path, share: float, codec: Codec, count: int = 40, producer_ids: int = 3) -> Trace:
    """Batches over 7 to 12 ms, with values as the load generator makes them."""
    chosen = random.Random(5)
    values = body_pool(GeneratedPayload(share), TracedSizes(((300, 5), (1000, 5))), 9)
    batches, offset = [], 0
    for number in range(400):
        spread = [chosen.randrange(12) for _ in range(chosen.randrange(1, count))]
        records = [
            record(
                number * 20 + at,
                b"%020d" % chosen.randrange(10**20),
                b"\0" * 24 + values[chosen.randrange(len(values))],
            )
            for at in sorted(spread)
        ]
        batches.append(batch(offset, records, codec=codec, producer_id=number % producer_ids))
        offset += len(records)
    return trace_of(directory, observed(*batches))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_values_compress_as_the_captured_ones_did(tmp_path: Path, share: float, codec: Codec) -> None:
    assert compress_ratio(generated(tmp_path / "t", share, codec)) == pytest.approx(share, abs=0.06)


def test_producers_and_their_linger(tmp_path: Path) -> None:
    trace = generated(tmp_path / "t", 0.5, Codec.NONE)
    assert producers(trace) == 3
    assert 10 <= linger_ms(trace) <= 12
    text = workload_text(trace, "orders")
    assert "name: orders" in text
    assert "# - acks is not in a log: all is assumed" in text


def test_what_compresses_worse_than_random_text_gets_as_near_as_it_can(tmp_path: Path) -> None:
    chosen = random.Random(1)
    records = [[record(at, b"k", chosen.randbytes(2000)) for at in range(20)] for _ in range(20)]
    data = [batch(number * 20, each, codec=Codec.ZSTD) for number, each in enumerate(records)]
    assert compress_ratio(trace_of(tmp_path / "t", observed(*data))) == 1.0
