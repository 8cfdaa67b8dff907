"""Renders docs/tuning-knobs.md, the documentation page of all knobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..model import Authority, Group, Knob, Source
from .export import disagree

_INTRODUCTION: Final = """\
# The knobs

This page lists every setting of a broker's host that `highwater tune` knows. `python -m highwater.tuning.catalogue`
writes the page from the catalogue that the command line, the Ansible module and the reports use; a test compares them.

The recommended value is a formula, because the right value depends on memory, disks, network and load. `highwater tune
check` fills in the numbers of a host, and `highwater tune explain KNOB` shows everything about one knob there. A value
marked *at least* is a minimum: a higher value is never lowered. A value marked *at most* is never raised. A knob marked
*advice* is checked and explained, but never changed. A knob marked *only if named* trades durability or safety away,
and is changed only if `--accept-risk` names it.
"""
_GROUPS: Final[dict[Group, str]] = {
    "memory": "Memory",
    "limits": "Limits and service units",
    "storage": "File systems and mounts",
    "disk": "Disks",
    "network": "Network",
    "processor": "Processors",
    "kernel": "Kernel",
}
_COMPARISONS: Final = {"equal": "", "at_least": "at least ", "at_most": "at most ", "about": "about "}


def render(knobs: Sequence[Knob]) -> str:
    """The whole page, in Markdown."""
    return "\n".join([_INTRODUCTION, *_overview(knobs), *_disagreements(knobs), *_details(knobs)])


def _overview(knobs: Sequence[Knob]) -> Iterator[str]:
    for group, title in _GROUPS.items():
        members = [knob for knob in knobs if knob.group == group]
        if not members:
            continue
        yield f"## {title}\n"
        yield "| Knob | What it is | Recommended | Risk | Persisted in |"
        yield "|---|---|---|---|---|"
        for knob in members:
            recommended = _cell(f"{_recommended(knob)}{_mark(knob)}")
            yield f"| {_reference(knob)} | {_cell(knob.title)} | {recommended} | {knob.risk} | {knob.persistence} |"
        yield ""


def _disagreements(knobs: Sequence[Knob]) -> Iterator[str]:
    yield "## Where the authorities disagree\n"
    yield "Each authority has one kind of program in mind, and copied advice outlives its reason. A measurement on the"
    yield "host decides: `highwater tune prove KNOB`.\n"
    yield "| Knob | Highwater | Authorities |"
    yield "|---|---|---|"
    for knob in knobs:
        if disagree(knob):
            theirs = _cell(_side_by_side(knob.authorities))
            yield f"| {_reference(knob)} | {_cell(_recommended(knob))} | {theirs} |"
    yield ""


def _details(knobs: Sequence[Knob]) -> Iterator[str]:
    yield "## Knob by knob\n"
    for knob in knobs:
        yield f"### {knob.id}\n"
        yield f"{knob.title}. {knob.reason} {knob.detail}\n"
        yield f"- Recommended: {_recommended(knob)}"
        yield f"- Read from: `{knob.path}`{_part_of_file(knob)}"
        if knob.mechanism == "advice":
            yield "- Changed: never; this is advice"
        else:
            yield f"- Persisted in: {knob.persistence}"
        yield f"- Risk: {knob.risk}. {knob.risk_text}"
        if knob.only_if_named:
            yield f"- Only if named: {knob.only_if_named}"
        if knob.lifetime.text:
            yield f"- Kernels: {knob.lifetime.text}"
        yield f"- Who can change it: {knob.capability}"
        for authority in knob.authorities:
            yield f"- {authority.who}: {authority.value} ({_link(authority.source)})"
        yield f"- Sources: {', '.join(_link(source) for source in knob.sources)}\n"


def _recommended(knob: Knob) -> str:
    comparison, words = _COMPARISONS[knob.comparison], knob.formula_in_words
    if comparison and words[1:2].islower():  # a word, and not a name such as UUID
        words = words[0].lower() + words[1:]
    return f"{comparison}{words}"


def _mark(knob: Knob) -> str:
    if knob.mechanism == "advice":
        return " (advice)"
    return " (only if named)" if knob.only_if_named else ""


def _part_of_file(knob: Knob) -> str:
    parts = []
    if knob.field is not None:
        parts.append(f"number {knob.field + 1} of several")
    if knob.twin is not None:
        parts.append(f"paired with {knob.twin}: the kernel sets one to 0 when the other is written")
    return f", {', '.join(parts)}" if parts else ""


def _side_by_side(authorities: Sequence[Authority]) -> str:
    return "; ".join(f"{authority.who}: {authority.value}" for authority in authorities)


def _reference(knob: Knob) -> str:
    anchor = "".join(character for character in knob.id.lower() if character.isalnum() or character in "_-")
    return f"[{knob.id}](#{anchor})"


def _link(source: Source) -> str:
    return f"[{source.title}]({source.url})" if source.url else source.title


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
