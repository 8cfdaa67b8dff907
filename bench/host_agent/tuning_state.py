"""The tuning of this host: fingerprint, what was applied, and what is no longer as applied."""

from __future__ import annotations

from highwater.common.host_answer import Drift, Tuning
from highwater.tuning.change_status import interrupted
from highwater.tuning.check import evaluate
from highwater.tuning.errors import TuningError
from highwater.tuning.facts.model import Facts
from highwater.tuning.fingerprint import fingerprint
from highwater.tuning.in_force import verify_applied
from highwater.tuning.journal import APPLIED, Journal
from highwater.tuning.runner import SystemRunner


def tuning_state(facts: Facts) -> tuple[Tuning, str]:
    """The state, and why a part of it is not known (empty if all is)."""
    of_host, _ = fingerprint(facts)
    try:
        runs = Journal(facts.files, APPLIED).read().runs
        if not runs:
            wanted = sum(report.fate == "changes" for report in evaluate(facts))
            return Tuning(of_host, differs_from_recommended=wanted), ""
        rows = verify_applied(facts, SystemRunner())
        left = interrupted(facts.files)
    except TuningError as error:
        return Tuning(of_host), f"what was applied is not known: {error}"
    drift = tuple(
        Drift(
            parameter=row.parameter,
            target=row.target,
            applied=row.expected,
            now=row.effective or row.actual,
            note="; ".join(row.footnotes),
        )
        for row in rows
        if row.state == "failed"
    )
    return (
        Tuning(
            fingerprint=of_host,
            profile=runs[-1].owner.name,
            applied_utc=runs[-1].utc,
            in_effect=sum(row.state == "effective" for row in rows),
            waiting=sum(row.state == "pending" for row in rows),
            drift=drift,
            interrupted=left,
        ),
        "",
    )
