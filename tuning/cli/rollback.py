"""`highwater tune rollback`: take back what is ours."""

from __future__ import annotations

from pathlib import Path

import typer

from .options import RootOption, facts_of, mistakes_in_one_line


def rollback(root: RootOption = Path("/")) -> None:
    """Take back the host profile that a killed benchmark left in force.

    Exit code: 0 restored or nothing to restore, 2 the host cannot be restored or a living run holds the profile.
    """
    from tuning.profile_session import recover

    with mistakes_in_one_line():
        restored = [change for change in recover(facts_of(root).files) if change.before != change.after]
    for change in restored:
        typer.echo(f"{change.name} = {change.before}")
    if not restored:
        typer.echo("no host profile is in force")
