"""Three-way comparison of a resource: its original, applied and present state.

The result is the state that the resource would have without Highwater. Values are compared in a normalized form.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .facts.reading import parse_cpu_list, value_of
from .steps import MOUNT_LAYERS, Resource, ResourceState

Standing = Literal[
    "in_force",  # as Highwater made it
    "back",  # as before Highwater
    "drifted",  # somebody else changed it since
    "gone",  # the device or mount no longer exists
]
_CPU_MASKS: Final = frozenset({"smp_affinity", "rps_cpus", "xps_cpus", "cpumask", "default_smp_affinity"})
# The kernel stores it in pages.
_WHOLE_PAGES_KIB: Final = frozenset({"read_ahead_kb"})
_PAGE_KIB: Final = 4
_MODULE_PARAMETER: Final = re.compile(r"/sys/module/[^/]+/parameters/")


@dataclass(frozen=True)
class ThreeWayResult:
    """`restored`: the state without Highwater. `separable`: both changes of a drifted resource can be distinguished."""

    standing: Standing
    restored: ResourceState
    separable: bool = True


def normalized(path: str, text: str) -> str:
    """A setting's value in one form: of a list of choices the chosen word, single blanks, masks as numbers."""
    value = value_of(text)
    name = path.rpartition("/")[2]
    if name in _CPU_MASKS:
        return _mask(value)
    if name.endswith(("_list", "_cpulist")):
        return _list(value)
    if name in _WHOLE_PAGES_KIB and value.isdecimal():
        return str(int(value) // _PAGE_KIB * _PAGE_KIB)
    if _MODULE_PARAMETER.match(path):
        return {"Y": "1", "N": "0"}.get(value, value)
    return value


def same_state(resource: Resource, one: ResourceState, other: ResourceState) -> bool:
    """Whether two states of a resource are equal: files by their text, mounts by their set of options."""
    if one is None or other is None:
        return one is other
    if resource.kind == "setting":
        return all(
            normalized(path, one.get(path, "")) == normalized(path, other.get(path, "")) for path in resource.names
        )
    if resource.kind in MOUNT_LAYERS:
        return set(_options(one)) == set(_options(other))
    key = {"file": "text", "swap": "in_use"}[resource.kind]
    return one[key] == other[key]


def compare(
    resource: Resource, original: ResourceState, ours: Sequence[ResourceState], now: ResourceState
) -> ThreeWayResult:
    """ours: what Highwater may have made of it, the likeliest first (two when a run ended between two changes)."""
    if resource.kind in MOUNT_LAYERS:
        return _compare_mount(original, ours, now)
    if same_state(resource, now, original):
        return ThreeWayResult("back", original)
    if any(same_state(resource, now, state) for state in ours):
        return ThreeWayResult("in_force", _keep_foreign_companions(resource, original, ours[0], now))
    if resource.kind == "file":
        return _compare_file(original, ours[0], now)
    return ThreeWayResult("gone" if now is None else "drifted", now, separable=False)


def merge_lines(base: str, theirs: str, wanted: str) -> str | None:
    """Apply the change from `base` to `wanted` to `theirs`; None when both change the same lines."""
    lines = base.splitlines(keepends=True)
    one = list(_edits(lines, wanted.splitlines(keepends=True)))
    other = list(_edits(lines, theirs.splitlines(keepends=True)))
    if any(_collide(edit, another) for edit in one for another in other):
        return None
    merged, position = [], 0
    for first, end, replacement in sorted({(f, e, tuple(r)) for f, e, r in (*one, *other)}):
        merged += [*lines[position:first], *replacement]
        position = end
    return "".join([*merged, *lines[position:]])


_Edit = tuple[int, int, list[str]]


def _edits(lines: list[str], others: list[str]) -> Iterator[_Edit]:
    matcher = difflib.SequenceMatcher(None, lines, others, autojunk=False)
    for tag, first, end, other_first, other_end in matcher.get_opcodes():
        if tag != "equal":
            yield first, end, others[other_first:other_end]


def _collide(one: _Edit, other: _Edit) -> bool:
    """Whether two edits touch the same lines, or put different lines at the same place."""
    if one == other:
        return False
    if one[0] == one[1] and other[0] == other[1]:
        return one[0] == other[0]
    return one[0] < other[1] and other[0] < one[1]


def _keep_foreign_companions(
    resource: Resource, original: ResourceState, ours: ResourceState, now: ResourceState
) -> ResourceState:
    """The original, but with later changes by others of settings that the kernel reset together with this one."""
    if original is None or ours is None or now is None:
        return original
    companions = [path for path in resource.companions if path in now and path in ours]
    return {**original, **{path: now[path] for path in companions if now[path] != ours[path]}}


def _compare_file(original: ResourceState, ours: ResourceState, now: ResourceState) -> ThreeWayResult:
    if ours is None or now is None:
        return ThreeWayResult("drifted", now, separable=False)
    text = merge_lines(ours["text"], now["text"], original["text"] if original else "")
    if text is None:
        return ThreeWayResult("drifted", now, separable=False)
    if original is None and not text.strip():
        return ThreeWayResult("drifted", None)
    return ThreeWayResult("drifted", {**now, "text": text})


def _compare_mount(original: ResourceState, ours: Sequence[ResourceState], now: ResourceState) -> ThreeWayResult:
    """Compares only the options that Highwater changed."""
    if now is None or original is None:
        return ThreeWayResult("gone", now, separable=False)
    ours_options = [state for state in ours if state is not None]
    before, after = set(_options(original)), set(_options(ours_options[0]))
    touched = before ^ after
    present = _options(now)
    found = set(present) & touched
    restored = {**now, "options": ",".join([o for o in present if o not in after - before] + sorted(before - after))}
    if found == before & touched:
        return ThreeWayResult("back", now)
    if any(found == set(_options(state)) & touched for state in ours_options):
        return ThreeWayResult("in_force", restored)
    return ThreeWayResult("drifted", now, separable=False)


def _options(state: Mapping[str, str]) -> list[str]:
    return [option for option in state["options"].split(",") if option]


def _mask(text: str) -> str:
    digits = text.replace(",", "").lower()
    return (digits.lstrip("0") or "0") if digits else digits


def _list(text: str) -> str:
    """A list of CPUs without ranges."""
    cpus = parse_cpu_list(text)
    return text if cpus is None else ",".join(map(str, sorted(set(cpus))))
