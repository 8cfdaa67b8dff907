"""The sinks of a flow by name: what each promises, its options, how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from highwater.common.nearest import did_you_mean
from highwater.pipeline.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sink(Protocol):
    """Writes micro-batches."""

    def write(self, frame: DataFrame, batch_id: int) -> object:
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
    """delivery: what is promised, for people. target: the option that says where rows go, or a text without one."""

    delivery: str
    options: tuple[str, ...]
    required: tuple[str, ...]
    target: str
    is_topic: bool
    open: Callable[[Opened], Sink]


def check_sink_options(format_name: str, options: Mapping[str, str]) -> None:
    """Raises SettingsError for an option that is unknown, missing or wrong."""
    known = FORMATS[format_name]
    for name in options:
        if name not in known.options:
            expected = f"; known are {', '.join(known.options)}" if known.options else "; it has none"
            raise SettingsError(
                f"option {name} of {format_name} is unknown{did_you_mean(name, known.options) or expected}"
            )
    for name in known.required:
        if not options.get(name):
            raise SettingsError(f"{format_name} needs {name}")
    if format_name == _CONSOLE:
        _row_count(options)


def target_of(format_name: str, options: Mapping[str, str]) -> str:
    """Where rows go, in words: `the console`, a path, a topic."""
    known = FORMATS[format_name]
    return options.get(known.target, known.target)


class _Console:
    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._shown = _row_count(opened.options)

    def write(self, frame: DataFrame, batch_id: int) -> int:
        # Kept for the time of two actions: a stateful operator must not run twice in a batch.
        kept = frame.persist()
        try:
            count = kept.count()
            # Arrow keeps the time zone of timestamps; Row would show them in that of this host.
            shown = kept.limit(self._shown).toArrow()
        finally:
            kept.unpersist()
        if count:
            rows = list(zip(*(column.to_pylist() for column in shown.columns), strict=True))
            left_out = f"; the first {len(rows)} of {count} rows" if count > len(rows) else ""
            self._opened.show(f"{self._opened.flow}, batch {batch_id}{left_out}", list(frame.columns), rows)
        return count


class _Noop:
    def write(self, frame: DataFrame, batch_id: int) -> None:
        frame.write.format("noop").mode("overwrite").save()


_CONSOLE: Final = "console"
_ROW_COUNT: Final = "numRows"
_DEFAULT_ROW_COUNT: Final = "20"


def _row_count(options: Mapping[str, str]) -> int:
    text = options.get(_ROW_COUNT, _DEFAULT_ROW_COUNT)
    if not text.isdecimal() or not int(text):
        raise SettingsError(f"{_ROW_COUNT}={text} is no positive whole number")
    return int(text)


FORMATS: Final[Mapping[str, SinkFormat]] = {
    _CONSOLE: SinkFormat(
        delivery="at least once: after a crash a batch can be shown again",
        options=(_ROW_COUNT,),
        required=(),
        target="the console",
        is_topic=False,
        open=_Console,
    ),
    "noop": SinkFormat(
        delivery="nothing is kept",
        options=(),
        required=(),
        target="nowhere",
        is_topic=False,
        open=lambda _: _Noop(),
    ),
}
