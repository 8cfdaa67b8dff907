"""Prometheus' text format (version 0.0.4), for pages whose values are gauges and counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
_LINES_OF_A_PIECE: Final = 500
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = Mapping[str, object]
Row = TypeVar("Row")


@dataclass(slots=True)
class Family:
    name: str
    kind: str
    help: str
    _samples: list[str] = field(default_factory=list)
    """Samples as lines, which are smaller than labels and values; a page may have a hundred thousand."""

    def add(self, value: float | None, **labels: object) -> None:
        """What is not known has no sample: 0 would be a lie, and NaN breaks sums."""
        if value is not None:
            self._samples.append(sample(self.name, labels, value))

    @property
    def text(self) -> str:
        """Empty without samples."""
        return f"{head(self.name, self.kind, self.help)}{''.join(self._samples)}" if self._samples else ""

    def pieces(self) -> Iterator[str]:
        if text := self.text:
            yield text


@dataclass(frozen=True, slots=True)
class LargeFamily:
    """A family with too many samples to have them all in memory: they are made while the page is written."""

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[float | None, Labels]]
    """What is not known has no sample."""

    def pieces(self) -> Iterator[str]:
        """Its text in pieces of some ten kilobytes; none without samples."""
        lines = [head(self.name, self.kind, self.help)]
        is_empty = True
        for value, labels in self.samples:
            if value is not None:
                lines.append(sample(self.name, labels, value))
                is_empty = False
                if len(lines) >= _LINES_OF_A_PIECE:
                    yield "".join(lines)
                    lines.clear()
        if lines and not is_empty:
            yield "".join(lines)


@dataclass(frozen=True, slots=True)
class Samples(Generic[Row]):
    """Makes large families that have a sample for each row."""

    rows: Callable[[], Iterable[Row]]
    """Called once for each family."""
    labels: Callable[[Row], Labels]

    def gauge(self, name: str, help_text: str, read: Callable[[Row], float | None]) -> LargeFamily:
        return self._family(name, GAUGE, help_text, read)

    def counter(self, name: str, help_text: str, read: Callable[[Row], float | None]) -> LargeFamily:
        return self._family(name, COUNTER, help_text, read)

    def _family(self, name: str, kind: str, help_text: str, read: Callable[[Row], float | None]) -> LargeFamily:
        return LargeFamily(name, kind, help_text, ((read(row), self.labels(row)) for row in self.rows()))


def page_of(families: Iterable[Family]) -> str:
    """Families without samples are left out."""
    return "".join(family.text for family in families)


def labels_text(labels: Labels) -> str:
    """`{name="value",…}`, escaped; empty without labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def head(name: str, kind: str, help_text: str) -> str:
    """The lines before the samples of a family."""
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"


def sample(name: str, labels: Labels, value: float) -> str:
    """The line of a sample."""
    return f"{name}{labels_text(labels)} {number_text(value)}\n"


def number_text(value: float) -> str:
    """Whole numbers in full, others with 15 digits, all of which are right (0.3, and not 0.30000000000000004)."""
    return str(int(value)) if value % 1 == 0 else f"{value:.15g}"
