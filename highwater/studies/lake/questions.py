"""The questions that come with Highwater: SQL files with parameters and a sentence as answer.

The head of a file consists of comments: `title`, `param NAME (KIND) = DEFAULT: MEANING` (without a default it must be
given; `none` is no value), `answer: SENTENCE` (and before it `answer if first.COLUMN = VALUE: SENTENCE`),
`nothing: SENTENCE` for a result without rows, and `then: STEP` for a function that turns the rows of the SQL into those
of the answer. `pool NAME by COLUMN, …: 99.9, …` stands before a SELECT of these columns, `buckets` and `counts`, which
ends with a semicolon: the SELECT behind it finds, as table NAME, a row for each combination of the columns, with count
and percentiles of all histograms together (`p99_9_ns`). An engine adds histograms up piece by piece.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from highwater.common.nearest import did_you_mean
from highwater.common.quantities import DURATION, parse_percent
from highwater.results.metrics import metric

_FOLDER: Final = Path(__file__).parent / "questions"
_HEAD: Final = re.compile(r"-- (?P<what>title|answer|nothing|then|param)\b(?P<about>[^:]*): (?P<text>.*)")
_POOL: Final = re.compile(r"-- pool (?P<name>[a-z_]\w*) by (?P<by>\w+(?:, \w+)*): (?P<percentiles>[\d.]+(?:, [\d.]+)*)")
_PARAMETER: Final = re.compile(r" (?P<name>\w+)(?: \((?P<kind>\w+)\))?(?: = (?P<default>.+))?")
_CONDITION: Final = re.compile(r" if first\.(?P<column>\w+) = (?P<value>.+)")
_NO_VALUE: Final = "none"
# Parameters that name a metric.
_METRICS: Final = frozenset({"metric", "objective", "best"})

Value = str | float | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a question. `default` is None if it must be given."""

    name: str
    kind: str
    default: str | None
    meaning: str

    def value_of(self, text: str) -> Value:
        """What SQL gets. Raises UsageError for a text that is none of its kind."""
        if text == _NO_VALUE:
            return None
        try:
            if self.name in _METRICS:
                return metric(text).name
            match self.kind:
                case "duration":
                    return float(DURATION.integer(text))
                case "percent":
                    return parse_percent(text)
                case "date":
                    return date.fromisoformat(text).isoformat()
        except ValueError as error:
            raise UsageError(f"--param {self.name}: {error}") from None
        return text


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with {fields}; with a condition, only if the first row has this value in that column."""

    text: str
    column: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """A table of pooled histograms. `sql`: a SELECT of the columns `by`, `buckets` and `counts`."""

    name: str
    by: tuple[str, ...]
    percentiles: tuple[float, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class SqlQuestion:
    """A question as it stands in its file."""

    name: str
    title: str
    parameters: tuple[Parameter, ...]
    answers: tuple[Sentence, ...]
    nothing: str
    then: str | None
    sql: str
    pools: tuple[Pool, ...] = ()

    def texts(self, given: Mapping[str, str]) -> dict[str, str]:
        """Every parameter as text: what was given, else its default. Raises UsageError."""
        known = [parameter.name for parameter in self.parameters]
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
                raise UsageError(f"{self.name} has no parameter {name}{hint}")
        missing = [item for item in self.parameters if item.default is None and item.name not in given]
        if missing:
            name = missing[0].name
            raise UsageError(f"{self.name} needs {missing[0].meaning}: --param {name}={name.upper()}")
        return {item.name: given.get(item.name, item.default or "") for item in self.parameters}

    def is_metric(self, parameter: str) -> bool:
        """Whether a parameter of this question names a metric."""
        return parameter in _METRICS and bool(self.title)

    def values(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """The parameters for SQL. Raises UsageError."""
        return {item.name: item.value_of(texts[item.name]) for item in self.parameters}


@cache
def questions() -> Mapping[str, SqlQuestion]:
    """Every question by its short name: Q1, Q2, …"""
    found = [question_of(path.stem, path.read_text("utf-8")) for path in sorted(_FOLDER.glob("*.sql"))]
    return {question.name: question for question in found}


def question_named(name: str) -> SqlQuestion:
    """Q3, q3 or noise-by-host. Raises UsageError with the nearest name."""
    known = questions()
    number = re.fullmatch(r"[qQ]?(\d+)", name)
    short = f"Q{number[1].lstrip('0')}" if number is not None else name
    by_words = {path.stem.partition("-")[2]: f"Q{int(path.stem[1:3])}" for path in _FOLDER.glob("*.sql")}
    found = known.get(by_words.get(short, short))
    if found is None:
        hint = did_you_mean(name, [*by_words, *known])
        raise UsageError(f"{name} is not a question{hint or '; highwater bench lake query --list shows them'}")
    return found


def question_of(stem: str, text: str) -> SqlQuestion:
    """Read a file. Raises ValueError for a head that is none."""
    titles, nothing, then = [], [], []
    parameters, answers = [], []
    for line in text.splitlines():
        match = _HEAD.fullmatch(line)
        if match is None:
            continue
        about, said = match["about"], match["text"]
        match match["what"]:
            case "title":
                titles.append(said)
            case "nothing":
                nothing.append(said)
            case "then":
                then.append(said)
            case "answer":
                condition = _CONDITION.fullmatch(about)
                if about and condition is None:
                    raise ValueError(f"{stem}: {about.strip()} is not a condition")
                answers.append(Sentence(said, condition["column"], condition["value"]) if condition else Sentence(said))
            case "param":
                named = _PARAMETER.fullmatch(about)
                if named is None:
                    raise ValueError(f"{stem}: {about.strip()} is not a parameter")
                parameters.append(Parameter(named["name"], named["kind"] or "text", named["default"], said))
    (title,), (no_rows,) = _only(titles), _only(nothing)
    pools, sql = pools_in(text)
    return SqlQuestion(
        f"Q{int(stem[1:3])}", title, tuple(parameters), tuple(answers), no_rows, then[0] if then else None, sql, pools
    )


def pools_in(text: str) -> tuple[tuple[Pool, ...], str]:
    """The pools of a statement, and the statement behind them. Raises ValueError for one without its semicolon."""
    pools = []
    while (head := _POOL.search(text)) is not None:
        sql, semicolon, text = text[head.end() :].partition(";")
        if not semicolon:
            raise ValueError(f"the SELECT of pool {head['name']} must end with a semicolon")
        percentiles = tuple(map(float, head["percentiles"].split(", ")))
        pools.append(Pool(head["name"], tuple(head["by"].split(", ")), percentiles, sql))
    return tuple(pools), text


def _only(found: Sequence[str]) -> Sequence[str]:
    if len(found) != 1:
        raise ValueError(f"one line was expected, and there are {len(found)}")
    return found
