"""Delta and Iceberg tables that a sink of a drill writes, read without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlencode

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import parquet
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from highwater.pipeline.drill import kinds
from highwater.pipeline.drill.ledger import Row
from highwater.pipeline.drill.model import SinkSpec
from highwater.pipeline.drill.names import BATCH_COLUMN
from highwater.pipeline.drill.outputs import make_folder
from highwater.pipeline.tables.model import DEFAULT_NAME

_COLUMNS: Final = ("key", BATCH_COLUMN)
_ICEBERG_TABLE: Final = "drill.output"


class _Reader(Protocol):
    def pieces(self) -> list[pa.Table]:
        """The columns of all rows that a reader sees; nothing before there is a table."""


class LakeTableOutput:
    """A folder that the drill makes, with the table that the sink creates in it."""

    def __init__(self, kind: str, directory: Path) -> None:
        """Raises DrillSetupError if it cannot be made."""
        make_folder(directory)
        self._directory = directory
        self._reader: _Reader
        if kind == kinds.DELTA:
            self._reader = _Delta(directory)
            self.spec = SinkSpec(kind, {"path": str(directory)})
            self.resume_from = f"delta:{directory}#{DEFAULT_NAME}"
        else:
            catalog = {"uri": f"sqlite:///{directory / 'catalog.db'}", "warehouse": str(directory / "warehouse")}
            self._reader = _Iceberg(catalog)
            self.spec = SinkSpec(kind, {"table": _ICEBERG_TABLE, **catalog})
            self.resume_from = f"iceberg:{_ICEBERG_TABLE}?{urlencode(catalog)}#{DEFAULT_NAME}"

    def rows(self) -> list[Row]:
        found = []
        for piece in self._reader.pieces():
            keys, batches = (piece.column(name).to_pylist() for name in _COLUMNS)
            found += [Row(key, batch) for key, batch in zip(keys, batches, strict=True)]
        return found

    def remove(self) -> None:
        """The folder with all files."""
        shutil.rmtree(self._directory, ignore_errors=True)


class _Delta:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def pieces(self) -> list[pa.Table]:
        try:
            files = DeltaTable(self._directory).file_uris()
        except TableNotFoundError:
            return []
        return [parquet.ParquetFile(file.removeprefix("file://")).read(list(_COLUMNS)) for file in files]


class _Iceberg:
    def __init__(self, catalog: dict[str, str]) -> None:
        self._catalog = load_catalog("default", **catalog)

    def pieces(self) -> list[pa.Table]:
        try:
            return [self._catalog.load_table(_ICEBERG_TABLE).scan(selected_fields=_COLUMNS).to_arrow()]
        except NoSuchTableError:
            return []
