"""`highwater tune profiles`: all host profiles, and what each would set on this host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..check import KnobReport, evaluate
from ..profiles import find_profile, knobs_of, wishes_of
from ..profiles.model import Profile, Wish
from ..profiles.shipped import PROFILES
from .documents import print_document
from .options import THIS_HOST, DataDirOption, JsonOption, RootOption, errors_in_one_line, facts_of, workload_of
from .printing import STATE_WORDS, console, merged, targets_text


@dataclass(frozen=True)
class WishRow:
    knob: str
    target: str
    wanted: str
    now: str
    state: str
    reason: str


@dataclass(frozen=True)
class ProfileRow:
    name: str
    aliases: tuple[str, ...]
    purpose: str
    extends: str | None
    everything: bool
    """It also sets every other knob to the recommended value."""
    wishes: tuple[WishRow, ...]
    """The profile's own and those of the profiles it extends."""


@dataclass(frozen=True)
class ProfilesDocument:
    profiles: tuple[ProfileRow, ...]
    schema: Literal["tuning.profiles/1"] = "tuning.profiles/1"


def profiles(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show only this profile.")] = None,
    root: RootOption = THIS_HOST,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the profiles for --profile of plan and apply, and for host.profile of a workload file.

    Exit codes: 0, or 2 for a usage error.
    """
    with errors_in_one_line():
        chosen = PROFILES if name is None else (find_profile(name),)
        inputs = workload_of(data_dir, None)
        facts = facts_of(root)
        found = []
        for profile in chosen:
            wishes = wishes_of(profile)
            knobs = [knob for knob in knobs_of(profile) if knob.id in wishes]
            found.append((profile, wishes, evaluate(facts, inputs, knobs)))
    if as_json:
        print_document(ProfilesDocument(tuple(_profile_row(*one) for one in found)))
        return
    out = console()
    for profile, wishes, reports in found:
        _print_title(out, profile)
        for report, targets in merged(reports):
            what = f"{report.id} of {targets_text(targets)}" if targets else report.id
            out.print(Padding(Text.assemble(f"{what}: ", _outcome(report)), (0, 0, 0, 2)))
            out.print(Padding(Text(wishes[report.id].reason, style="dim"), (0, 0, 0, 4)))
        out.print()


def _print_title(out: Console, profile: Profile) -> None:
    out.print(Text.assemble((profile.name, "bold"), f": {profile.purpose}"))
    also = [
        f"extends {profile.extends}" if profile.extends else "",
        "every knob as recommended" if profile.everything else "",
        f"also called {', '.join(profile.aliases)}" if profile.aliases else "",
    ]
    if any(also):
        out.print(Padding(Text("; ".join(text for text in also if text), style="dim"), (0, 0, 0, 2)))


def _outcome(report: KnobReport) -> str:
    if report.state == "ok":
        return f"{report.current_text} already"
    if report.state == "differs":
        return f"{report.current_text} → {report.recommended_text}"
    return f"{STATE_WORDS[report.state][0]}: {report.note}"


def _profile_row(profile: Profile, wishes: Mapping[str, Wish], reports: list[KnobReport]) -> ProfileRow:
    rows = tuple(
        WishRow(
            one.id, one.target, one.recommended_text, one.current_text, one.state, wishes[one.id].reason or one.reason
        )
        for one in reports
    )
    return ProfileRow(profile.name, profile.aliases, profile.purpose, profile.extends, profile.everything, rows)
