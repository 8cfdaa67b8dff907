"""Prometheus' text format (version 0.0.4), for pages whose values are gauges and counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = Mapping[str, object]


@dataclass(slots=True)
class Family:
    name: str
    kind: str
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: object) -> None:
        """What is not known has no sample: 0 would be a lie, and NaN breaks sums."""
        if value is not None:
            self.samples.append((labels, value))

    def lines(self) -> Iterator[str]:
        if not self.samples:
            return
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples:
            yield f"{self.name}{labels_text(labels)} {_number(value)}"


def page_of(families: Iterable[Family]) -> str:
    """Families without samples are left out."""
    return "".join(f"{line}\n" for family in families for line in family.lines())


def labels_text(labels: Labels) -> str:
    """`{name="value",…}`, escaped; empty without labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
