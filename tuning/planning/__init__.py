"""The plan: what has to change for knobs to be as recommended now, and to stay so over a reboot. It writes nothing.

A value that is good already stays, on the running system and in our files alike, so that the plan after an apply is
empty. What is good at boot without us gets no line of ours, which would pin today's default and lower tomorrow's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..check import KnobReport, evaluate
from ..errors import TuningError
from ..facts import Facts
from ..model import Knob
from ..steps import CommandStep, FileStep, RemountStep, SettingStep, Step, SwapOffStep, TuningPlan
from ..workload import Workload
from . import limits, mounts, settings, swap
from .draft import Draft, PlanOptions, SelectedKnob

__all__ = ["PlanOptions", "make_plan"]

_SWAP_OF_UNIT: Final = "unit.memory_swap_max"


def make_plan(
    facts: Facts, workload: Workload, knobs: Sequence[Knob], options: PlanOptions | None = None
) -> TuningPlan:
    """Evaluate `knobs` and plan the steps, in the order in which they have to be made. Writes nothing.

    A profile's own values come as knobs with another formula. Service units are those of the workload.
    Raises TuningError that names every named knob which this host does not let us set, a bad unit or login domain, and
    a file limit above fs.nr_open.
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
        elif report.state == "differs" and report.mechanism != "advice":
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
        # A unit need not be kept out of swap where there will be none.
        limits.plan_units(draft, [item for item in units if not (without_swap and item.knob.id == _SWAP_OF_UNIT)])
        limits.plan_logins(draft, [item for item in chosen if item.knob.mechanism == "login"])
    return TuningPlan(
        steps=tuple(_in_order(draft)),
        reports=tuple(reports),
        warnings=tuple(dict.fromkeys(draft.warnings)),
        pending=tuple(dict.fromkeys(draft.pending)),
    )


def _why_not(report: KnobReport) -> str:
    """Why a knob is not to be set here; empty when it may be. In front of it, what it is about."""
    name = report.name
    if report.mechanism == "advice":
        return f"{name} is checked and explained, but never changed by this program"
    if report.state in ("unknown", "not_applicable", "obsolete", "left_alone"):
        return f"{name}: {report.note}"
    return f"{name} {report.obstacle}" if report.state == "differs" and report.obstacle else ""


def _in_order(draft: Draft) -> Iterator[Step]:
    """First what the kernel may refuse, ceilings before what they bound; then files, and who has to read them."""
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
    """A command that is as right after the files are in place as after they are taken back."""
    return CommandStep(argv, argv, why)
