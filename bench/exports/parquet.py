"""The trials as Parquet, by pandas and pyarrow."""

from __future__ import annotations

import io
import json

from highwater.bench.exports import ExportedFile
from highwater.bench.exports.trials import METRIC_COLUMNS, columns, rows
from highwater.common.errors import UsageError
from highwater.common.extras import how_to_install
from highwater.results.reader import RunResult


def export(result: RunResult) -> list[ExportedFile]:
    """Raises UsageError where pandas or pyarrow is not installed."""
    try:
        import pandas
        import pyarrow
    except ImportError as error:
        raise UsageError(f"parquet needs {error.name}, which is not installed: {how_to_install('parquet')}") from None
    names = columns(result)
    frame = pandas.DataFrame(rows(result), columns=names)
    for name in names:
        if name in METRIC_COLUMNS:
            frame[name] = frame[name].astype("float64")
        elif name.startswith("factor."):
            # An axis may mix `1` and `all`; a column has one type.
            frame[name] = frame[name].map(lambda value: None if value is None else str(value))
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    about = {
        "manifest": result.manifest.model_dump_json(by_alias=True, exclude={"trials"}),
        "units": json.dumps({name: definition.unit for name, definition in METRIC_COLUMNS.items()}),
    }
    table = table.replace_schema_metadata((table.schema.metadata or {}) | about)
    buffer = io.BytesIO()
    _write(table, buffer)
    return [ExportedFile("", buffer.getvalue())]


def _write(table: object, buffer: io.BytesIO) -> None:
    from pyarrow.parquet import write_table

    write_table(table, buffer, compression="zstd")
