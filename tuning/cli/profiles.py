"""`highwater tune profiles`: the host profiles there are, and what they would set here."""

from __future__ import annotations

from pathlib import Path

from rich.padding import Padding
from rich.text import Text

from tuning.errors import TuningError
from tuning.workload import Workload

from .options import RootOption, facts_of, mistakes_in_one_line
from .printing import console


def profiles(root: RootOption = Path("/")) -> None:
    """List the host profiles that a workload file can name (host.profile), and what they would set here.

    Exit code: 0.
    """
    from tuning.profile_session import plan_profile
    from tuning.profiles import PROFILES

    with mistakes_in_one_line():
        facts = facts_of(root)
    out = console()
    for profile in PROFILES:
        out.print(Text.assemble((profile.name, "bold"), f": {profile.purpose}"))
        try:
            changes = plan_profile(profile, facts, Workload())
        except TuningError as error:
            out.print(Padding(Text(str(error), style="yellow"), (0, 0, 0, 2)))
            continue
        for change in changes:
            what = f"{change.before} → {change.after}" if change.before != change.after else f"{change.after} already"
            out.print(Padding(f"{change.name}: {what}", (0, 0, 0, 2)))
