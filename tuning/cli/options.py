"""Options that several verbs share, their parsing, and errors reported in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from ...common import command_errors
from ...common.exit_codes import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_USAGE
from ..catalogue import KNOBS, find_knob, select_knobs
from ..change_status import interrupted
from ..errors import PartlyChangedError, TuningError
from ..facts import collect
from ..facts.captured import is_captured
from ..facts.model import Facts
from ..hostfiles import HostFiles
from ..journal import SESSION
from ..model import Knob
from ..workload import Workload, parse_properties, parse_workload

THIS_HOST: Final = Path("/")


def _this_host_by_any_name(root: Path) -> Path:
    """Recognize other names of `/`, such as /tmp/.., which are no captured trees."""
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
        help="Read a captured tree (its proc/, sys/, etc/) instead of this host.",
    ),
]
DataDirOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Data directory of the broker; may be repeated. Default: /var/lib/highwater."
    ),
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        metavar="KEY=VALUE",
        help="The load of this host, instead of the defaults; may be repeated. Keys: "
        "disk_write_rate (measured for one data disk, such as 400MB/s), write_rate (appended on this host, such as "
        "100MB/s), lag (of consumers, such as 30s), retention (such as 604800s), partitions, partition_size, "
        "segment_size, connections, link (such as 10Gbit/s), rtt (such as 1ms), broker (highwater or apache-kafka), "
        "broker_memory, heap.",
    ),
]
BrokerConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--broker-config",
        metavar="FILE",
        help="The broker's configuration (server.properties); it decides which knobs can have an effect.",
    ),
]
UnitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--unit",
        metavar="UNIT",
        help="Service unit of the broker; may be repeated. Default: highwater-broker@.service.",
    ),
]
OnlyOption = Annotated[
    list[str] | None, typer.Option("--only", metavar="KNOB", help="Select only this knob; may be repeated.")
]
SkipOption = Annotated[
    list[str] | None, typer.Option("--skip", metavar="KNOB", help="Skip this knob; may be repeated.")
]
AcceptRiskOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-risk",
        metavar="KNOB",
        help="Set this knob although it reduces durability or safety; may be repeated.",
    ),
]
ProfileOption = Annotated[
    str, typer.Option("--profile", metavar="NAME", help="The profile to apply; `highwater tune profiles` lists them.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
LoginOption = Annotated[
    list[str] | None,
    typer.Option("--login", metavar="WHO", help="User, @group or * whose login limits are set; may be repeated."),
]
KeepSwapOption = Annotated[
    bool, typer.Option("--keep-swap", help="Leave swap on; set MemorySwapMax=0 on the broker's units instead.")
]
NowOnlyOption = Annotated[bool, typer.Option("--now-only", help="Change only the running system; a reboot undoes it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs (`highwater tune schema VERB`).")]
ScriptOption = Annotated[
    bool, typer.Option("--script", help="Print a shell script that would do the same; change nothing.")
]


@dataclass(frozen=True)
class HostOptions:
    """A host with its load, and the knobs to look at."""

    only: OnlyOption = None
    skip: SkipOption = None
    accept_risk: AcceptRiskOption = None
    root: RootOption = THIS_HOST
    data_dir: DataDirOption = None
    workload: WorkloadOption = None
    broker_config: BrokerConfigOption = None
    unit: UnitOption = None


@dataclass(frozen=True)
class ChangeOptions(HostOptions):
    """And how its settings are to be."""

    profile: ProfileOption = "recommended"
    now_only: NowOnlyOption = False
    keep_swap: KeepSwapOption = False
    login: LoginOption = None


def errors_in_one_line() -> AbstractContextManager[None]:
    """End with one line for a TuningError, and exit code 2, or 3 when the host is partly changed."""
    return command_errors.errors_in_one_line({PartlyChangedError: EXIT_DAMAGE, TuningError: EXIT_USAGE})


def someone_can_answer() -> bool:
    return sys.stdin.isatty()


def refuse_what_cannot_change(root: Path) -> None:
    """Raises TuningError where nothing may be written: on this host without root, and in a captured tree."""
    if root == THIS_HOST and os.geteuid() != 0:
        raise TuningError("this changes the host and needs root; nothing was changed (try it with sudo)")
    if is_captured(root):
        raise TuningError(f"--root {root} is a capture of another host and read-only; nothing was changed")


@contextmanager
def report_interruption(files: HostFiles) -> Iterator[None]:
    """End an interrupt with exit code 130 and a line that describes the state of the host."""
    try:
        yield
    except KeyboardInterrupt:
        left = interrupted(files) or interrupted(files, SESSION)
        typer.echo(f"interrupted: {left or 'every change was rolled back'}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def facts_of(root: Path) -> Facts:
    """Raises TuningError for a root that is not the tree of a host."""
    if not (root / "proc").is_dir():
        raise TuningError(f"--root {root} has no proc/ directory; name the top of a captured tree")
    return collect(root)


def workload_of(
    data_dirs: list[str] | None,
    assignments: list[str] | None,
    broker_config: Path | None = None,
    units: list[str] | None = None,
) -> Workload:
    """Raises TuningError for an assignment without `=`, an unknown key or an invalid value."""
    given: dict[str, object] = {"data_dirs": data_dirs or None, "units": units or None}
    if broker_config is not None:
        try:
            given["broker_config"] = parse_properties(broker_config.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise TuningError(f"--broker-config {broker_config} cannot be read ({error}); name a text file") from None
        except TuningError as error:
            raise TuningError(f"--broker-config {broker_config}: {error}") from None
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise TuningError(f"--workload {assignment!r} is not KEY=VALUE, such as rtt=1ms")
        given[key] = value
    return parse_workload(given)


def chosen_knobs(only: list[str] | None, skip: list[str] | None) -> tuple[Knob, ...]:
    """Raises TuningError for an unknown knob, and when no knob remains."""
    knobs = select_knobs(only or ["all"], skip or [])
    if not knobs:
        raise TuningError("--skip removes every knob that --only names; name another knob")
    return knobs


def accepted_risks(accepted: list[str] | None) -> frozenset[str]:
    """The ids of knobs whose risk the user accepted. Raises TuningError for a knob that trades nothing away."""
    for knob_id in accepted or []:
        if not find_knob(knob_id).only_if_named:
            trades = ", ".join(knob.id for knob in KNOBS if knob.only_if_named)
            raise TuningError(f"{knob_id} has no such risk; --accept-risk is for {trades}")
    return frozenset(accepted or ())
