"""Writes a history as Parquet files, one for each kind and tier and one for events, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sqlalchemy import BigInteger, Float, Select, select
from sqlalchemy.exc import SQLAlchemyError

from highwater.common.atomic_files import replaced_whole
from highwater.common.extras import how_to_install
from highwater.monitor.errors import HistoryError
from highwater.monitor.history.database import Database, reason_of
from highwater.monitor.history.tables import ENTITY, EVENT, ROWS

_ROWS_AT_ONCE: Final = 50_000
_TIME: Final = "t"


def export_parquet(database: Database, folder: Path) -> Iterator[tuple[Path, int]]:
    """Write `KIND_TIER.parquet` and `event.parquet` into the folder; yields each file with the number of its rows.

    `t` becomes a time in UTC, and each row has the name and the incarnation of its entity. A file has its name when it
    is complete. Raises HistoryError.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise HistoryError(f"parquet needs {error.name}: {how_to_install('parquet')}") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, query in _queries():
            path = folder / f"{name}.parquet"
            with replaced_whole(path) as written:
                count = _write(pyarrow, database, query, written)
            yield path, count
    except OSError as error:
        raise HistoryError(f"{folder}: cannot write there: {error.strerror or error}") from None
    except SQLAlchemyError as error:
        raise HistoryError(f"{database.shown}: cannot read the history: {reason_of(error)}") from None


def _queries() -> Iterator[tuple[str, Select[Any]]]:
    for (kind, tier), table in ROWS.items():
        values = [column for column in table.columns if column.name not in ("entity_id", _TIME)]
        query = (
            select(ENTITY.c.name, ENTITY.c.incarnation, table.c.t, *values)
            .select_from(table.join(ENTITY, ENTITY.c.id == table.c.entity_id))
            .where(ENTITY.c.kind == kind)
            .order_by(ENTITY.c.id, table.c.t)
        )
        yield f"{kind}_{tier.value}", query
    yield EVENT.name, select(*(column for column in EVENT.columns if column.name != "id")).order_by(EVENT.c.id)


def _write(pyarrow: Any, database: Database, query: Select[Any], path: Path) -> int:
    schema = pyarrow.schema([(column.name, _type(pyarrow, column)) for column in query.selected_columns])
    count = 0
    with (
        database.reading.connect().execution_options(yield_per=_ROWS_AT_ONCE) as connection,
        pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer,
    ):
        for rows in connection.execute(query).partitions():
            columns = zip(*rows, strict=True)
            arrays = [pyarrow.array(values, each.type) for values, each in zip(columns, schema, strict=True)]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            count += len(rows)
    return count


def _type(pyarrow: Any, column: Any) -> Any:
    if column.name == _TIME:
        return pyarrow.timestamp("ms", tz="UTC")
    if isinstance(column.type, Float):
        return pyarrow.float64()
    return pyarrow.int64() if isinstance(column.type, BigInteger) else pyarrow.string()
