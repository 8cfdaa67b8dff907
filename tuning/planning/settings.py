"""Plans settings of /proc/sys and /sys: writes now, and lines in files for the next boot."""

from __future__ import annotations

from collections.abc import Sequence

from ..boot_files import sysctl_d, tmpfiles, tuned, udev
from ..boot_files.precedence import Assignment, Boot, simulate_boot
from ..catalogue import KNOBS
from ..check import render, sysctl_path
from ..facts.model import Facts
from ..facts.reading import value_of
from ..steps import SettingStep
from .draft import Draft, SelectedKnob
from .judging import Judge


def plan(draft: Draft, chosen: Sequence[SelectedKnob]) -> None:
    """Raises TuningError when one of Highwater's files cannot be read."""
    draft.live += [_step(draft.facts, item) for item in chosen if item.report.state == "differs"]
    if not draft.options.persist:
        return
    _persist_sysctls(draft, [item for item in chosen if item.knob.persistence == "sysctl.d"])
    _persist_device_settings(draft, [item for item in chosen if item.knob.persistence == "udev rule"])
    _persist_sysfs_settings(draft, [item for item in chosen if item.knob.persistence == "tmpfiles.d"])
    _warn_of_rivals(draft, [item for item in chosen if item.knob.mechanism == "sysfs"])
    for item in chosen:
        kept = item.knob.persistence in ("sysctl.d", "udev rule", "tmpfiles.d")
        if item.report.state == "differs" and not kept:
            draft.pending.append(f"{item.report.name} lasts until the next boot: no file of Highwater persists it")


def path_of(item: SelectedKnob) -> str:
    return item.knob.path.format(target=item.report.target)


def wanted_text(facts: Facts, item: SelectedKnob) -> str:
    """The text to write; numbers of the file that belong to other knobs are kept."""
    assert item.report.recommended is not None
    return render(item.knob, item.report.recommended, value_of(facts.files.read(path_of(item)).text or ""))


def _step(facts: Facts, item: SelectedKnob) -> SettingStep:
    path = path_of(item)
    twin = sysctl_path(item.knob.twin) if item.knob.twin else None
    return SettingStep(
        knob_id=item.knob.id,
        target=item.report.target,
        path=path,
        before=value_of(facts.files.read(path).text or ""),
        after=wanted_text(facts, item),
        twin_path=twin,
        twin_before=value_of(facts.files.read(twin).text or "") if twin else None,
    )


def _persist_sysctls(draft: Draft, chosen: Sequence[SelectedKnob]) -> None:
    ours = sysctl_d.MANAGED_FILE
    present = sysctl_d.parse_settings(draft.text(ours) or "")
    without_us = simulate_boot(draft.facts.files, {ours: None})
    lines: dict[str, str] = {}
    for item in chosen:
        key, twin = item.knob.id, item.knob.twin
        if key in present and _judge(draft, item).accepts_sysctls({key: present[key]}):
            if twin in present:
                lines[key] = present[key]  # written again, so that the other member of the pair is removed
        elif key in present or not _good_at_boot(draft, item, without_us, present.get(twin or "")):
            lines[key] = wanted_text(draft.facts, item)
    if lines:
        comments = {knob.id: f"{knob.title}. Why: highwater tune explain {knob.id}" for knob in KNOBS}
        draft.put(ours, sysctl_d.with_settings(draft.text(ours), lines, comments), "kernel settings at boot")
    boot = simulate_boot(draft.facts.files, {ours: draft.text(ours)})
    for item in chosen:
        winner = boot.winner(item.knob.id)
        if (
            winner is not None
            and winner.path != ours
            and not _judge(draft, item).accepts_sysctls({winner.key: winner.value})
        ):
            draft.warnings.append(overridden(winner))


def _warn_of_rivals(draft: Draft, chosen: Sequence[SelectedKnob]) -> None:
    """Warn of other programs that may write a worse value to a setting of /sys after Highwater."""
    files = draft.facts.files
    profile = tuned.active_profile(files)
    rules = {rule.attribute: rule for rule in udev.later_rules(files)}
    writes = tmpfiles.other_writes(files)
    for item in chosen:
        path, judge, name = path_of(item), _judge(draft, item), item.report.name
        line = profile.sets(item.knob.id, path) if profile else None
        if profile and line and not judge.accepts_texts({path: line.value}):
            where = f"{line.path}:{line.number}: TuneD's profile {profile.name} sets {line.key} = {line.value}"
            draft.warnings.append(f"{where} whenever it starts, which undoes {name}")
        attribute = draft.devices.rule_of(path)[1] if item.knob.persistence == "udev rule" else ""
        if (rule := rules.get(attribute)) is not None and not judge.accepts_texts({path: rule.value}):
            where = f"{rule.path}:{rule.line} sets {attribute} = {rule.value}"
            draft.warnings.append(f"{where} after {udev.MANAGED_FILE}, which undoes {name} on the devices it is for")
        if path in writes and not judge.accepts_texts({path: writes[path][0]}):
            value, file = writes[path]
            draft.warnings.append(f"{file} writes {value} for {name} at boot as well: remove one of the two")


def _judge(draft: Draft, item: SelectedKnob) -> Judge:
    return Judge(draft.facts, draft.workload, item.knob, item.report.target, draft.options.accepted)


def _good_at_boot(draft: Draft, item: SelectedKnob, boot: Boot, twin_of_ours: str | None) -> bool:
    """Whether a boot without Highwater's line sets the knob as recommended, by another file or the kernel's default.

    The default is the value before Highwater's first change, or without such a record the current value.
    """
    judge = _judge(draft, item)
    if twin_of_ours is not None and item.knob.twin is not None:
        return judge.accepts_sysctls({item.knob.twin: twin_of_ours})
    winner = boot.winner(item.knob.id)
    if winner is not None:
        return judge.accepts_sysctls({winner.key: winner.value})
    return judge.accepts_texts({path: text for path, text in draft.options.original_texts.items() if text is not None})


def overridden(winner: Assignment) -> str:
    return (
        f"{winner.where} sets {winner.key} = {winner.value} ({winner.reader}): it wins over {sysctl_d.MANAGED_FILE} "
        "at the next boot; remove that line"
    )


def _persist_device_settings(draft: Draft, chosen: Sequence[SelectedKnob]) -> None:
    present = udev.parse_rules(draft.text(udev.MANAGED_FILE) or "")
    rules: list[udev.Rule] = []
    for item in chosen:
        match, attribute = draft.devices.rule_of(path_of(item))
        if _line_needed(draft, item, present.get((match, attribute))):
            rules.append(udev.Rule(match, attribute, wanted_text(draft.facts, item)))
    if rules:
        text = udev.with_rules(draft.text(udev.MANAGED_FILE), rules)
        draft.put(udev.MANAGED_FILE, text, "settings of devices whenever they appear")


def _persist_sysfs_settings(draft: Draft, chosen: Sequence[SelectedKnob]) -> None:
    present = tmpfiles.parse_writes(draft.text(tmpfiles.MANAGED_FILE) or "")
    writes = {
        path_of(item): wanted_text(draft.facts, item)
        for item in chosen
        if _line_needed(draft, item, present.get(path_of(item)))
    }
    if writes:
        text = tmpfiles.with_writes(draft.text(tmpfiles.MANAGED_FILE), writes)
        draft.put(tmpfiles.MANAGED_FILE, text, "settings of /sys at boot")


def _line_needed(draft: Draft, item: SelectedKnob, present: str | None) -> bool:
    """Whether Highwater's file needs a new line for a setting of /sys; `present` is the value in the file now."""
    path = path_of(item)
    if present is None:
        present = draft.options.original_texts.get(path)
        if present is None:
            return item.report.state == "differs"
    return not _judge(draft, item).accepts_texts({path: present})
