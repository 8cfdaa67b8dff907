"""The command group `highwater tune`: one module for each verb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import typer

from . import apply, check, explain, facts, listing, plan, profiles, rollback, schema, sizing, status, verify, waits

_EXIT_CODES: Final = (
    "Exit codes: 0 as wanted, or done; 1 something differs; 2 a mistake in the call, or refused with nothing changed; "
    "3 failed part-way, highwater tune rollback restores what was there before; 130 interrupted."
)

app = typer.Typer(
    no_args_is_help=True,
    help=f"Inspect, check, change, verify and roll back the settings of a broker's host.\n\n{_EXIT_CODES}",
)


def paragraphs(verb: Callable[..., None]) -> str:
    """The docstring with each paragraph on one line; the terminal wraps it."""
    return "\n\n".join(" ".join(part.split()) for part in (verb.__doc__ or "").split("\n\n"))


app.command("list", help=paragraphs(listing.list_knobs))(listing.list_knobs)
for verb in (
    facts.facts,
    check.check,
    plan.plan,
    apply.apply,
    verify.verify,
    status.status,
    rollback.rollback,
    explain.explain,
    profiles.profiles,
    sizing.sizing,
    waits.waits,
    schema.schema,
):
    app.command(help=paragraphs(verb))(verb)
