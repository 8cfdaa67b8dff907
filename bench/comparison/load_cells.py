"""The table of the cells that load warm systems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from highwater.bench.comparison.cells import (
    BROKERS,
    CPU_S_PER_GIB,
    KIB,
    MB_PER_S,
    MIB,
    P50_MS,
    P99_MS,
    PARTITIONS,
    RECORDS_PER_S,
    ColdReadCell,
    ConsumeCell,
    LatencyCell,
    ProduceCell,
    WarmCell,
    at_least,
    at_most,
    librdkafka,
    prepared,
)
from highwater.bench.comparison.contenders import BARE_LOOP
from highwater.bench.native.clients import batches_of, one_record_per_request

_ONE_PRODUCER: Final = "rdkafka_performance as the one producer, acks=1"


def _produce_cells() -> Iterator[ProduceCell]:
    for batch_name, batch_bytes in (("16k", 16 * KIB), ("1m", MIB)):
        for partitions in (1, PARTITIONS):
            yield ProduceCell(
                name=f"produce-{batch_name}-{partitions}p",
                title=f"Produce 1 KiB records, {batch_name.upper()}iB batches, partitions: {partitions}",
                how=f"{_ONE_PRODUCER}, batch.size={batch_bytes}, linger.ms=5.",
                new_producer=librdkafka(batches_of(batch_bytes, KIB)),
                partitions=partitions,
                measures=(MB_PER_S, CPU_S_PER_GIB),
                aims=(at_least(MB_PER_S, 1.5), at_least(MB_PER_S, 0.8, BARE_LOOP), at_most(CPU_S_PER_GIB, 0.7)),
            )
    yield ProduceCell(
        name="produce-100b",
        title="Produce 100 B records, 16KiB batches, partitions: 1",
        how=f"{_ONE_PRODUCER}, batch.size=16384, linger.ms=5.",
        new_producer=librdkafka(batches_of(16 * KIB, 100)),
        first_records=500_000,
        partitions=1,
        measures=(MB_PER_S, RECORDS_PER_S, CPU_S_PER_GIB),
        aims=(at_least(MB_PER_S, 1.5), at_most(CPU_S_PER_GIB, 0.7)),
    )


def _single_record_cells() -> Iterator[ProduceCell]:
    yield ProduceCell(
        name="one-record",
        title="One 1 KiB record per request, pipelined",
        how=f"{_ONE_PRODUCER}, batch.num.messages=1, linger.ms=0, one partition.",
        new_producer=librdkafka(one_record_per_request(KIB)),
        partitions=1,
        measures=(RECORDS_PER_S, CPU_S_PER_GIB),
        aims=(at_least(RECORDS_PER_S, 1.0), at_most(CPU_S_PER_GIB, 0.7)),
    )
    for connections in (1, 8):
        yield ProduceCell(
            name=f"one-record-prepared-{connections}c",
            title=f"One 1 KiB record per request, pipelined, prepared requests, connections: {connections}",
            how="Requests encoded beforehand, so that the client costs the host little; acks=1, one partition, "
            f"64 requests in flight on each connection; connections: {connections}.",
            new_producer=prepared(acks=1, connections=connections, in_flight=64),
            partitions=1,
            measures=(RECORDS_PER_S, CPU_S_PER_GIB),
            aims=(at_least(RECORDS_PER_S, 1.0), at_most(CPU_S_PER_GIB, 0.7)),
        )


def _durable_cells() -> Iterator[ProduceCell]:
    for partitions in (1, PARTITIONS):
        yield ProduceCell(
            name=f"durable-{partitions}p",
            title=f"Durable appends, 64 producers, partitions: {partitions}",
            how="acks=all, flush.messages=1: no record is acknowledged before fsync. Each of 64 producers sends "
            f"its next 1 KiB record when its last one is acknowledged; prepared requests; partitions: {partitions}.",
            new_producer=prepared(acks=-1, connections=64, in_flight=1),
            partitions=partitions,
            measures=(RECORDS_PER_S, P50_MS, P99_MS),
            aims=(at_least(RECORDS_PER_S, 2.0),),
            systems=BROKERS,
            topic_config={"flush.messages": "1"},
            first_records=500,
        )


def load_cells() -> list[WarmCell]:
    return [
        *_produce_cells(),
        *_single_record_cells(),
        ConsumeCell(),
        ColdReadCell(),
        *_durable_cells(),
        LatencyCell(),
    ]
