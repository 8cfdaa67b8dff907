"""The input of plan, apply and verify: host, workload, knobs and options, from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..change_status import original_texts
from ..errors import TuningError
from ..facts import Facts
from ..model import Knob
from ..planning import PlanOptions, make_plan
from ..profiles import find_profile, knobs_of
from ..steps import TuningPlan
from ..workload import Workload
from .options import accepted_risks, chosen_knobs, facts_of, workload_of


@dataclass(frozen=True)
class TuningRequest:
    """A host, and the knobs to set on it."""

    facts: Facts
    workload: Workload
    knobs: tuple[Knob, ...]
    options: PlanOptions

    def plan(self) -> TuningPlan:
        return make_plan(self.facts, self.workload, self.knobs, self.options)


def tuning_request(
    *,
    root: Path,
    profile: str,
    only: list[str] | None,
    skip: list[str] | None,
    accept_risk: list[str] | None,
    data_dir: list[str] | None,
    workload: list[str] | None,
    broker_config: Path | None,
    unit: list[str] | None,
    login: list[str] | None = None,
    keep_swap: bool = False,
    now_only: bool = False,
) -> TuningRequest:
    """Raises TuningError for an invalid option, and for a damaged journal."""
    inputs = workload_of(data_dir, workload, broker_config, unit)
    chosen = chosen_knobs(only, skip)
    accepted = accepted_risks(accept_risk)
    knobs = knobs_of(find_profile(profile), chosen)
    if not knobs:
        ids = ", ".join(knob.id for knob in chosen)
        raise TuningError(f"profile {profile} does not set {ids}; name another profile or another knob")
    facts = facts_of(root)
    options = PlanOptions(
        named=frozenset(only or ()),
        accepted=accepted,
        persist=not now_only,
        login_domains=tuple(login or ()),
        keep_swap=keep_swap,
        original_texts=original_texts(facts.files),
    )
    return TuningRequest(facts, inputs, knobs, options)
