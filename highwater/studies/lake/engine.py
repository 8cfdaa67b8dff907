"""What an engine is: SQL over the tables of a lake in, an Arrow table out."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from highwater.common.errors import UsageError

Parameters = Mapping[str, str | float | None]

Tables = Mapping[str, pa.Table]
NO_TABLES: Final[Tables] = {}

MEMORY_BYTES: Final = 2 << 30
"""What statements of the local engine may use, unless another size is given; more goes to the disk or is refused."""

# Strings, quoted names and comments, in which nothing is a parameter; a cast; a parameter.
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?(?:\*/|\Z)|::|:([A-Za-z_]\w*)", re.DOTALL)

_RAISED: Final = re.compile(r"\w+(Error|Exception|Invalid): ")
_TABLE: Final = re.compile(r"\b(table|view)\b", re.IGNORECASE)


class Engine(Protocol):
    """An engine that is open on a lake. Its tables cannot be changed, and it reaches no other files."""

    def query(self, sql: str, parameters: Parameters, tables: Tables = NO_TABLES) -> pa.Table:
        """One SELECT, with `:name` for parameters, which finds `tables` beside those of the lake.

        Raises UsageError in one line.
        """

    def percentiles(
        self, sql: str, parameters: Parameters, by: Sequence[str], percentiles: Sequence[float]
    ) -> pa.Table:
        """Histograms merged by the columns `by`: count and percentiles of each sum, sorted by `by`.

        sql: a SELECT of `by`, `buckets` and `counts`. Raises UsageError in one line.
        """


def parameters_in(sql: str) -> list[str]:
    """The names of the parameters of a statement, each once."""
    return list(dict.fromkeys(match[1] for match in _TOKEN.finditer(sql) if match[1]))


def with_markers(sql: str, marker: str) -> str:
    """The statement with `marker` before the names of parameters, in place of the colon."""
    return _TOKEN.sub(lambda match: f"{marker}{match[1]}" if match[1] else match[0], sql)


def given_for(sql: str, parameters: Parameters) -> dict[str, str | float | None]:
    """The parameters that a statement has. Raises UsageError for one that is not given."""
    wanted = parameters_in(sql)
    if missing := [name for name in wanted if name not in parameters]:
        raise UsageError(f"the statement has :{missing[0]}; give its value: --param {missing[0]}=VALUE")
    return {name: parameters[name] for name in wanted}


def one_line(error: Exception, tables: Collection[str]) -> UsageError:
    """The line of an engine's error that says what is wrong with a statement."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    # A traceback of Spark's Python ends with what was raised.
    raised = [line for line in lines if _RAISED.match(line)]
    text = (raised[-1] if "Python worker" in lines[0] and raised else lines[0]).rstrip(".")
    hint = f"; tables are {', '.join(sorted(tables))}" if _TABLE.search(text) else ""
    return UsageError(f"the statement cannot be answered: {text}{hint}")


def check_names(tables: Collection[str], known: Collection[str]) -> None:
    """Raises UsageError for a pool with the name of a table of the lake."""
    for name in tables:
        if name in known:
            raise UsageError(f"pool {name} has the name of a table of the lake; give it another one")


def plain_types(table: pa.Table) -> pa.Table:
    """Whole numbers as int64, other numbers as float64: engines choose different widths for the same result."""
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = field.type
        if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
            kind = pa.int64()
        elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            kind = pa.float64()
        elif pa.types.is_large_string(kind) or pa.types.is_null(kind):
            kind = pa.string()
        columns.append(column.cast(kind))
    return pa.table(columns, names=table.column_names)
