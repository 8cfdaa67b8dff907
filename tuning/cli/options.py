"""What the verbs share: options, what they come to, and mistakes told in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from ..catalogue import KNOBS, find_knob, select_knobs
from ..errors import PartlyChangedError, TuningError
from ..facts import Facts, collect
from ..facts.capture import is_captured
from ..holdings import interrupted
from ..hostfiles import HostFiles
from ..journal import SESSION
from ..model import Knob
from ..workload import Workload, parse_properties, parse_workload
from .exit_codes import CHANGED_IN_PART, INTERRUPTED, REFUSED

THIS_HOST: Final = Path("/")


def _this_host_by_any_name(root: Path) -> Path:
    """So that /tmp/.. is not taken for a tree without a kernel."""
    try:
        return THIS_HOST if root.samefile(THIS_HOST) else root
    except OSError:
        return root


RootOption = Annotated[
    Path,
    typer.Option(
        "--root",
        metavar="DIR",
        callback=_this_host_by_any_name,
        help="A captured or made tree (its proc/, sys/, etc/) instead of this host.",
    ),
]
DataDirOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Where the log is kept; repeat for several. Default: /var/lib/highwater."
    ),
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        metavar="KEY=VALUE",
        help="What the host is to carry, instead of the defaults; repeat for several. Keys: "
        "disk_write_rate (measured, of one data disk, as 400MB/s), write_rate (appended on this host, as 100MB/s), "
        "lag (of consumers, as 30s), retention (as 604800s), partitions, partition_size, segment_size, connections, "
        "link (as 10Gbit/s), rtt (as 1ms), broker (highwater or apache-kafka), broker_memory, heap.",
    ),
]
BrokerConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--broker-config",
        metavar="FILE",
        help="Properties that the broker runs with (server.properties): they say which knobs can have an effect.",
    ),
]
UnitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--unit",
        metavar="UNIT",
        help="Service unit the broker runs as; repeat for several. Default: highwater-broker@.service.",
    ),
]
OnlyOption = Annotated[
    list[str] | None, typer.Option("--only", metavar="KNOB", help="Look at this knob only; repeat for several.")
]
SkipOption = Annotated[
    list[str] | None, typer.Option("--skip", metavar="KNOB", help="Leave this knob alone; repeat for several.")
]
AcceptRiskOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-risk",
        metavar="KNOB",
        help="Set this knob too although it trades durability or safety away; repeat for several.",
    ),
]
ProfileOption = Annotated[
    str, typer.Option("--profile", metavar="NAME", help="What to aim at, as `highwater tune profiles` names it.")
]
LoginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--login", metavar="WHO", help="User, @group or * that gets the limits of logins; repeat for several."
    ),
]
KeepSwapOption = Annotated[
    bool, typer.Option("--keep-swap", help="Leave swap on, and keep the broker's units out of it instead.")
]
NowOnlyOption = Annotated[
    bool, typer.Option("--now-only", help="Change the running system alone; a reboot takes it back.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs (`highwater tune schema VERB`).")]
ScriptOption = Annotated[
    bool, typer.Option("--script", help="Print a shell script that does the same, and do nothing.")
]


@contextmanager
def mistakes_in_one_line() -> Iterator[None]:
    """A TuningError becomes `error: …` on standard error and exit code 2, or 3 where the host was left in between."""
    try:
        yield
    except PartlyChangedError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(CHANGED_IN_PART) from None
    except TuningError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(REFUSED) from None


def refuse_what_cannot_change(root: Path) -> None:
    """Raises TuningError where nothing may be written: on this host without being root, and in a captured tree."""
    if root == THIS_HOST and os.geteuid() != 0:
        raise TuningError("this changes the host and needs root; nothing was changed (try it with sudo)")
    if is_captured(root):
        raise TuningError(f"--root {root} is a capture of another host, to be looked at only; nothing was changed")


@contextmanager
def interruptions_told(files: HostFiles) -> Iterator[None]:
    """An interrupt ends with exit code 130 and a line that says how it leaves the host."""
    try:
        yield
    except KeyboardInterrupt:
        left = interrupted(files) or interrupted(files, SESSION)
        typer.echo(f"interrupted: {left or 'everything that was begun is taken back'}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def facts_of(root: Path) -> Facts:
    """Raises TuningError for a root that is no host's tree."""
    if not (root / "proc").is_dir():
        raise TuningError(f"--root {root} holds no proc/ directory; name the top of a captured tree")
    return collect(root)


def workload_of(
    data_dirs: list[str] | None,
    assignments: list[str] | None,
    broker_config: Path | None = None,
    units: list[str] | None = None,
) -> Workload:
    """Raises TuningError for an assignment that is none, or of an unknown key or an impossible value."""
    given: dict[str, object] = {"data_dirs": data_dirs or None, "units": units or None}
    if broker_config is not None:
        try:
            given["broker_config"] = parse_properties(broker_config.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise TuningError(f"--broker-config {broker_config} cannot be read ({error}); name a text file") from None
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise TuningError(f"--workload {assignment!r} is not KEY=VALUE, such as rtt=1ms")
        given[key] = value
    return parse_workload(given)


def chosen_knobs(only: list[str] | None, skip: list[str] | None) -> tuple[Knob, ...]:
    """Raises TuningError for an unknown knob, and when nothing remains."""
    knobs = select_knobs(only or ["all"], skip or [])
    if not knobs:
        raise TuningError("--skip leaves nothing of what --only names; name another knob")
    return knobs


def accepted_risks(accepted: list[str] | None) -> frozenset[str]:
    """The knobs whose risk somebody accepted; raises TuningError for a knob that trades nothing away."""
    for knob_id in accepted or []:
        if not find_knob(knob_id).only_if_named:
            trades = ", ".join(knob.id for knob in KNOBS if knob.only_if_named)
            raise TuningError(f"{knob_id} trades nothing away; --accept-risk is for {trades}")
    return frozenset(accepted or ())
