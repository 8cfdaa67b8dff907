"""`highwater tune schema VERB`: the JSON Schema of what a verb prints with --json."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from ..errors import TuningError, nearest_match
from ..proofs import ProveDocument
from . import apply, check, explain, facts, listing, plan, profiles, rollback, sizing, status, verify
from .documents import json_schema
from .options import mistakes_in_one_line

DOCUMENTS: Final[dict[str, type]] = {
    "list": listing.ListDocument,
    "facts": facts.FactsDocument,
    "check": check.CheckDocument,
    "plan": plan.PlanDocument,
    "apply": apply.ApplyDocument,
    "verify": verify.VerifyDocument,
    "status": status.StatusDocument,
    "rollback": rollback.RollbackDocument,
    "explain": explain.ExplainDocument,
    "profiles": profiles.ProfilesDocument,
    "sizing": sizing.SizingDocument,
}
"""Of each verb that has --json: what it prints."""
GUEST_DOCUMENTS: Final[dict[str, type]] = {"prove": ProveDocument}
"""Of verbs that the front door mounts beside these."""


def schema(verb: Annotated[str, typer.Argument(metavar="VERB", help="A verb that has --json, such as plan.")]) -> None:
    """Print the JSON Schema (draft 2020-12) of what a verb prints with --json.

    Exit codes: 0, or 2 for a verb that there is none of.
    """
    known = DOCUMENTS | GUEST_DOCUMENTS
    with mistakes_in_one_line():
        if verb not in known:
            raise TuningError(f"no schema of {verb!r}{nearest_match(verb, known)} (known: {', '.join(known)})")
    typer.echo(json.dumps(json_schema(known[verb]), indent=2))
