"""Which SQL type holds which column, and which types a table may have instead. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.pipeline.errors import SettingsError

BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DECIMAL = (
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "decimal",
)
STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ = "string", "binary", "date", "timestamp", "timestamp_ntz"
KINDS: Final = frozenset(
    {BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ}
)
"""What a database column holds, under the names of Spark's types."""
_NESTED: Final = ("array", "map", "struct", "variant")


@dataclass(frozen=True)
class Column:
    """A column of a frame: its kind is a name of Spark's. precision and scale are those of a decimal."""

    name: str
    kind: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind == DECIMAL else self.kind


def check_columns(columns: Sequence[Column]) -> None:
    """Raises SettingsError for the first column of a frame that no database column holds."""
    for each in columns:
        if each.kind not in KINDS:
            way = "write it as text with to_json" if each.kind in _NESTED else "cast it to another type"
            raise SettingsError(f"column {each.name} is {each.kind}, which a database column does not hold: {way}")
    names = [each.name.lower() for each in columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SettingsError(f"two columns are named {twice}: databases do not tell capitals apart; rename one of them")
    if not columns:
        raise SettingsError("the frame has no column")


@dataclass(frozen=True)
class TableColumn:
    """A column that a table has. type_name: as the database says it, in small letters and without sizes.

    scale: of a decimal with a fixed one.
    """

    name: str
    type_name: str
    has_default: bool
    is_nullable: bool
    scale: int | None = None


def check_table(
    table: str, columns: Sequence[Column], there: Sequence[TableColumn], accepted: Mapping[str, frozenset[str]]
) -> None:
    """Raises SettingsError for the first column that the table lacks, or holds in a type that would change values."""
    by_name = {each.name.lower(): each for each in there}
    for column in columns:
        found = by_name.get(column.name.lower())
        if found is None:
            raise SettingsError(f"table {table} has no column {column.name}: add it, or leave it out of the frame")
        if found.type_name not in accepted[column.kind]:
            raise SettingsError(
                f"column {column.name} of table {table} is {found.type_name}, and the frame has {column}: cast it"
            )
        if column.kind == DECIMAL and found.scale is not None and found.scale < column.scale:
            raise SettingsError(
                f"column {column.name} of table {table} keeps {found.scale} decimals, the frame is {column}: cast it"
            )
    given = {each.name.lower() for each in columns}
    for name, each in by_name.items():
        if name not in given and not each.is_nullable and not each.has_default:
            raise SettingsError(f"column {each.name} of table {table} has to have a value, and the frame lacks it")


def check_keys(table: str, key: Sequence[str], unique: Sequence[frozenset[str]]) -> None:
    """Raises SettingsError unless the table keeps rows with the same key apart."""
    if frozenset(each.lower() for each in key) not in unique:
        raise SettingsError(
            f"table {table} has no primary key or unique index of {', '.join(key)} alone, by which rows are replaced"
        )
