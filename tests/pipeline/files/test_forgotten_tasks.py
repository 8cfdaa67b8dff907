"""A task that Spark has given up may still write: no file of it comes into a finished batch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.files import parquet
from highwater.pipeline.files.batches import finished_files
from highwater.pipeline.files.parquet import ParquetSink
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf


@pytest.mark.parametrize("when", [CrashPoint.SINK_WRITTEN, CrashPoint.SINK_BEFORE_COMMIT])
def test_a_file_that_begins_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: CrashPoint) -> None:
    folders: list[Path] = []

    def collect() -> list[dict[str, Any]]:
        folders.extend((tmp_path / "_writing").iterdir())
        (folders[0] / "part-0.parquet").write_bytes(b"1234")
        (folders[0] / "part-0-given-up.parquet").write_bytes(b"12")
        return [{"name": "part-0.parquet", "bytes": 4, "rows": 1}]

    def forgotten_task(point: CrashPoint) -> None:
        if point is when and folders[0].is_dir():
            (folders[0] / "part-0-forgotten.parquet").write_bytes(b"1234")

    monkeypatch.setattr(parquet, "reach", forgotten_task)
    frame: Any = SimpleNamespace(mapInArrow=lambda *_: SimpleNamespace(collect=collect))
    ParquetSink(tmp_path)._write(frame, BatchOf("query", 0, (Offsets({("orders", 0): 5}),)))
    assert [Path(each).name for each in finished_files(tmp_path)] == ["part-0.parquet"]
    assert list((tmp_path / "_writing").iterdir()) == []
