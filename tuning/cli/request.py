"""The input of plan, apply and verify: host, workload, knobs and options, from the command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
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
from .options import THIS_HOST, accepted_risks, chosen_knobs, facts_of, workload_of


@dataclass(frozen=True)
class TuningRequest:
    """A host, and the knobs to set on it."""

    facts: Facts
    workload: Workload
    knobs: tuple[Knob, ...]
    options: PlanOptions
    arguments: str
    """The options that make the same request, for a shell; empty, or with a space in front."""

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
    arguments = _arguments(
        {
            "--profile": None if profile == "recommended" else [profile],
            "--only": only,
            "--skip": skip,
            "--accept-risk": accept_risk,
            "--data-dir": data_dir,
            "--workload": workload,
            "--broker-config": None if broker_config is None else [str(broker_config)],
            "--unit": unit,
            "--login": login,
            "--keep-swap": keep_swap,
            "--now-only": now_only,
            "--root": None if root == THIS_HOST else [str(root)],
        }
    )
    return TuningRequest(facts, inputs, knobs, options, arguments)


def _arguments(given: Mapping[str, Sequence[str] | bool | None]) -> str:
    words: list[str] = []
    for option, values in given.items():
        if isinstance(values, bool):
            words += [option] if values else []
        else:
            words += [word for value in values or () for word in (option, value)]
    return "".join(f" {shlex.quote(word)}" for word in words)
