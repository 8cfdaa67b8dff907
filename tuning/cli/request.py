"""The input of plan, apply and verify: host, workload, knobs and options, from the command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..change_status import original_texts
from ..errors import TuningError
from ..facts.model import Facts
from ..model import Knob
from ..planning import make_plan
from ..planning.draft import PlanOptions
from ..profiles import find_profile, knobs_of
from ..steps import TuningPlan
from ..workload import Workload
from .options import THIS_HOST, ChangeOptions, accepted_risks, chosen_knobs, facts_of, workload_of


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


def tuning_request(given: ChangeOptions) -> TuningRequest:
    """Raises TuningError for an invalid option, and for a damaged journal."""
    inputs = workload_of(given.data_dir, given.workload, given.broker_config, given.unit)
    chosen = chosen_knobs(given.only, given.skip)
    accepted = accepted_risks(given.accept_risk)
    knobs = knobs_of(find_profile(given.profile), chosen)
    if not knobs:
        ids = ", ".join(knob.id for knob in chosen)
        raise TuningError(f"profile {given.profile} does not set {ids}; name another profile or another knob")
    facts = facts_of(given.root)
    options = PlanOptions(
        named=frozenset(given.only or ()),
        accepted=accepted,
        persist=not given.now_only,
        login_domains=tuple(given.login or ()),
        keep_swap=given.keep_swap,
        original_texts=original_texts(facts.files),
    )
    arguments = _arguments(
        {
            "--profile": None if given.profile == "recommended" else [given.profile],
            "--only": given.only,
            "--skip": given.skip,
            "--accept-risk": given.accept_risk,
            "--data-dir": given.data_dir,
            "--workload": given.workload,
            "--broker-config": None if given.broker_config is None else [str(given.broker_config)],
            "--unit": given.unit,
            "--login": given.login,
            "--keep-swap": given.keep_swap,
            "--now-only": given.now_only,
            "--root": None if given.root == THIS_HOST else [str(given.root)],
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
