"""`highwater tune schema VERB`: print the JSON Schema of a verb's --json output."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from ..errors import TuningError, nearest_match
from ..proofs import ProveDocument
from . import apply, check, explain, facts, listing, plan, profiles, rollback, sizing, status, verify, waits
from .documents import json_schema
from .options import errors_in_one_line

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
"""The document that each verb prints with --json."""
LIVE_DOCUMENTS: Final[dict[str, type]] = {"prove": ProveDocument, "waits": waits.WaitsDocument}
"""Documents of verbs that watch the running host, and read no captured tree."""


def schema(verb: Annotated[str, typer.Argument(metavar="VERB", help="A verb that has --json, such as plan.")]) -> None:
    """Print the JSON Schema (draft 2020-12) of a verb's --json output.

    Exit codes: 0, or 2 for an unknown verb.
    """
    known = DOCUMENTS | LIVE_DOCUMENTS
    with errors_in_one_line():
        if verb not in known:
            raise TuningError(f"no schema of {verb!r}{nearest_match(verb, known)} (known: {', '.join(known)})")
    typer.echo(json.dumps(json_schema(known[verb]), indent=2))
