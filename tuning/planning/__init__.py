"""Plans the changes that give knobs their recommended values now and after a reboot; writes nothing.

A value that is good already stays, in the running system and in Highwater's files, so that the plan after an apply is
empty. A setting whose value is good at boot without Highwater gets no line in a file: the line would pin today's
default and could lower a better one of a later kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..check import KnobReport, evaluate
from ..errors import TuningError
from ..facts.model import Facts
from ..model import Knob
from ..steps import CommandStep, FileStep, RemountStep, SettingStep, Step, SwapOffStep, TuningPlan
from ..workload import Workload
from . import limits, mounts, settings, swap
from .draft import Draft, PlanOptions, SelectedKnob

_SWAP_OF_UNIT: Final = "unit.memory_swap_max"


def make_plan(
    facts: Facts, workload: Workload, knobs: Sequence[Knob], options: PlanOptions | None = None
) -> TuningPlan:
    """Evaluate `knobs` and plan the steps, in the order of their application. Writes nothing.

    A profile passes its own values as knobs with another formula. Service units are those of the workload.
    Raises TuningError for named knobs that this host cannot set, for an invalid unit or login domain, and for a file
    limit above fs.nr_open.
    """
    options = options or PlanOptions()
    reports = evaluate(facts, workload, knobs, named=options.accepted)
    by_id = {knob.id: knob for knob in knobs}
    draft = Draft(facts, workload, options)
    chosen: list[SelectedKnob] = []
    problems: list[str] = []
    left: dict[str, list[str]] = {}
    for report in reports:
        why_not = _why_not(report)
        if not why_not:
            chosen.append(SelectedKnob(by_id[report.id], report))
        elif report.id in options.named:
            problems.append(why_not)
        elif report.fate == "cannot":
            left.setdefault(report.obstacle, []).append(report.name)
    draft.warnings += [f"left as it is: {', '.join(names)} {obstacle}" for obstacle, names in left.items()]
    if problems:
        raise TuningError("; ".join([*problems, "leave out what this host cannot set (--skip)"]))
    settings.plan(draft, [item for item in chosen if item.knob.mechanism in ("sysctl", "sysfs")])
    mounts.plan(draft, [item for item in chosen if item.knob.mechanism == "mount"])
    if not options.keep_swap:
        swap.plan(draft, [item for item in chosen if item.knob.mechanism == "swap"])
    if options.persist:
        without_swap = any(isinstance(step, SwapOffStep) for step in draft.live)
        units = [item for item in chosen if item.knob.mechanism == "unit"]
        # Without swap, no unit has to be kept out of it.
        limits.plan_units(draft, [item for item in units if not (without_swap and item.knob.id == _SWAP_OF_UNIT)])
        limits.plan_logins(draft, [item for item in chosen if item.knob.mechanism == "login"])
    return TuningPlan(
        steps=tuple(_in_order(draft)),
        reports=tuple(reports),
        warnings=tuple(dict.fromkeys(draft.warnings)),
        pending=tuple(dict.fromkeys(draft.pending)),
    )


def _why_not(report: KnobReport) -> str:
    """Why a knob must not be set here, beginning with its name; empty when it may be set."""
    name = report.name
    if report.mechanism == "advice":
        return f"{name} is checked and explained, but never changed by this program"
    if report.state in ("unknown", "not_applicable", "obsolete", "left_alone"):
        return f"{name}: {report.note}"
    return f"{name} {report.obstacle}" if report.fate == "cannot" else ""


def _in_order(draft: Draft) -> Iterator[Step]:
    """First what the kernel may refuse, limits before the settings they limit; then files, then reload commands."""
    for kind in (SettingStep, RemountStep, SwapOffStep):
        yield from (step for step in draft.live if isinstance(step, kind))
    files = list(draft.file_steps())
    yield from files
    yield from _commands(draft.facts, files)


def _commands(facts: Facts, files: Sequence[FileStep]) -> Iterator[CommandStep]:
    if not facts.systemd.running:
        return
    if any(step.path.startswith(("/etc/systemd/", "/etc/fstab")) for step in files):
        yield _twice(("systemctl", "daemon-reload"), "systemd reads its units and /etc/fstab again")
    if any(step.path.startswith("/etc/udev/") for step in files):
        yield _twice(("udevadm", "control", "--reload"), "udev reads its rules again")


def _twice(argv: tuple[str, ...], why: str) -> CommandStep:
    """A command that both apply and rollback run after the files have changed."""
    return CommandStep(argv, argv, why)
