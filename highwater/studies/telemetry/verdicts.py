"""Verdicts: whether an objective was met in a second, given once when the second is closed. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from highwater.studies.telemetry.figures import SecondFigures, TrialFigures
from highwater.studies.telemetry.sums import TrialSums

VERSION: Final = 1
"""The version of the JSON on the topic. A field that is added does not change it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One objective in one second of the measured phase, as it was known when the second was closed.

    value, met: in this second alone; None if nothing was recorded in it. so_far, so_far_met: over all closed seconds of
    the measured phase.
    """

    trial: str
    objective: str
    bound: str
    second: int
    value: float | None
    met: bool | None
    so_far: float | None
    so_far_met: bool | None


def new_verdicts(sums: TrialSums, seconds: Iterable[SecondFigures], figures: TrialFigures) -> list[Verdict]:
    """Verdicts of the seconds that are closed and not among `sums.judged` yet; they are added there."""
    objectives = {one.metric: one for one in figures.objectives if one.live}
    found = []
    for one in seconds:
        if not one.closed or one.phase != "measure" or one.second in sums.judged:
            continue
        sums.judged.add(one.second)
        found += [
            Verdict(
                sums.name,
                metric,
                objective.bound,
                one.second,
                one.objectives[metric],
                one.met[metric],
                objective.value,
                objective.met,
            )
            for metric, objective in objectives.items()
        ]
    return found


def record_of(verdict: Verdict) -> tuple[bytes, bytes]:
    """Key and value on the topic. All verdicts about one objective of one trial have the same key."""
    value = json.dumps({"version": VERSION, **asdict(verdict)}, separators=(",", ":"), allow_nan=False)
    return f"{verdict.trial}/{verdict.objective}".encode(), value.encode()
