"""The sink of Apache Iceberg tables, by PyIceberg: a commit has rows, and progress as a property.

A commit says which snapshot it builds on, and the catalog refuses it if the table has another by then. PyIceberg would
then build on that one and try again, which could write a batch twice: this sink looks at the progress before it does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import parse_qsl

import pyarrow as pa

from highwater.common.extras import how_to_install
from highwater.common.typed_json import parse_json
from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.errors import PipelineError, SettingsError
from highwater.pipeline.progress.batch import Progress, ProgressError, progress_from_json, progress_to_json
from highwater.pipeline.tables.model import DEFAULT_NAME, CommittedMeanwhileError, TableError, first_line
from highwater.pipeline.tables.sink import TableSink

try:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table import TableProperties
    from pyiceberg.table.snapshots import ancestors_of
except ImportError:
    raise SettingsError(f"an Iceberg table needs the package pyiceberg: {how_to_install('iceberg')}") from None

_PROGRESS: Final = "highwater.progress."
_SNAPSHOT: Final = "snapshot"
_NUMBER: Final = "sequence"
"""The sequence number of that snapshot: each commit to a table has the next one."""
_CATALOG_NAME: Final = "name"
_DEFAULT_CATALOG: Final = "default"


class IcebergSink(TableSink):
    """Each micro-batch exactly once into an Iceberg table."""

    def __init__(
        self,
        catalog: Mapping[str, str],
        table: str,
        *,
        name: str = DEFAULT_NAME,
        create: bool = False,
        first_batch: int = 0,
        checkpoint: str = "",
    ) -> None:
        """Raises SettingsError. Nothing is opened yet.

        catalog: properties as PyIceberg takes them, such as uri and warehouse; `name` if it is not `default`.
        table: `namespace.table`. name: under which the progress is stored; each sink of a table has its own.
        create: whether a missing table is created, with its namespace.
        first_batch: where a sink begins that is added to a running query.
        checkpoint: the query's checkpointLocation, which a sink over Spark Connect needs.
        """
        super().__init__(
            IcebergPlace(catalog, table), name=name, create=create, first_batch=first_batch, checkpoint=checkpoint
        )


class IcebergPlace:
    """A table of a catalog."""

    def __init__(self, catalog: Mapping[str, str], table: str) -> None:
        if not all(table.split(".")) or "." not in table:
            raise SettingsError(f"table={table} is not written as NAMESPACE.TABLE")
        self._properties = {name: value for name, value in catalog.items() if name != _CATALOG_NAME}
        self._catalog_name = catalog.get(_CATALOG_NAME, _DEFAULT_CATALOG)
        self._table = table
        self.shown = f"the Iceberg table {table}"

    @classmethod
    def of_text(cls, text: str) -> IcebergPlace:
        """`NAMESPACE.TABLE?uri=…&warehouse=…`, percent-encoded as a URL is."""
        table, _, properties = text.partition("?")
        return cls(dict(parse_qsl(properties)), table)

    def open(self, name: str, created_with: pa.Schema | None = None) -> _Table:
        with self._in_one_line(f"{self.shown} cannot be opened"):
            catalog = load_catalog(self._catalog_name, **self._properties)
            try:
                return _Table(catalog.load_table(self._table), self, name)
            except NoSuchTableError:
                if created_with is None:
                    raise SettingsError(
                        f"the catalog has no Iceberg table {self._table}: create it, or let the sink do so (create)"
                    ) from None
            catalog.create_namespace_if_not_exists(self._table.rpartition(".")[0])
            return _Table(catalog.create_table_if_not_exists(self._table, created_with), self, name)

    @contextmanager
    def _in_one_line(self, what: str) -> Iterator[None]:
        """No value of the catalog's properties is shown: they may be secrets, or have a password in them."""
        try:
            yield
        except PipelineError:
            raise
        except Exception as error:
            text = first_line(error)
            for value in filter(None, self._properties.values()):
                text = text.replace(value, "…")
            kind = CommittedMeanwhileError if isinstance(error, CommitFailedException) else TableError
            unknown = isinstance(error, CommitStateUnknownException)
            raise kind(f"{what}{'; a restart finds out whether it is stored' if unknown else ''}: {text}") from None


class _Table:
    def __init__(self, table: IcebergTable, place: IcebergPlace, name: str) -> None:
        # Of this object alone: what the catalog has of the table does not change.
        once = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": once})
        self._table = table
        self._place = place
        self._name = name
        self.schema: pa.Schema = table.schema().as_arrow()

    def progress(self) -> Progress | None:
        text = self._table.properties.get(_PROGRESS + self._name)
        if text is None:
            return None
        try:
            stored = parse_json(text)
            progress, snapshot_id = progress_from_json(stored), int(stored[_SNAPSHOT])
            number = int(stored.get(_NUMBER, 0))
        except (ValueError, KeyError, TypeError):
            raise ProgressError(f"{self._place.shown}: property {_PROGRESS}{self._name} is damaged") from None
        metadata = self._table.metadata
        ancestors = {each.snapshot_id: each for each in ancestors_of(metadata.current_snapshot(), metadata)}
        is_known = metadata.snapshot_by_id(snapshot_id) is not None
        # One that expired is in neither. If an older one is an ancestor, it would be one too.
        is_skipped = any((each.sequence_number or 0) < number for each in ancestors.values())
        if snapshot_id not in ancestors and (is_known or is_skipped):
            way_back = f"set snapshot {snapshot_id} current again, or " if is_known else ""
            raise ProgressError(
                f"{self._place.shown} was rolled back to before batch {progress.batch_id} of sink {self._name}: "
                f"{way_back}give the sink another name"
            )
        return progress

    def append(self, rows: pa.RecordBatchReader, progress: Progress) -> None:
        with self._place._in_one_line(f"{self._place.shown} did not take batch {progress.batch_id}"):
            transaction = self._table.transaction()
            # PyIceberg divides rows among partitions only if it has all of them.
            transaction.append(rows if self._table.spec().is_unpartitioned() else rows.read_all())
            snapshot = transaction.table_metadata.current_snapshot()
            assert snapshot is not None
            of_snapshot = {_SNAPSHOT: snapshot.snapshot_id, _NUMBER: snapshot.sequence_number or 0}
            stored = {**of_snapshot, **progress_to_json(progress)}
            transaction.set_properties({_PROGRESS + self._name: json.dumps(stored)})
            reach(CrashPoint.SINK_BEFORE_COMMIT)
            transaction.commit_transaction()
