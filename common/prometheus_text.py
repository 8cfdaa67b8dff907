"""Prometheus' text format (version 0.0.4), for pages whose values are gauges and counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    _samples: list[str] = field(default_factory=list)
    """As lines, which are smaller than labels and values; a page may have a hundred thousand."""

    def add(self, value: float | None, **labels: object) -> None:
        """What is not known has no sample: 0 would be a lie, and NaN breaks sums."""
        if value is not None:
            self._samples.append(f"{self.name}{labels_text(labels)} {_number(value)}\n")

    @property
    def text(self) -> str:
        """Empty without samples."""
        if not self._samples:
            return ""
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n{''.join(self._samples)}"


def page_of(families: Iterable[Family]) -> str:
    """Families without samples are left out."""
    return "".join(family.text for family in families)


def labels_text(labels: Labels) -> str:
    """`{name="value",…}`, escaped; empty without labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
