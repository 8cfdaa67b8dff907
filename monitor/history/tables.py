"""The tables of the history: a wide table per kind and tier, entities, events, schema version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, Column, Engine, Float, Index, Integer, MetaData, Table, Text, UniqueConstraint
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.types import TypeEngine

from highwater.monitor.history.kinds import KINDS, Kind, Nature, Tier

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert

SCHEMA_VERSION: Final = 1
METADATA: Final = MetaData()
MINIMUM: Final = "_min"
MAXIMUM: Final = "_max"

# SQLite counts up an INTEGER alone.
_Id = BigInteger().with_variant(Integer, "sqlite")
_SQL_TYPES: Final[dict[Nature, TypeEngine[Any]]] = {
    Nature.COUNTER: Float(53),
    Nature.GAUGE: Float(53),
    Nature.STATE: BigInteger(),
    Nature.TEXT: Text(),
}

ABOUT: Final = Table("about", METADATA, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))
ENTITY: Final = Table(
    "entity",
    METADATA,
    Column("id", _Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    # A topic's id: what is made again under the same name is another entity.
    Column("incarnation", Text, nullable=False),
    Column("first_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),
    UniqueConstraint("kind", "name", "incarnation"),
)
EVENT: Final = Table(
    "event",
    METADATA,
    Column("id", _Id, primary_key=True),
    Column("t", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("entity_kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Index("event_t", "t"),
)
CLOSED: Final = Table(
    "closed",
    METADATA,
    Column("kind", Text, primary_key=True),
    Column("tier", Text, primary_key=True),
    # All buckets that end at this time or before are closed.
    Column("until_ms", BigInteger, nullable=False),
)


def _columns(kind: Kind[Any], tier: Tier) -> Iterator[Column[Any]]:
    for column in kind.columns:
        yield Column(column.name, _SQL_TYPES[column.nature])
        if tier is not Tier.RAW and column.nature is Nature.GAUGE:
            yield Column(column.name + MINIMUM, _SQL_TYPES[column.nature])
            yield Column(column.name + MAXIMUM, _SQL_TYPES[column.nature])


def _table(kind: Kind[Any], tier: Tier) -> Table:
    return Table(
        f"{kind.name}_{tier.value}",
        METADATA,
        Column("entity_id", BigInteger, primary_key=True, autoincrement=False),
        Column("t", BigInteger, primary_key=True, autoincrement=False),
        *_columns(kind, tier),
        sqlite_with_rowid=False,
    )


ROWS: Final[dict[tuple[str, Tier], Table]] = {
    (kind.name, tier): _table(kind, tier) for kind in KINDS.values() for tier in kind.tiers
}
"""The table of a kind and a tier. `t` is the time of the tick, or the begin of the bucket."""


def upsert(engine: Engine, table: Table, keys: Sequence[str]) -> PostgresqlInsert | SqliteInsert:
    """Return an insert that replaces the row with the same keys, in the words of the engine's database."""
    made: PostgresqlInsert | SqliteInsert = SqliteInsert(table)
    if engine.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import Insert  # here, as its module takes 2 MiB

        made = Insert(table)
    changed = {column.name: made.excluded[column.name] for column in table.columns if column.name not in keys}
    return made.on_conflict_do_update(index_elements=list(keys), set_=changed)
