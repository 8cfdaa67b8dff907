"""`highwater tune …`: mounts the verbs, one module each."""

from __future__ import annotations

import typer

from . import check, explain, profiles, rollback
from .exit_codes import SUMMARY

app = typer.Typer(
    no_args_is_help=True,
    help=f"What this host is, what it should be and why, the change, its proof and the way back.\n\n{SUMMARY}",
)
for verb in (check.check, explain.explain, profiles.profiles, rollback.rollback):
    app.command()(verb)
