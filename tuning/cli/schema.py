"""`highwater tune schema VERB`: the JSON Schema of what a verb prints with --json."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..errors import TuningError, nearest_match
from .documents import json_schema
from .options import mistakes_in_one_line


def schema(verb: Annotated[str, typer.Argument(metavar="VERB", help="A verb that has --json, such as plan.")]) -> None:
    """Print the JSON Schema (draft 2020-12) of what a verb prints with --json.

    Exit codes: 0, or 2 for a verb that there is none of.
    """
    from . import DOCUMENTS, GUEST_DOCUMENTS

    known = DOCUMENTS | GUEST_DOCUMENTS
    with mistakes_in_one_line():
        if verb not in known:
            raise TuningError(f"no schema of {verb!r}{nearest_match(verb, known)} (known: {', '.join(known)})")
    typer.echo(json.dumps(json_schema(known[verb]), indent=2))
