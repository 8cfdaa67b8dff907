"""Page cache sizing: memory left by the broker, and how many seconds of log fit into it.

Apache Kafka has a Java heap, Highwater's broker has none. Both are calculated for the same host and workload.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Final

from ..common.units import percent_text, size_text, wait_text
from .errors import TuningError
from .facts.model import Facts
from .facts.reading import parse_kibibytes, parse_whole
from .formulas.memory import dirty_background_bytes, dirty_bytes, disks_write_rate
from .model import NotApplicable
from .quantities import format_byte_rate
from .workload import Broker, Workload

# Apache Kafka 3.9, Hardware and OS: memory is estimated as the write throughput times 30.
_KAFKA_RULE_S: Final = 30.0
# The rest is for dirty pages, other files, and free pages that reclaim needs.
_CACHE_SHARE: Final = 0.85
# Assumption about a broker's JVM beside its heap: class data, compiled code, stacks of threads, direct buffers.
_JVM_BESIDE_HEAP_BYTES: Final = 512 * 2**20
# AbstractIndex: lookups near the end of a log touch the last 8192 bytes of an index; each segment has two.
_WARM_INDEX_BYTES: Final = 2 * 8192
# net/ipv4/tcp.c, tcp_init_mem(): the maximum is 3/2 of a sixteenth of memory where nobody sets it.
_DEFAULT_TCP_MEM_SHARE: Final = 3 / 32
_DEFAULT_PAGE_BYTES: Final = 4096


@dataclass(frozen=True)
class BudgetLine:
    """One line of a calculation. `bytes` is None when the line is not a size, or the size is unknown."""

    label: str
    bytes: int | None
    text: str
    formula: str


@dataclass(frozen=True)
class Budget:
    """How the memory of the host is divided with this broker. The lines have the same labels for every broker."""

    broker: Broker
    lines: tuple[BudgetLine, ...]
    cache_bytes: int | None
    cache_s: float | None
    """How many seconds of writes the page cache holds."""
    needed_bytes: int
    """Page cache that holds the lag window, at least 30 s."""
    missing_bytes: int | None
    """Memory to add to the host for that; 0: the memory suffices."""
    verdict: str


@dataclass(frozen=True)
class Sizing:
    """budgets: the workload's broker first, then the other one. disks: write-back and space."""

    budgets: tuple[Budget, Budget]
    disks: tuple[BudgetLine, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def size_host(facts: Facts, workload: Workload) -> Sizing:
    """Calculate the page cache for Highwater and for Apache Kafka, and the load on the disks."""
    other: Broker = "apache-kafka" if workload.broker == "highwater" else "highwater"
    return Sizing(
        budgets=(_budget(facts, workload, workload.broker), _budget(facts, workload, other)),
        disks=_disk_lines(facts, workload),
        warnings=_warnings(facts, workload),
    )


def measured_write_rate(text: str, origin: str) -> int:
    """Bytes per second of one disk, from the output of `highwater bench storage probe --json`.

    origin: the name of the text in messages. Raises TuningError for any other text.
    """
    try:
        jobs = json.loads(text)["jobs"]
        return round(float(next(job["bytes_per_s"] for job in jobs if job["name"] == "sequential_append")))
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise TuningError(
            f"{origin} is not a storage probe; make one with: highwater bench storage probe DIR --json"
        ) from error


def _budget(facts: Facts, workload: Workload, broker: Broker) -> Budget:
    memory = _memory(facts)
    takers = (_process(workload, broker), _others(facts, workload), _sockets(facts, workload), _reserve(facts))
    needed, needed_line = _needed(workload)
    if memory.bytes is None:
        return Budget(broker, (memory, *takers, needed_line), None, None, needed, None, memory.formula)
    spare = memory.bytes - sum(line.bytes or 0 for line in takers)
    left = max(0, spare)
    cache = round(_CACHE_SHARE * left)
    missing = max(0, round(needed / _CACHE_SHARE) - spare)
    index = workload.partitions * _WARM_INDEX_BYTES
    cache_s = max(0, cache - index) / workload.write_bytes_per_s
    lines = (
        memory,
        *takers,
        _size("left", left, "memory − all of the above"),
        _size(
            "page cache",
            cache,
            f"{_CACHE_SHARE:g} × {size_text(left)}; the rest is for other files and for reclaim to work ahead",
        ),
        BudgetLine(
            "holds",
            None,
            f"{wait_text(cache_s)} of writes",
            f"({size_text(cache)} − {size_text(index)} of indexes) / {_write_rate(workload)}",
        ),
        needed_line,
    )
    return Budget(broker, lines, cache, cache_s, needed, missing, _verdict(workload, cache_s, missing, spare))


def _verdict(workload: Workload, cache_s: float, missing: int, spare: int) -> str:
    asked = f"{wait_text(_window_s(workload))} are asked for"
    if not missing:
        return f"enough: consumers {wait_text(cache_s)} behind read from memory, {asked}"
    if spare < 0:
        return (
            f"too little: {size_text(-spare)} are missing before there is any page cache, and {asked}; "
            f"add {size_text(missing)} of memory"
        )
    return (
        f"too little: consumers more than {wait_text(cache_s)} behind read from disk, {asked}; "
        f"add {size_text(missing)} of memory, or spread the partitions"
    )


def _memory(facts: Facts) -> BudgetLine:
    total, limit = facts.memory.total_bytes, facts.memory.cgroup_limit_bytes
    if total is None:
        why = facts.unknown.get("memory.total_bytes", "the size of memory is not known")
        return BudgetLine("memory", None, "?", why)
    if limit is not None and limit < total:
        return _size(
            "memory", limit, f"the control group's limit; page cache is charged to it (host: {size_text(total)})"
        )
    return _size("memory", total, "MemTotal")


def _process(workload: Workload, broker: Broker) -> BudgetLine:
    if broker == "highwater":
        return _size("broker", workload.broker_rss_bytes, "resident memory, no heap (workload: broker_memory)")
    size = workload.heap_bytes + _JVM_BESIDE_HEAP_BYTES
    return _size(
        "broker",
        size,
        f"heap {size_text(workload.heap_bytes)} (workload: heap) + {size_text(_JVM_BESIDE_HEAP_BYTES)} "
        "of the JVM's own (assumed)",
    )


def _others(facts: Facts, workload: Workload) -> BudgetLine:
    """Memory that other processes use now; 0 in a control group, as the host's numbers do not apply to it."""
    total, available = facts.memory.total_bytes, facts.memory.available_bytes
    if _limited(facts):
        return _size("everything else", 0, "outside of this control group")
    if total is None or available is None:
        return BudgetLine("everything else", None, "?", facts.unknown.get("memory.available_bytes", "not known"))
    running = sum(_resident_bytes(facts, workload))
    reserve = _reserve(facts).bytes or 0
    text = f"MemTotal − MemAvailable {size_text(available)} − the kernel's reserve"
    if running:
        text += f" − {size_text(running)} of the broker that runs"
    return _size("everything else", max(0, total - available - running - reserve), f"{text}, in use now")


def _resident_bytes(facts: Facts, workload: Workload) -> list[int]:
    """Resident bytes of the running processes of the workload's units."""
    instances = (instance for unit in workload.units for instance in facts.unit(unit).instances)
    statuses = (facts.files.read(f"/proc/{instance.main_pid}/status").text or "" for instance in instances)
    return [size for status in statuses if (size := parse_kibibytes(status, "VmRSS")) is not None]


def _sockets(facts: Facts, workload: Workload) -> BudgetLine:
    """The smaller of what TCP may use and what these connections can fill."""
    page = facts.memory.page_bytes or _DEFAULT_PAGE_BYTES
    pages = _number(facts, "net/ipv4/tcp_mem", 2)
    receive, send = (_number(facts, f"net/ipv4/{name}", 2) for name in ("tcp_rmem", "tcp_wmem"))
    bounds: list[tuple[int, str]] = []
    if _limited(facts) and (limit := facts.memory.cgroup_limit_bytes) is not None:
        # tcp_mem belongs to the host. Buffers are charged to the group, and the kernel limits them when it is full.
        size = round(_DEFAULT_TCP_MEM_SHARE * limit)
        bounds.append((size, f"{percent_text(_DEFAULT_TCP_MEM_SHARE)} of the control group's limit (assumed)"))
    elif pages is not None:
        bounds.append((pages * page, f"net.ipv4.tcp_mem's maximum {size_text(pages * page)}"))
    elif facts.memory.total_bytes is not None:
        size = round(_DEFAULT_TCP_MEM_SHARE * facts.memory.total_bytes)
        bounds.append((size, f"net.ipv4.tcp_mem's usual maximum {size_text(size)} (not visible here)"))
    if receive is not None and send is not None:
        size = workload.connections * (receive + send)
        bounds.append((size, f"{workload.connections} connections × {size_text(receive + send)} (tcp_rmem + tcp_wmem)"))
    if not bounds:
        return BudgetLine("socket buffers", None, "?", "neither net.ipv4.tcp_mem nor tcp_rmem can be read")
    return _size(
        "socket buffers", min(bounds)[0], f"at most: the smaller of {' and '.join(text for _, text in bounds)}"
    )


def _reserve(facts: Facts) -> BudgetLine:
    if _limited(facts):
        return _size("kernel's reserve", 0, "part of the host's memory, not of this control group")
    kilobytes = _number(facts, "vm/min_free_kbytes", 0)
    if kilobytes is None:
        return BudgetLine("kernel's reserve", None, "?", "vm.min_free_kbytes cannot be read")
    return _size("kernel's reserve", kilobytes * 1024, "vm.min_free_kbytes")


def _needed(workload: Workload) -> tuple[int, BudgetLine]:
    window = _window_s(workload)
    index = workload.partitions * _WARM_INDEX_BYTES
    needed = round(workload.write_bytes_per_s * window) + index
    return needed, _size(
        "needed",
        needed,
        f"{_write_rate(workload)} × {wait_text(window)} (the longer of lag "
        f"{wait_text(workload.lag_window_s)} and Apache Kafka's rule of {_KAFKA_RULE_S:g} s) "
        f"+ {workload.partitions} partitions × {size_text(_WARM_INDEX_BYTES)} of indexes",
    )


def _disk_lines(facts: Facts, workload: Workload) -> tuple[BudgetLine, ...]:
    rate, rate_text = disks_write_rate(facts, workload)
    lines = [
        BudgetLine("written to the log", None, format_byte_rate(workload.write_bytes_per_s), "workload: write_rate"),
        BudgetLine("disks write", None, format_byte_rate(rate), rate_text.partition(" (")[2].rstrip(")")),
    ]
    for name, formula in (("vm.dirty_background_bytes", dirty_background_bytes), ("vm.dirty_bytes", dirty_bytes)):
        target = formula(facts, workload, "")
        if isinstance(target, NotApplicable):
            lines.append(BudgetLine(name, None, "–", target.reason))
        elif isinstance(target.value, int):
            flush = f"{wait_text(target.value / rate)} of the disks' work"
            lines.append(BudgetLine(name, target.value, f"{size_text(target.value)}, {flush}", target.formula))
    space = round(workload.write_bytes_per_s * workload.retention_s)
    lines.append(
        _size(
            "disk space",
            space,
            f"{_write_rate(workload)} × {wait_text(workload.retention_s)} (workload: retention)",
        )
    )
    return tuple(lines)


def _warnings(facts: Facts, workload: Workload) -> tuple[str, ...]:
    rate, rate_text = disks_write_rate(facts, workload)
    if workload.write_bytes_per_s <= rate:
        return ()
    problem = f"the log grows by {_write_rate(workload)} and the disks write {rate_text}"
    return (f"{problem}: more memory does not help; add disks or brokers",)


def _window_s(workload: Workload) -> float:
    return max(_KAFKA_RULE_S, workload.lag_window_s)


def _write_rate(workload: Workload) -> str:
    return format_byte_rate(workload.write_bytes_per_s)


def _limited(facts: Facts) -> bool:
    total, limit = facts.memory.total_bytes, facts.memory.cgroup_limit_bytes
    return total is not None and limit is not None and limit < total


def _number(facts: Facts, path: str, field: int) -> int | None:
    words = (facts.files.read(f"/proc/sys/{path}").text or "").split()
    return parse_whole(words[field]) if field < len(words) else None


def _size(label: str, size_bytes: int, formula: str) -> BudgetLine:
    return BudgetLine(label, size_bytes, size_text(size_bytes), formula)
