"""The question file of an advisor (`bench.question/1`): aim, bounds, settings to touch, time.

```yaml
schema: bench.question/1
name: latency-at-20k
workload: base.yaml
objective: {least: produce.p99}
constraints: {system.rss_bytes: "<400MiB"}
touch:
  producers.client.linger.ms: {from: 0, to: 20}
  producers.client.batch.size: [16KiB, 64KiB, 256KiB]
in_use: {producers.client.linger.ms: 5}
budget: 30m
```

The workload file describes the system and the load as for `bench run`. It may set the values that are in use.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from highwater.bench.user_paths import expanded
from highwater.bench.workload.complaints import complaint
from highwater.bench.workload.layers import put, read_with_includes
from highwater.bench.workload.metric_bounds import MetricBounds
from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import hint_of_key, location_of_key
from highwater.bench.workload.values import DurationS, KeyFaultError, Part, Properties, Scalar
from highwater.bench.workload.yaml_document import read_document
from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import Document, Location
from highwater.results.bounds import Bound
from highwater.results.metrics import COUNTS_OF_FATES, METRICS, metric
from highwater.studies.advise.durability import LOSSES, Demand, Loss, Trade, lacking, trades_of
from highwater.studies.advise.space import (
    Candidate,
    Setting,
    Space,
    setting_of_list,
    setting_of_range,
    spell,
)

QUESTION_SCHEMA: Final = "bench.question/1"
MOST_SETTINGS: Final = 12
_MOST_AIMS: Final = 2
_SAMPLE: Final = 64
_TOUCHABLE: Final = (
    "producers.client.", "consumers.client.", "topics.config.", "topics.partitions", "system.config.",
    "system.processes", "host.profile", "host.settings.",
)  # fmt: skip
# The rate that an open load offers: no setting changes it as long as the system keeps up.
_THROUGHPUT: Final = ("produce.achieved_per_s", "produce.achieved_bytes_per_s", "consume.per_s", "consume.bytes_per_s")


class Aim(Part):
    """What should be least or most: one metric of `highwater bench metrics`."""

    least: str | None = None
    most: str | None = None

    @model_validator(mode="after")
    def _one_metric(self) -> Aim:
        if (self.least is None) == (self.most is None):
            raise ValueError("needs either least: METRIC or most: METRIC")
        key, wanted = ("least", "lower") if self.least is not None else ("most", "higher")
        try:
            definition = metric(self.least or self.most or "")
        except UsageError as error:
            raise KeyFaultError(key, text=str(error)) from None
        name = definition.name
        if definition.better == "none" or name.startswith(COUNTS_OF_FATES):
            raise KeyFaultError(key, text=f"{name} cannot be an aim; a bound on it belongs under constraints")
        if definition.better != wanted:
            other = "most" if key == "least" else "least"
            raise KeyFaultError(key, text=f"{name} is better if it is {definition.better}; write {other}: {name}")
        return self

    @property
    def metric(self) -> str:
        return metric(self.least or self.most or "").name


class Range(Part):
    low: int | str = Field(alias="from")
    high: int | str = Field(alias="to")


class Durability(Part):
    kill: Demand = Field(default="as_in_use", description="acknowledged records when a broker's process is killed")
    power_loss: Demand = Field(default="as_in_use", description="acknowledged records when a host loses its power")

    def demands(self) -> dict[Loss, Demand]:
        return {"kill": self.kill, "power_loss": self.power_loss}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


class Question(Part):
    schema_: Literal["bench.question/1"] = Field(alias="schema")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="letters, digits, '.', '_', '-'")
    purpose: str = Field(default="", pattern=r"^[^\x00-\x1f\x7f]*$")
    workload: str = Field(min_length=1, description="workload file with the system and the load, relative to this file")
    objective: Annotated[
        list[Aim],
        Field(min_length=1, max_length=_MOST_AIMS),
        BeforeValidator(_as_list, json_schema_input_type=Aim | list[Aim]),
    ]
    constraints: MetricBounds = Field(default={}, description="metric -> bound that the answer must keep")
    durability: Durability = Durability()
    touch: dict[str, Any] = Field(min_length=1, max_length=MOST_SETTINGS, description="key -> values, or from and to")
    in_use: Properties = Field(default={}, description="values in use now, laid over the workload file")
    budget_s: DurationS = Field(alias="budget", ge=1, description="time for the search and its confirmation")

    @model_validator(mode="after")
    def _different_aims(self) -> Question:
        names = [aim.metric for aim in self.objective]
        if len(set(names)) < len(names):
            raise KeyFaultError("objective", text=f"{names[0]} is named twice")
        return self


@dataclass(frozen=True)
class Asked:
    """A question that can be asked: its space, its references, and the workload of each candidate."""

    file: Path
    workload_file: Path
    question: Question
    data: dict[str, Any]
    """The workload file with what the question sets: bounds, aims, values in use."""
    space: Space
    locations: Mapping[str, Location]
    in_use: Candidate
    where_of_budget: str
    _workloads: dict[Candidate, Workload] = field(default_factory=dict, repr=False, compare=False)
    _allowed: dict[Candidate, bool] = field(default_factory=dict, repr=False, compare=False)

    @property
    def metrics(self) -> list[str]:
        return [aim.metric for aim in self.question.objective]

    @cached_property
    def bounds(self) -> dict[str, Bound]:
        """Bounds of the workload file and of the question."""
        return dict(self.workload_of(self.in_use).slo)

    @cached_property
    def references(self) -> list[Candidate]:
        """The settings in use; then the defaults, if they differ and can be run."""
        defaults: Candidate = tuple(None for _ in self.space.settings)
        return [self.in_use, *([defaults] if defaults != self.in_use and self._is_possible(defaults) else [])]

    def data_of(self, candidate: Candidate) -> dict[str, Any]:
        data = copy.deepcopy(self.data)
        for key, value in zip(self.space.keys, candidate, strict=True):
            put(data, self.locations[key], value)
        return data

    def workload_of(self, candidate: Candidate) -> Workload:
        """Raises ValidationError for values that cannot go together."""
        if candidate not in self._workloads:
            self._workloads[candidate] = Workload.model_validate(self.data_of(candidate))
        return self._workloads[candidate]

    def allows(self, candidate: Candidate) -> bool:
        """Whether a candidate can be run, and keeps the durability that the question demands."""
        if candidate not in self._allowed:
            self._allowed[candidate] = (
                self._is_possible(candidate)
                and not any(True for _ in lacking(self.workload_of(candidate), self.question.durability.demands()))
                and not any(True for _ in self.weakened_by_defaults(candidate))
            )
        return self._allowed[candidate]

    def weakened_by_defaults(self, candidate: Candidate) -> Iterator[Trade]:
        """What a candidate trades unasked by not setting what is set now: `touch` has no such value to refuse."""
        demands = self.question.durability.demands()
        for key, value, present in zip(self.space.keys, candidate, self.in_use, strict=True):
            if value is None and present is not None:
                trade = trades_of(key, (None,), present)
                if trade is not None and demands[trade.loss] != "may_lose":
                    yield trade

    def identity(self) -> dict[str, Any]:
        """What must not change while a run goes on."""
        asked = self.question.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {**asked, "workload": self.data}

    def _is_possible(self, candidate: Candidate) -> bool:
        try:
            self.workload_of(candidate)
        except ValidationError:
            return False
        return True


def read_question(path: Path) -> Asked:
    """Read a question and its workload file. Raises UsageError with file, line and key."""
    document = read_document(path)
    try:
        question = Question.model_validate(document.data)
    except ValidationError as error:
        location, text = complaint(error, Question)
        raise UsageError(f"{document.origin(location)}: {text}") from None
    workload_file = path.parent / expanded(question.workload)
    base = read_with_includes(workload_file)
    for key in ("variants", "matrix", "exclude", "aims"):
        if base.data.get(key):
            raise UsageError(
                f"{base.origin((key,))}: {key}: a question has cells of its own; name a workload file without {key}"
            )
    locations = {key: _location(key, "touch", document) for key in question.touch}
    in_use_locations = {key: _location(key, "in_use", document) for key in question.in_use}
    for key, value in question.in_use.items():
        put(base.data, in_use_locations[key], value)
    _lay_question(base, question)
    workload = _checked_base(base, question, document)
    settings = [
        _setting(key, question, _at(base.data, locations[key]), locations[key], base, document)
        for key in question.touch
    ]
    in_use: Candidate = tuple(_at(base.data, locations[setting.key]) for setting in settings)
    asked = Asked(
        path,
        workload_file,
        question,
        base.data,
        Space(tuple(settings)),
        locations,
        in_use,
        document.origin(("budget",)),
    )
    _check_aims(question, workload, document)
    _check_durability(asked, document)
    _check_possible(asked, document)
    return asked


def _location(key: str, section: str, document: Document) -> Location:
    where = document.origin((section, key))
    location = location_of_key(key)
    if location is None:
        raise UsageError(f"{where}: {section}: {key} is not a setting; {hint_of_key(key)}")
    if not key.startswith(_TOUCHABLE):
        raise UsageError(
            f"{where}: {section}: {key} belongs to the question, not to its answer; settings are those of clients, "
            "topics, brokers and the host (producers.client.…, topics.config.…, system.config.…, host.settings.…)"
        )
    return location


def _lay_question(base: Document, question: Question) -> None:
    """What the question sets in the workload: bounds, and aims that must be measured."""
    slo = base.data.setdefault("slo", {})
    if isinstance(slo, dict):
        slo.update({name: str(bound) for name, bound in question.constraints.items()})
    base.data["answer"] = {"best": [aim.metric for aim in question.objective]}
    trials = base.data.get("trials")
    kept = {key: trials[key] for key in ("seed",) if key in trials} if isinstance(trials, dict) else {}
    base.data["trials"] = kept


def _checked_base(base: Document, question: Question, document: Document) -> Workload:
    try:
        return Workload.model_validate(base.data)
    except ValidationError as error:
        location, text = complaint(error)
        match location:
            case ("answer", *_):
                raise UsageError(f"{document.origin(('objective',))}: objective: {text.partition(': ')[2]}") from None
            case ("slo", str(name)) if name in question.constraints:
                where = document.origin(("constraints",))
                raise UsageError(f"{where}: constraints.{text.removeprefix('slo.')}") from None
        raise UsageError(f"{base.origin(location)}: {text}") from None


def _setting(
    key: str, question: Question, in_use: Scalar | None, location: Location, base: Document, document: Document
) -> Setting:
    where, given = document.origin(("touch", key)), question.touch[key]
    try:
        if isinstance(given, dict):
            wanted = Range.model_validate(given)
            setting = setting_of_range(key, wanted.low, wanted.high, in_use)
        elif isinstance(given, list) and given and all(isinstance(value, str | int | float) for value in given):
            setting = setting_of_list(key, given, in_use)
        else:
            raise ValueError(f"{given!r} is neither a list of values nor a range {{from: 1, to: 8}}")
    except ValidationError as error:
        raise UsageError(f"{where}: touch.{key}: {complaint(error, Range)[1]}") from None
    except ValueError as error:
        raise UsageError(f"{where}: touch.{key}: {error}") from None
    if len(setting.values) < 2:
        raise UsageError(f"{where}: touch.{key}: has one value, which is in use; give it others, or remove it")
    for value in setting.values:
        data = copy.deepcopy(base.data)
        put(data, location, value)
        try:
            Workload.model_validate(data)
        except ValidationError as error:
            place, text = complaint(error)
            if place[: len(location)] == location:
                raise UsageError(f"{where}: touch.{text}") from None
            # Of the whole mapping of properties. Faults elsewhere may go away with the values of other settings.
            if len(place) > 1 and location[: len(place)] == place:
                raise UsageError(f"{where}: touch.{key}: {text.partition(': ')[2]}") from None
    return setting


def _at(data: Mapping[str, Any], location: Location) -> Scalar | None:
    found: Any = data
    for part in location:
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, str | int | float | bool) else None


def _check_aims(question: Question, workload: Workload, document: Document) -> None:
    where = document.origin(("objective",))
    for aim in question.objective:
        if aim.metric in _THROUGHPUT and workload.load.steps:
            raise UsageError(
                f"{where}: objective: {aim.metric} is what an open load offers, whatever the settings; let the "
                "workload say load: {model: closed}, with the bound on the latency under constraints"
            )
        if aim.metric in question.constraints:
            raise UsageError(f"{where}: objective: {aim.metric} is an aim and a constraint; keep one of them")
        assert METRICS[aim.metric].better != "none"


def _check_durability(asked: Asked, document: Document) -> None:
    """Raises UsageError for settings that trade durability unasked, and for demands that no candidate keeps."""
    demands = asked.question.durability.demands()
    present = dict(zip(asked.space.keys, asked.in_use, strict=True))
    for setting in asked.space.settings:
        trade = trades_of(setting.key, setting.values, present[setting.key])
        if trade is None or demands[trade.loss] == "may_lose":
            continue
        weaker = ", ".join(map(spell, trade.values))
        left = "" if len(trade.values) < len(setting.values) else "; no other value is left"
        raise UsageError(
            f"{document.origin(('touch', setting.key))}: touch.{setting.key}: {weaker} weakens durability: {trade.cost}"
            f"{left}. Remove {'it' if len(trade.values) == 1 else 'them'}, or accept the loss with "
            f"durability: {{{trade.loss}: may_lose}}"
        )
    for loss, needed in _unattainable(asked, demands):
        where = document.origin(("durability", loss))
        raise UsageError(
            f"{where}: durability.{loss}: kept needs {needed}, which neither the values in use nor any value "
            "under touch has; set it, or demand less"
        )


def _check_possible(asked: Asked, document: Document) -> None:
    """Raises UsageError when no combination can be run, as far as a sample of them shows it."""
    chance = random.Random(0)
    for _ in range(_SAMPLE):
        drawn = asked.space.at([chance.randrange(len(setting.values)) for setting in asked.space.settings])
        if asked.allows(drawn):
            return
    if not any(asked.allows(candidate) for candidate in _corners(asked) if candidate != asked.in_use):
        raise UsageError(
            f"{document.origin(('touch',))}: touch: no combination of these values can be run and keeps the durability "
            "that is demanded; give other values"
        )


def _unattainable(asked: Asked, demands: Mapping[Loss, Demand]) -> Iterator[tuple[Loss, str]]:
    """What every combination of the guarded settings lacks, as far as a value in each of them decides it."""
    if not any(demands[loss] == "kept" for loss in LOSSES):
        return
    lacks: dict[tuple[Loss, str], None] = {}
    for index, candidate in enumerate(_corners(asked)):
        try:
            found = dict.fromkeys(lacking(asked.workload_of(candidate), demands))
        except ValidationError:
            continue
        lacks = found if not index else {item: None for item in lacks if item in found}
        if not lacks:
            return
    yield from lacks


def _corners(asked: Asked) -> Iterator[Candidate]:
    """The settings in use, and each of them with one setting changed, in every way."""
    yield asked.in_use
    for place, setting in enumerate(asked.space.settings):
        for value in setting.values:
            yield (*asked.in_use[:place], value, *asked.in_use[place + 1 :])
