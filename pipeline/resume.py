"""`resumeFrom`: where a query without its checkpoint goes on, from what a sink has stored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.database.address import SQLITE, read_address
from highwater.pipeline.database.dialects import dialect_of
from highwater.pipeline.database.session import connected, plainly
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.files.batches import last_stored
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import CommittedOffset
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import Progress, ProgressError
from highwater.pipeline.progress.marker import from_marker

_GROUP: Final = "group:"
PARQUET: Final = "parquet:"
DELTA: Final = "delta:"
ICEBERG: Final = "iceberg:"
_DECIDED_MS: Final = 5_000
"""A transaction whose end is decided ends within this time, unless a broker is down."""


def resume_offsets(text: str, client: Client) -> Offsets:
    """Return where to go on by the stored progress that `text` names.

    `group:NAME` is the marker of a group on the cluster of `client`; `sqlite:PATH#NAME`, `postgresql://…#NAME` and
    `mysql://…#NAME` are what the sink NAME has stored in a database, `parquet:FOLDER` what one has stored with files,
    `delta:PATH#NAME` and `iceberg:NAMESPACE.TABLE?uri=…&warehouse=…#NAME` with a table.
    Raises SettingsError for a text of another form, ProgressError if there is no such progress, or if it does not say
    where to go on, and DatabaseError.
    """
    text, progress = _read(text, client)
    try:
        if progress is None:
            raise ProgressError("nothing is stored there; look for a slip in the name")
        return merged(progress.end_offsets)
    except ProgressError as error:
        raise ProgressError(f"resumeFrom={text}: {error}") from None


def shown(text: str) -> str:
    """The text for messages, without the password of a database. Raises SettingsError as `resume_offsets` does."""
    if text.startswith((_GROUP, PARQUET)):
        return text
    url, _, name = text.rpartition("#")
    if url.startswith((DELTA, ICEBERG)):
        # Properties of a catalog may hold secrets.
        return f"{url.partition('?')[0]}#{name}"
    return f"{read_address(url).shown}#{name}"


def _read(text: str, client: Client) -> tuple[str, Progress | None]:
    """The text without a password, and the progress."""
    group = text.removeprefix(_GROUP)
    if text.startswith(_GROUP) and group:
        return text, _of_group(group, client)
    folder = text.removeprefix(PARQUET)
    if text.startswith(PARQUET) and folder:
        return text, last_stored(Path(folder))
    url, hash_sign, name = text.rpartition("#")
    if not hash_sign or not name:
        raise SettingsError(
            f"resumeFrom: write {_GROUP}NAME, {PARQUET}FOLDER, {DELTA}PATH#NAME, {ICEBERG}NAMESPACE.TABLE?uri=…#NAME, "
            "or the URL of a database with #NAME at its end"
        )
    if url.startswith((DELTA, ICEBERG)):
        return shown(text), _of_table(url, name)
    return shown(text), stored_progress(url, name)


def _of_table(url: str, name: str) -> Progress | None:
    if url.startswith(DELTA):
        from highwater.pipeline.tables.delta import DeltaPlace  # only who has such a table needs its library

        return DeltaPlace(url.removeprefix(DELTA)).open(name).progress()
    from highwater.pipeline.tables.iceberg import IcebergPlace

    return IcebergPlace.of_text(url.removeprefix(ICEBERG)).open(name).progress()


def _of_group(group: str, client: Client) -> Progress | None:
    committed = client.committed_offsets(group, require_stable=False)
    decided = client.committed_offsets(group, patience_ms=_DECIDED_MS)
    # Otherwise the last driver died in a transaction, which stays open until the sink of this query aborts it. If it is
    # committed before that, the sink refuses this query, as the query does not begin where the marker then is.
    if isinstance(decided, BrokerError) or not any(map(_is_undecided, decided.values())):
        committed = decided
    if isinstance(committed, BrokerError):
        raise ProgressError(f"resumeFrom={_GROUP}{group}: {committed}")
    found = {}
    for of, each in committed.items():
        if isinstance(each, BrokerError):
            raise ProgressError(f"resumeFrom={_GROUP}{group}: {partition_name(*of)}: {each}")
        found[of] = each
    return from_marker(found)


def _is_undecided(answer: CommittedOffset | BrokerError) -> bool:
    return isinstance(answer, BrokerError) and answer.code is ErrorCode.unstable_offset_commit


def merged(sources: Iterable[Offsets]) -> Offsets:
    """The offsets of all sources of the stored query. Raises ProgressError if two of them read the same partition."""
    found: dict[TopicPartition, int] = {}
    ids: dict[str, str] = {}
    for source in sources:
        for of, offset in source.next.items():
            if found.setdefault(of, offset) != offset:
                raise ProgressError(
                    f"two sources of the stored query read {partition_name(*of)}, up to {found[of]} and {offset}: "
                    "give each source its startingOffsets"
                )
        ids |= source.ids
    if not found:
        raise ProgressError("the query that wrote there read no topic")
    return Offsets(found, ids)


def stored_progress(url: str, name: str) -> Progress | None:
    """The progress of the sink `name`; None if it has none. Raises SettingsError, DatabaseError, ProgressError."""
    address = read_address(url)
    if address.kind == SQLITE and not Path(address.path).is_file():
        raise SettingsError(f"{address.shown}: there is no such file")
    dialect = dialect_of(address)
    with connected(dialect) as connection, plainly(dialect, "holds no progress of a sink"):
        return dialect.progress(connection.cursor(), name)
