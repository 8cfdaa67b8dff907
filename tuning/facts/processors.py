"""Reads processors: their number, NUMA nodes, frequency governors and the clock source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .model import Choice, NumaNode
from .reading import Reader, number_in, parse_cpu_list, parse_kibibytes

_CPU: Final = "/sys/devices/system/cpu"
_NODES: Final = "/sys/devices/system/node"
_CLOCK: Final = "/sys/devices/system/clocksource/clocksource0"
# x86 and POWER; "Processor" on 32-bit ARM. 64-bit ARM has no such line.
_MODEL: Final = r"^(?:model name|Model|cpu|Processor)\s*:\s*(.+)$"


@dataclass(frozen=True)
class Processors:
    model: str | None
    online: tuple[int, ...]
    isolated: tuple[int, ...]
    numa_nodes: tuple[NumaNode, ...]
    governors: dict[str, Choice]
    boost: bool | None
    smt: bool | None
    clocksource: Choice


def read_processors(reader: Reader) -> Processors:
    return Processors(
        model=reader.match("cpu_model", "/proc/cpuinfo", _MODEL),
        online=_online(reader),
        isolated=parse_cpu_list(reader.optional(f"{_CPU}/isolated") or "") or (),
        numa_nodes=_numa_nodes(reader),
        governors=_governors(reader),
        boost=_boost(reader),
        smt=_flag(reader.optional(f"{_CPU}/smt/active")),
        clocksource=Choice(
            reader.optional(f"{_CLOCK}/current_clocksource") or None,
            tuple((reader.optional(f"{_CLOCK}/available_clocksource") or "").split()),
        ),
    )


def _online(reader: Reader) -> tuple[int, ...]:
    path = f"{_CPU}/online"
    text = reader.required("cpu_count", path)
    if text is None:
        return ()
    cpus = parse_cpu_list(text)
    if not cpus:
        reader.unknown["cpu_count"] = f"{path} holds {text!r}"
    return cpus or ()


def _numa_nodes(reader: Reader) -> tuple[NumaNode, ...]:
    names = [name for name in reader.files.names(_NODES) if re.fullmatch(r"node\d+", name)]
    return tuple(
        NumaNode(
            number=number_in(name),
            cpus=parse_cpu_list(reader.optional(f"{_NODES}/{name}/cpulist") or "") or (),
            memory_bytes=parse_kibibytes(reader.optional(f"{_NODES}/{name}/meminfo") or "", "MemTotal"),
        )
        for name in sorted(names, key=number_in)
    )


def _governors(reader: Reader) -> dict[str, Choice]:
    found = {}
    for name in sorted(reader.files.names(f"{_CPU}/cpufreq"), key=number_in):
        current = reader.optional(f"{_CPU}/cpufreq/{name}/scaling_governor")
        if name.startswith("policy") and current is not None:
            available = reader.optional(f"{_CPU}/cpufreq/{name}/scaling_available_governors") or ""
            found[name] = Choice(current, tuple(available.split()))
    return found


def _boost(reader: Reader) -> bool | None:
    """Whether boost is on. intel_pstate has an own switch with the opposite meaning."""
    no_turbo = _flag(reader.optional(f"{_CPU}/intel_pstate/no_turbo"))
    return not no_turbo if no_turbo is not None else _flag(reader.optional(f"{_CPU}/cpufreq/boost"))


def _flag(text: str | None) -> bool | None:
    return {"1": True, "0": False}.get(text or "")
