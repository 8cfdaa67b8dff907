"""The sinks of a flow by name: what each promises, its options, how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from highwater.common.nearest import did_you_mean
from highwater.pipeline.database.address import read_address
from highwater.pipeline.database.values import python_values
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.files.batches import DEFAULT_CODEC, check_codec, check_folder
from highwater.pipeline.run.model import DATABASE_FORMAT, DELTA_FORMAT, ICEBERG_FORMAT, PARQUET_FORMAT, TOPIC_FORMAT
from highwater.pipeline.sink.options import EXACTLY_ONCE, read_sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sink(Protocol):
    """Writes micro-batches. row_count: how many rows it has written; None if nobody counts them."""

    @property
    def row_count(self) -> int | None: ...

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write the rows of one micro-batch."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a sink is opened with. show: prints a table of a batch, given its title, its columns and its rows."""

    pipeline: str
    flow: str
    options: Mapping[str, str]
    show: Callable[[str, list[str], list[tuple[object, ...]]], None]


@dataclass(frozen=True, slots=True)
class SinkFormat:
    """delivery: what is promised with these options, for people. target: where rows go, in words without secrets.

    options: known names; None if `check` knows them. check: raises SettingsError.
    """

    delivery: Callable[[Mapping[str, str]], str]
    options: tuple[str, ...] | None
    required: tuple[str, ...]
    target: Callable[[Mapping[str, str]], str]
    is_topic: bool
    check: Callable[[Mapping[str, str]], object]
    open: Callable[[Opened], Sink]


def check_sink_options(format_name: str, options: Mapping[str, str]) -> None:
    """Raises SettingsError for an option that is unknown, missing or wrong."""
    known = FORMATS[format_name]
    names = known.options
    unknown = [] if names is None else [name for name in options if name not in names]
    if names is not None and unknown:
        expected = f"; known are {', '.join(names)}" if names else "; it has none"
        raise SettingsError(
            f"option {unknown[0]} of {format_name} is unknown{did_you_mean(unknown[0], names) or expected}"
        )
    for name in known.required:
        if not options.get(name):
            raise SettingsError(f"{format_name} needs {name}")
    known.check(options)


def target_of(format_name: str, options: Mapping[str, str]) -> str:
    """Where rows go, in words: `the console`, a path, a topic."""
    return FORMATS[format_name].target(options)


class _Console:
    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._shown = _row_count(opened.options)
        self.row_count = 0

    def write(self, frame: DataFrame, batch_id: int) -> None:
        # Kept for the time of two actions: a stateful operator must not run twice in a batch.
        kept = frame.persist()
        try:
            count = kept.count()
            # Arrow keeps the time zone of timestamps; Row would show them in that of this host.
            shown = kept.limit(self._shown).toArrow()
        finally:
            kept.unpersist()
        if count:
            rows = list(zip(*map(python_values, shown.columns), strict=True))
            left_out = f"; the first {len(rows)} of {count} rows" if count > len(rows) else ""
            self._opened.show(f"{self._opened.flow}, batch {batch_id}{left_out}", list(frame.columns), rows)
        self.row_count += count


def _open_topic(opened: Opened) -> Sink:
    if _has_delivery(opened.options):
        from highwater.pipeline.sink.partition_transaction import TopicSink

        return TopicSink(opened.options)
    from highwater.pipeline.sink.batch_transaction import TransactionalSink

    return TransactionalSink(opened.options, progress_name(opened.pipeline, opened.flow))


def _open_table(opened: Opened) -> Sink:
    from highwater.pipeline.database.sink import DatabaseSink

    options = opened.options
    return DatabaseSink(
        options["url"],
        options["table"],
        name=progress_name(opened.pipeline, opened.flow),
        key=_key(options),
        create=_creates(options),
    )


def _open_files(opened: Opened) -> Sink:
    from highwater.pipeline.files.parquet import ParquetSink

    return ParquetSink(opened.options[_PATH], compression=opened.options.get(_COMPRESSION, DEFAULT_CODEC))


def _check_files(options: Mapping[str, str]) -> None:
    check_folder(options[_PATH])
    check_codec(options.get(_COMPRESSION, DEFAULT_CODEC))


def _open_delta(opened: Opened) -> Sink:
    from highwater.pipeline.tables.delta import DeltaSink

    options = opened.options
    return DeltaSink(options[_PATH], name=progress_name(opened.pipeline, opened.flow), create=_creates(options))


def _check_delta(options: Mapping[str, str]) -> None:
    from highwater.pipeline.tables.delta import DeltaPlace  # its library is missed before Spark starts

    DeltaPlace(options[_PATH])
    _creates(options)


def _open_iceberg(opened: Opened) -> Sink:
    from highwater.pipeline.tables.iceberg import IcebergSink

    options = opened.options
    return IcebergSink(
        _catalog(options),
        options["table"],
        name=progress_name(opened.pipeline, opened.flow),
        create=_creates(options),
    )


def _check_iceberg(options: Mapping[str, str]) -> None:
    from highwater.pipeline.tables.iceberg import IcebergPlace

    known = ("table", "create")
    if unknown := [name for name in options if name not in known and not name.startswith(CATALOG)]:
        raise SettingsError(
            f"option {unknown[0]} of iceberg is unknown"
            f"{did_you_mean(unknown[0], known) or f'; known are table, create and {CATALOG}NAME'}"
        )
    IcebergPlace(_catalog(options), options["table"])
    _creates(options)


def _catalog(options: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(CATALOG): value for name, value in options.items() if name.startswith(CATALOG)}


def _key(options: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in options.get("key", "").split(",") if name.strip()]


def _creates(options: Mapping[str, str]) -> bool:
    text = options.get("create", "false")
    if text not in ("true", "false"):
        raise SettingsError(f"create={text} is neither true nor false")
    return text == "true"


def _check_table(options: Mapping[str, str]) -> None:
    read_address(options["url"])
    _creates(options)


def progress_name(pipeline: str, flow: str) -> str:
    """Under which a sink keeps what it has written; `resumeFrom` takes it."""
    return f"{pipeline}.{flow}"


def _check_topic(options: Mapping[str, str]) -> None:
    if "path" in options:
        raise SettingsError("a topic has no path; set the option topic")
    read_sink_options(options)


def _has_delivery(options: Mapping[str, str]) -> bool:
    """Whether a delivery is set; without one, a batch is one transaction."""
    return any(name.lower() == _DELIVERY for name in options)


def with_transactional_ids(options: Mapping[str, str], name: str) -> dict[str, str]:
    """The options of a topic with a name for transactional ids, if the delivery needs one and the options have none."""
    given = {each.lower(): value for each, value in options.items()}
    is_needed = given.get(_DELIVERY, "").strip().lower() == EXACTLY_ONCE
    if not is_needed or _TRANSACTIONAL_ID_PREFIX.lower() in given:
        return dict(options)
    return {**options, _TRANSACTIONAL_ID_PREFIX: name}


def _promise_of_topic(options: Mapping[str, str]) -> str:
    if not _has_delivery(options):
        return "exactly once: a batch is one transaction, for readers of committed records"
    if read_sink_options(options).delivery == EXACTLY_ONCE:
        return "exactly once if the query is deterministic: a task's part of a batch is one transaction"
    return "at least once: after a crash rows of a batch can be there twice"


class _Noop:
    row_count = None

    def write(self, frame: DataFrame, batch_id: int) -> None:
        frame.write.format("noop").mode("overwrite").save()


CATALOG: Final = "catalog."
"""The prefix of options that are properties of an Iceberg catalog."""
_CONSOLE: Final = "console"
_ROW_COUNT: Final = "numRows"
_DEFAULT_ROW_COUNT: Final = "20"
_PATH: Final = "path"
_COMPRESSION: Final = "compression"
_DELIVERY: Final = "delivery"
_TRANSACTIONAL_ID_PREFIX: Final = "transactionalIdPrefix"


def _row_count(options: Mapping[str, str]) -> int:
    text = options.get(_ROW_COUNT, _DEFAULT_ROW_COUNT)
    if not text.isdecimal() or not int(text):
        raise SettingsError(f"{_ROW_COUNT}={text} is not a positive whole number")
    return int(text)


FORMATS: Final[Mapping[str, SinkFormat]] = {
    _CONSOLE: SinkFormat(
        delivery=lambda _: "at least once: after a crash a batch can be shown again",
        options=(_ROW_COUNT,),
        required=(),
        target=lambda _: "the console",
        is_topic=False,
        check=_row_count,
        open=_Console,
    ),
    TOPIC_FORMAT: SinkFormat(
        delivery=_promise_of_topic,
        options=None,
        required=("topic",),
        target=lambda options: f"topic {options['topic']}",
        is_topic=True,
        check=_check_topic,
        open=_open_topic,
    ),
    DATABASE_FORMAT: SinkFormat(
        delivery=lambda _: "exactly once: rows and progress are stored in one transaction",
        options=("url", "table", "key", "create"),
        required=("url", "table"),
        target=lambda options: f"table {options['table']} of {read_address(options['url']).shown}",
        is_topic=False,
        check=_check_table,
        open=_open_table,
    ),
    PARQUET_FORMAT: SinkFormat(
        delivery=lambda _: "exactly once: a batch is one folder of files, which appears as a whole",
        options=(_PATH, _COMPRESSION),
        required=(_PATH,),
        target=lambda options: f"files in {options[_PATH]}",
        is_topic=False,
        check=_check_files,
        open=_open_files,
    ),
    DELTA_FORMAT: SinkFormat(
        delivery=lambda _: "exactly once: rows and progress are one commit of the table",
        options=(_PATH, "create"),
        required=(_PATH,),
        target=lambda options: f"Delta table {options[_PATH]}",
        is_topic=False,
        check=_check_delta,
        open=_open_delta,
    ),
    ICEBERG_FORMAT: SinkFormat(
        delivery=lambda _: "exactly once: rows and progress are one commit of the table",
        options=None,
        required=("table",),
        target=lambda options: f"Iceberg table {options['table']}",
        is_topic=False,
        check=_check_iceberg,
        open=_open_iceberg,
    ),
    "noop": SinkFormat(
        delivery=lambda _: "nothing is kept",
        options=(),
        required=(),
        target=lambda _: "nowhere",
        is_topic=False,
        check=lambda _: None,
        open=lambda _: _Noop(),
    ),
}
