"""Make the sysctl and file-limit knobs of a host as recommended: plan, record, write, read back.

A plan is made without writing anything, so that a check mode and a diff are the same code as the change itself.
A value that is good already stays, on the running system and in our files alike, so that a second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .catalogue import KNOBS, select_knobs
from .check import KnobReport, render, report_on, sysctl_path
from .errors import TuningError
from .facts import Facts
from .file_limits import plan_limit_files
from .hostfiles import HostFiles, Reading
from .model import Knob
from .record import Record
from .sysctl_files import MANAGED_FILE, later_settings, parse_settings, render_settings
from .workload import Workload

CHANGEABLE: Final = tuple(knob.id for knob in KNOBS if knob.mechanism == "sysctl" or knob.id == "unit.limit_nofile")


@dataclass(frozen=True)
class SettingChange:
    """One write to the running kernel. `twin` is the percent key that the kernel zeroes with it."""

    knob: Knob
    before: str
    after: str
    twin_before: str | None


@dataclass(frozen=True)
class FileChange:
    """A file to be put in place whole; `before` is None when there is none yet."""

    path: str
    before: str | None
    after: str


@dataclass(frozen=True)
class Plan:
    settings: tuple[SettingChange, ...]
    files: tuple[FileChange, ...]
    reports: tuple[KnobReport, ...]
    warnings: tuple[str, ...]

    @property
    def changes_anything(self) -> bool:
        return bool(self.settings or self.files)

    def settings_as_text(self) -> tuple[str, str]:
        """The kernel settings to be changed, before and after, as `sysctl` prints them."""
        before, after = [], []
        for change in self.settings:
            before.append(f"{change.knob.id} = {change.before}\n")
            after.append(f"{change.knob.id} = {change.after}\n")
            if change.knob.twin and change.twin_before not in (None, "0"):
                before.append(f"{change.knob.twin} = {change.twin_before}\n")
                after.append(f"{change.knob.twin} = 0\n")
        return "".join(before), "".join(after)


def changeable_knobs(chosen: Sequence[str], skipped: Sequence[str]) -> tuple[Knob, ...]:
    """The chosen knobs that this room can change; raises TuningError when one that it cannot is chosen by name."""
    for knob_id in chosen:
        if knob_id != "all" and knob_id not in CHANGEABLE:
            knob = select_knobs([knob_id])[0]
            raise TuningError(
                f"{knob.id} is checked but cannot be changed from here (it is kept in {knob.persistence}); "
                f"choose from {', '.join(CHANGEABLE)}"
            )
    return tuple(knob for knob in select_knobs(chosen, skipped) if knob.id in CHANGEABLE)


def make_plan(
    facts: Facts,
    workload: Workload,
    knobs: Sequence[Knob],
    units: Sequence[str],
    login_domains: Sequence[str],
    record: Record,
) -> Plan:
    """What has to change for `knobs` to be as recommended now and after a reboot. Writes nothing.

    Raises TuningError that names every knob which this host does not let us set.
    """
    files = facts.files
    reports = [report_on(knob, facts, workload) for knob in knobs]
    sysctls = [(knob, report) for knob, report in zip(knobs, reports, strict=True) if knob.mechanism == "sysctl"]
    problems = [problem for report in reports for problem in _problems(report)]
    if problems:
        way_out = "leave out what this host cannot set (the playbook: tuning_skip_knobs)"
        raise TuningError("; ".join([*problems, way_out]))
    settings = [_setting_change(knob, report, files) for knob, report in sysctls if report.state == "differs"]
    wanted = _wanted_sysctl_file(facts, workload, sysctls, record)
    for knob in knobs:
        if knob.id == "unit.limit_nofile":
            nr_open = _nr_open_after(facts, settings)
            wanted |= plan_limit_files(knob, facts, workload, units, login_domains, nr_open)
    file_changes = [FileChange(path, files.read_verbatim(path), text) for path, text in wanted.items()]
    return Plan(
        settings=tuple(settings),
        files=tuple(change for change in file_changes if change.before != change.after),
        reports=tuple(reports),
        warnings=tuple(_overridden_at_boot(facts, workload, [knob for knob, _ in sysctls])),
    )


def apply_plan(files: HostFiles, plan: Plan, record: Record) -> None:
    """Record the present state, then write and read back. Raises TuningError that names what did not take effect."""
    if not plan.changes_anything:
        return
    for setting in plan.settings:
        record.note_setting(setting.knob.path, setting.before, setting.after)
        if setting.knob.twin and setting.twin_before is not None:
            record.note_setting(sysctl_path(setting.knob.twin), setting.twin_before, "0")
    for file in plan.files:
        record.note_file(file.path, file.before, file.after)
    try:
        record.save()
    except OSError as error:
        raise TuningError(
            f"the record {record.path} cannot be written ({error.strerror or error}); nothing was changed"
        ) from error
    for setting in plan.settings:
        _write_setting(files, setting, record)
    for file in plan.files:
        try:
            files.replace_file(file.path, file.after, 0o644)
        except OSError as error:
            raise TuningError(
                f"{file.path} cannot be written ({error.strerror or error}); earlier values are in {record.path}"
            ) from error


def _problems(report: KnobReport) -> list[str]:
    if report.state in ("unknown", "not_applicable"):
        return [f"{report.id}: {report.note}"]
    return [f"{report.id} {report.obstacle}"] if report.state == "differs" and report.obstacle else []


def _setting_change(knob: Knob, report: KnobReport, files: HostFiles) -> SettingChange:
    before = _numbers(files.read(knob.path).text or "")
    assert report.recommended is not None
    return SettingChange(
        knob=knob,
        before=before,
        after=render(knob, report.recommended, before),
        twin_before=files.read(sysctl_path(knob.twin)).text if knob.twin else None,
    )


def _wanted_sysctl_file(
    facts: Facts, workload: Workload, sysctls: Sequence[tuple[Knob, KnobReport]], record: Record
) -> dict[str, str]:
    """Our sysctl.d file. A key that is good at boot without us gets no line: it would pin today's kernel default."""
    files = facts.files
    present = parse_settings(files.read_verbatim(MANAGED_FILE) or "")
    lines = dict(present)
    for knob, report in sysctls:
        if knob.id in present:
            needed = not _would_be_good(knob, facts, workload, present)
        else:
            original = report_on(knob, facts, workload, read=record.reader_of_originals(files.read))
            needed = original.state != "ok"
        if needed and report.recommended is not None:
            lines[knob.id] = render(knob, report.recommended, _numbers(files.read(knob.path).text or ""))
        if knob.twin and knob.id in lines:
            lines.pop(knob.twin, None)
    comments = {knob.id: f"{knob.title}. Why: highwater tune explain {knob.id}" for knob in KNOBS}
    return {} if lines == present else {MANAGED_FILE: render_settings(lines, comments)}


def _would_be_good(knob: Knob, facts: Facts, workload: Workload, settings: dict[str, str]) -> bool:
    """Whether the knob would be as recommended after a file with these settings has been applied."""
    twin_path = sysctl_path(knob.twin) if knob.twin else None

    def read(path: str) -> Reading:
        if path == knob.path:
            return Reading(settings.get(knob.id, "0"))
        if path == twin_path:
            return Reading(settings.get(knob.twin or "", "0"))
        return facts.files.read(path)

    return report_on(knob, facts, workload, read=read).state == "ok"


def _overridden_at_boot(facts: Facts, workload: Workload, knobs: Sequence[Knob]) -> Iterator[str]:
    for path, settings in later_settings(facts.files):
        for knob in knobs:
            for key in (knob.id, knob.twin or ""):
                if key in settings and not _would_be_good(knob, facts, workload, {key: settings[key]}):
                    yield (
                        f"{path} sets {key} = {settings[key]} and is read after {MANAGED_FILE}: "
                        "it wins at the next boot; remove that line"
                    )


def _nr_open_after(facts: Facts, settings: Sequence[SettingChange]) -> int | None:
    for change in settings:
        if change.knob.id == "fs.nr_open":
            return int(change.after)
    text = facts.files.read(sysctl_path("fs.nr_open")).text
    return int(text) if text and text.isdecimal() else None


def _write_setting(files: HostFiles, change: SettingChange, record: Record) -> None:
    key, way_back = change.knob.id, f"earlier values are in {record.path}"
    try:
        files.write_setting(change.knob.path, change.after)
    except OSError as error:
        raise TuningError(
            f"{key}: the kernel refuses {change.after!r} ({error.strerror or error}); {way_back}"
        ) from error
    found = files.read(change.knob.path)
    if found.text is None or _numbers(found.text) != change.after:
        raise TuningError(
            f"{key}: the write of {change.after!r} had no effect, it reads {found.text or found.reason!r}; {way_back}"
        )


def _numbers(text: str) -> str:
    return " ".join(text.split())
