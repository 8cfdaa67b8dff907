"""A Delta table and an Iceberg table for the same tests: their sinks, and readers that are not Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from pyarrow import dataset
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table.snapshots import ancestors_of

from highwater.pipeline.tables.delta import DeltaPlace, DeltaSink
from highwater.pipeline.tables.iceberg import IcebergPlace, IcebergSink
from highwater.pipeline.tables.model import TablePlace
from highwater.pipeline.tables.sink import TableSink


@dataclass(frozen=True)
class Delta:
    """folder: of this table alone, not yet there."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "orders"

    @property
    def place(self) -> TablePlace:
        return DeltaPlace(str(self.path))

    def sink(self, **options: Any) -> TableSink:
        return DeltaSink(self.path, **options)

    def resume_from(self, name: str) -> str:
        return f"delta:{self.path}#{name}"

    def create(self, schema: pa.Schema) -> None:
        fields: Any = schema
        DeltaTable.create(self.path, Schema.from_arrow(fields), partition_by=["partition"])

    def rows(self) -> pa.Table:
        files: Any = DeltaTable(self.path).to_pyarrow_dataset()
        assert isinstance(files, dataset.Dataset)
        return files.to_table()

    def commit_count(self) -> int:
        """Without delta-rs: while a sink of this process is stopped, it may wait for the thread that stands still."""
        return len([*(self.path / "_delta_log").glob("*.json")])

    def write_as_another(self, rows: pa.Table) -> None:
        write_deltalake(self.path, rows, mode="append")

    def roll_back(self) -> Callable[[], None]:
        """To before the newest commit; returns what undoes that."""
        version = DeltaTable(self.path).version()
        DeltaTable(self.path).restore(version - 1)

        def undo() -> None:
            DeltaTable(self.path).restore(version)

        return undo


@dataclass(frozen=True)
class Iceberg:
    folder: Path

    @property
    def properties(self) -> dict[str, str]:
        self.folder.mkdir(exist_ok=True)
        return {"uri": f"sqlite:///{self.folder / 'catalog.db'}", "warehouse": str(self.folder / "warehouse")}

    @property
    def catalog(self) -> Catalog:
        return load_catalog("default", **self.properties)

    @property
    def place(self) -> TablePlace:
        return IcebergPlace(self.properties, "shop.orders")

    def sink(self, **options: Any) -> TableSink:
        return IcebergSink(self.properties, "shop.orders", **options)

    def resume_from(self, name: str) -> str:
        return f"iceberg:shop.orders?{urlencode(self.properties)}#{name}"

    def create(self, schema: pa.Schema) -> None:
        self.catalog.create_namespace_if_not_exists("shop")
        table = self.catalog.create_table("shop.orders", schema)
        with table.update_spec() as spec:
            spec.add_identity("partition")

    def rows(self) -> pa.Table:
        return self.catalog.load_table("shop.orders").scan().to_arrow()

    def commit_count(self) -> int:
        return len(self.catalog.load_table("shop.orders").metadata.snapshots)

    def write_as_another(self, rows: pa.Table) -> None:
        self.catalog.load_table("shop.orders").append(rows)

    def roll_back(self) -> Callable[[], None]:
        table = self.catalog.load_table("shop.orders")
        newest, before, *_ = ancestors_of(table.current_snapshot(), table.metadata)
        table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
        return lambda: table.manage_snapshots().set_current_snapshot(newest.snapshot_id).commit()
