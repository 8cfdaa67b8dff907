"""The file of the comparison: every figure that was measured, by cell, so that a cell can be measured again alone."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from highwater.bench.errors import UsageError

SCHEMA: Final = "highwater.comparison/1"
KAFKA: Final = "apache-kafka"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measure(_Model):
    """One figure of a cell."""

    name: str
    title: str
    unit: str


class Aim(_Model):
    """What our figure should be: a ratio to another system's, or, with `against` None, the figure itself."""

    measure: str
    bound: Literal["at least", "at most"]
    value: float
    against: str | None  # `KAFKA` stands for every line of Apache Kafka

    def reached_by(self, value: float) -> bool:
        return value >= self.value if self.bound == "at least" else value <= self.value


class Sample(_Model):
    """One repeat of a cell: the systems in the order in which they ran, and what each showed."""

    repeat: int
    figures: dict[str, dict[str, float]]


class ThrownOut(_Model):
    """A measurement that failed its checks. It counts for nothing, and is told."""

    repeat: int
    system: str
    reason: str


class CellResult(_Model):
    title: str
    how: str
    measures: list[Measure]
    aims: list[Aim]
    measured_at: str
    command: str
    environment: dict[str, str]
    systems: dict[str, str]  # name -> version
    samples: list[Sample]
    thrown_out: list[ThrownOut]

    def values(self, system: str, measure: str) -> list[float]:
        return [sample.figures[system][measure] for sample in self.samples if measure in sample.figures.get(system, {})]

    def ratios(self, system: str, to: str, measure: str) -> list[float]:
        """Of one repeat each, so that what drifts between repeats cancels out."""
        return [
            sample.figures[system][measure] / sample.figures[to][measure]
            for sample in self.samples
            if all(sample.figures.get(name, {}).get(measure) for name in (system, to))
        ]


class Comparison(_Model):
    schema_name: Literal["highwater.comparison/1"] = SCHEMA
    cells: dict[str, CellResult] = {}


class Spread(_Model):
    """A median and what it lies between."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        return cls(median=median(values), least=min(values), most=max(values))


def read(path: Path) -> Comparison:
    """Nothing measured yet is no error. Raises UsageError for a file that is something else."""
    if not path.exists():
        return Comparison()
    try:
        return Comparison.model_validate_json(path.read_bytes())
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{path} is not a comparison of brokers ({reason}); name another --out") from None


def write(path: Path, comparison: Comparison) -> None:
    text = comparison.model_dump_json(indent=1)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text + "\n", "utf-8")
    temporary.replace(path)
