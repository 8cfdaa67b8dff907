"""Folders of Parquet files that a sink of a drill writes, read by pyarrow as other programs would."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyarrow import parquet

from highwater.pipeline.drill.ledger import Row
from highwater.pipeline.drill.model import SinkSpec
from highwater.pipeline.drill.names import BATCH_COLUMN
from highwater.pipeline.drill.outputs import make_folder


class ParquetOutput:
    """A folder that the drill makes."""

    def __init__(self, kind: str, directory: Path) -> None:
        """Raises DrillSetupError if it cannot be made."""
        make_folder(directory)
        self._directory = directory
        self.spec = SinkSpec(kind, {"directory": str(directory)})
        self.resume_from = f"parquet:{directory}"

    def rows(self) -> list[Row]:
        """The rows of batches that have their `_SUCCESS`."""
        found = []
        for success in sorted(self._directory.glob("query=*/batch=*/_SUCCESS")):
            for file in sorted(success.parent.glob("*.parquet")):
                table = parquet.ParquetFile(file).read(["key", BATCH_COLUMN])
                keys, batches = (table.column(name).to_pylist() for name in ("key", BATCH_COLUMN))
                found += [Row(key, batch) for key, batch in zip(keys, batches, strict=True)]
        return found

    def remove(self) -> None:
        """The folder with all files."""
        shutil.rmtree(self._directory, ignore_errors=True)
