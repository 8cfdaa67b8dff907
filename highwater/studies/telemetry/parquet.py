"""Second figures as Parquet: one directory per micro-batch, written whole: a replay changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.common.atomic_files import flush_to_disk
from highwater.studies.telemetry.store import Changed

FOLDER: Final = "parquet"
_NUMBERS: Final = pa.map_(pa.string(), pa.float64())
_LATENCY: Final = pa.struct(
    [
        *((name, pa.int64()) for name in ("p50", "p90", "p99", "p999", "p9999", "max")),
        ("mean", pa.float64()),
        ("count", pa.int64()),
    ]
)
SCHEMA: Final = pa.schema(
    [
        ("trial", pa.string()),
        ("second", pa.int32()),
        ("phase", pa.string()),
        ("closed", pa.bool_()),
        *(
            (name, pa.int64())
            for name in ("sent", "acked", "acked_bytes", "failed", "received", "received_bytes", "lag")
        ),
        ("generator_cpu_ratio_max", pa.float64()),
        ("latencies", pa.map_(pa.string(), _LATENCY)),
        ("hosts", pa.map_(pa.string(), _NUMBERS)),
        ("objectives", _NUMBERS),
        ("met", pa.map_(pa.string(), pa.bool_())),
    ]
)
"""Columns of the figures by second. Of rows for the same second of a trial, that of the highest batch counts."""
_MAPS: Final = ("latencies", "hosts", "objectives", "met")


class ParquetSink:
    """A sink of `Live`. Readers take directories that have `_SUCCESS`."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def __call__(self, changed: Sequence[Changed], batch_id: int) -> None:
        rows = [
            {"trial": one.sums.name, **asdict(figures)} for one in changed for figures in one.seconds if figures.closed
        ]
        if not rows:
            return
        for row in rows:
            row.update({name: list(row[name].items()) for name in _MAPS})
            row["hosts"] = [(host, list(sample.items())) for host, sample in row["hosts"]]
        target = self._folder / f"batch={batch_id}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), target / "seconds.parquet", compression="zstd")
        flush_to_disk(target / "seconds.parquet")
        (target / "_SUCCESS").touch()
        flush_to_disk(target)
