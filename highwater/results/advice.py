"""advice.json: the answer of `highwater advise`, with the figures that it rests on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from highwater.common.atomic_files import write_atomically
from highwater.results.analysis_file import Better, ComparisonVerdict
from highwater.results.base import Model
from highwater.results.files import ResultDirectoryError, dump, parse_file
from highwater.results.gate import SideEstimate

ADVICE_SCHEMA: Final = "bench.advice/1"
SEARCH: Final = "search"
CONFIRMATION: Final = "confirmation"
SETTINGS: Final = "settings"
ADVISED: Final = "advised"
"""The variant of the best candidate in the confirmation; with two aims there are `advised-2` and so on."""
_FILE: Final = "advice.json"

AdviceOutcome = Literal["better", "nothing_better", "nothing_usable"]
BoundState = Literal["kept", "in_doubt", "broken"]


def own_name(key: str) -> str:
    """A property by its own name: `producers.client.linger.ms` -> `linger.ms`."""
    for prefix in ("producers.client.", "consumers.client.", "topics.config.", "system.config.", "host.settings."):
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key


class AdvisedSetting(Model):
    """One setting that might be touched; `default`: the system's own value."""

    key: str
    in_use: str
    advised: str


class Change(Model):
    """A figure of the advised settings ÷ that of a reference, over trials of the same block."""

    ratio: float
    ci95: tuple[float, float] | None
    delta_ratio: float = Field(description="what as many pairs of the same thing differ by")
    verdict: ComparisonVerdict


class AdvisedFigure(Model):
    """One metric, in the fresh trials of the confirmation."""

    metric: str
    unit: str
    better: Better
    is_aim: bool
    advised: SideEstimate
    in_use: SideEstimate | None
    defaults: SideEstimate | None = Field(description="None if these are in use, or cannot be run")
    against_in_use: Change | None
    against_defaults: Change | None


class BoundOutcome(Model):
    metric: str
    unit: str
    bound: str
    value: float | None = Field(description="median of the fresh trials")
    state: BoundState = Field(description="in_doubt: the interval reaches over the bound, or there is no figure")


class Usability(Model):
    """The number of usable fresh trials, and the check that most of the others failed."""

    trials: int
    usable: int
    check: str = Field(default="", description="empty if none failed a check")
    text: str = Field(default="", description="what one of them said")


class SettingWorth(Model):
    """What one changed setting was worth: the advised settings without it ÷ with it."""

    key: str
    metric: str
    change: Change | None = Field(description="None if nothing can be compared")
    without: Usability


class AdvisedOption(Model):
    """One set of settings that was confirmed; with two aims there are several, of which none is better in both."""

    name: str = Field(description="its variant in the confirmation")
    settings: list[AdvisedSetting]
    figures: list[AdvisedFigure]
    bounds: list[BoundOutcome]
    worth: list[SettingWorth] = Field(default=[], description="empty if there was no time to measure it")
    usability: Usability
    usability_in_use: Usability
    carries: bool = Field(description="its trials are usable where those of the settings in use surely are not")
    carries_beside_defaults: bool = Field(description="the same, beside the defaults")
    better: bool = Field(description="surely better than the settings in use, and advised")
    sentence: str

    @property
    def title(self) -> str:
        """Its variant, which is called `advised` before anybody knows whether it is."""
        return self.name if self.better else self.name.replace(ADVISED, "candidate")


class SearchAccount(Model):
    """What the search did."""

    candidates: int
    trials: int
    unusable_trials: int
    blocks: int
    combinations: int = Field(description="all that the values under touch allow")
    noise_ratio: float | None = Field(description="standard deviation of the first aim from trial to trial")
    best: str = Field(default="", description="the best candidate of a search that confirmed nothing, in words")


class Advice(Model):
    schema_: Literal["bench.advice/1"] = Field(default=ADVICE_SCHEMA, alias="schema")
    name: str
    purpose: str
    question: str = Field(description="the aim and the bounds, in words")
    outcome: AdviceOutcome
    sentence: str = Field(description="the decision")
    notes: list[str] = Field(default=[], description="what stands beside the decision: its price, what matters of it")
    why: list[str]
    would_change: list[str] = Field(description="what would change the decision")
    next_step: str = Field(default="", description="what to do now; how long it takes where it measures")
    options: list[AdvisedOption]
    search: SearchAccount
    confirmation_blocks: int
    created_utc: str
    commands: list[str] = Field(description="show the trials, and repeat the comparison")


def holds_advice(directory: Path) -> bool:
    return (directory / _FILE).is_file()


def write_advice(directory: Path, advice: Advice) -> None:
    write_atomically(directory / _FILE, dump(advice))


def read_advice(directory: Path) -> Advice:
    """Raises ResultDirectoryError when it is missing, damaged, or of a version whose answers had other figures."""
    try:
        return parse_file(Advice, directory / _FILE)
    except ResultDirectoryError as error:
        remedy = f"highwater advise QUESTION --resume {shlex.quote(str(directory))} draws the answer anew"
        raise ResultDirectoryError(f"{error}; {remedy}") from None
