"""Where the log was stored: fio's figures, the share of the page cache, the disk's backlog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from highwater.common.units import NONE, count_text, duration_text, percent_text, plural, size_text
from highwater.drawing.quantity import NS_PER_S
from highwater.reports.blocks import Block, Column, Field, Paragraph, Row, Table
from highwater.reports.cells import Run
from highwater.reports.medians import MedianColumn, median_table
from highwater.results.models import TrialSummary
from highwater.results.storage import CacheUse, StorageTarget, TargetProbe, WritebackUse

_JOBS: Final = {
    "sequential_append": "append, in order",
    "fsync": "append and fdatasync",
    "sequential_read": "read, in order",
    "random_read": "read, at random",
    "parallel_append": "append to many files",
}
_DROPS: Final = {"dropped": "dropped", "kept": "kept", "not_permitted": "kept: dropping is not permitted"}


def storage_blocks(run: Run) -> list[Block]:
    blocks: list[Block] = []
    if emulated := emulated_targets(run):
        blocks.append(Paragraph(emulation_text(emulated), "caution"))
    probes = run.result.probes()
    if probes is not None:
        if probes.skipped:
            blocks.append(Paragraph(f"fio did not probe the storage: {probes.skipped}", "note"))
        blocks += [
            Paragraph(f"fio could not probe {_probed(p)}: {p.problem}", "note") for p in probes.probes if p.problem
        ]
        if any(p.jobs for p in probes.probes):
            blocks.append(_probe_table(probes.probes))
    if (cache := _cache_table(run)) is not None:
        blocks.append(cache)
    return blocks


def emulated_targets(run: Run) -> list[StorageTarget]:
    targets = {t.summary.storage.name: t.summary.storage for t in run.result.trials}
    return [target for target in targets.values() if target.emulated]


def emulation_text(targets: Sequence[StorageTarget]) -> str:
    named = ", ".join(sorted(f"{t.name} ({t.emulation})" if t.emulation else t.name for t in targets))
    return (
        f"Emulated storage: {named} imitates a slower disk on a faster one; "
        "its figures are no measurement of such a disk."
    )


def target_label(target: StorageTarget) -> str:
    return f"{target.name} (emulated)" if target.emulated else target.name


def _probed(probe: TargetProbe) -> str:
    label = target_label(probe.target)
    return f"{label} on {probe.host}" if probe.host else label


def _probe_table(probes: Sequence[TargetProbe]) -> Table:
    columns = [
        Column("target", text=True),
        Column("when", text=True),
        Column("probe", text=True),
        Column("block", text=True),
        Column("rate"),
        Column("operations", "/s"),
        Column("p50", group="Latency"),
        Column("p99", group="Latency"),
        Column("max", group="Latency"),
    ]
    rows = [
        Row(
            [
                Field(_probed(probe)),
                Field(probe.moment),
                Field(_JOBS[job.name] if job.files == 1 else f"append to {count_text(job.files)} files in turn"),
                Field(f"{size_text(job.block_bytes)}{', direct' if job.direct else ''}"),
                Field(f"{size_text(job.bytes_per_s)}/s", sort=job.bytes_per_s),
                Field(count_text(job.operations_per_s), sort=job.operations_per_s),
                *(_latency(ns) for ns in (job.latency_p50_ns, job.latency_p99_ns, job.latency_max_ns)),
            ]
        )
        for probe in probes
        for job in probe.jobs
    ]
    versions = sorted({p.fio_version.removeprefix("fio-") for p in probes if p.fio_version})
    note = f"Measured by fio {', '.join(versions)} on the targets, before and after the trials." if versions else ""
    return Table(columns, rows, label="Storage probes", note=note, sortable=True)


def _latency(value_ns: int | None) -> Field:
    return Field(NONE) if value_ns is None else Field(duration_text(value_ns / NS_PER_S), sort=value_ns)


def _cache(read: Callable[[CacheUse], float | None]) -> Callable[[TrialSummary], float | None]:
    return lambda summary: read(summary.cache) if summary.cache else None


def _writeback(read: Callable[[WritebackUse], float | None]) -> Callable[[TrialSummary], float | None]:
    return lambda summary: read(summary.writeback) if summary.writeback else None


_READS, _WRITES = "Reads", "Writes"
_COLUMNS: Final = (
    MedianColumn(Column("from cache", group=_READS), _cache(lambda c: c.served_ratio), lambda v: percent_text(v, 4)),
    MedianColumn(Column("fetched", group=_READS), _cache(lambda c: c.fetched_bytes), size_text),
    MedianColumn(Column("read by the broker", group=_READS), _cache(lambda c: c.system_read_bytes), size_text),
    MedianColumn(Column("read by devices", group=_READS), _cache(lambda c: c.device_read_bytes), size_text),
    MedianColumn(Column("cache limit", group=_READS), _cache(lambda c: c.limit_bytes), size_text),
    MedianColumn(Column("log at the end", group=_WRITES), _writeback(lambda w: w.appended_bytes), size_text),
    MedianColumn(Column("written by devices", group=_WRITES), _writeback(lambda w: w.written_bytes), size_text),
    MedianColumn(Column("most dirty", group=_WRITES), _writeback(lambda w: w.dirty_max_bytes), size_text),
    MedianColumn(Column("most in write-back", group=_WRITES), _writeback(lambda w: w.writeback_max_bytes), size_text),
    MedianColumn(Column("unwritten at the end", group=_WRITES), _writeback(lambda w: w.unwritten_bytes), size_text),
    MedianColumn(Column("flushed in", group=_WRITES), _writeback(lambda w: w.flush_s), duration_text),
)


def _cache_table(run: Run) -> Table | None:
    summaries = [t.summary for cell in run.cells for t in cell.shown]
    caches = [s.cache for s in summaries if s.cache]
    methods = {c.method for c in caches}
    parts = ["Medians of the shown trials, with lowest–highest beneath."]
    if "system_reads" in methods:
        parts.append("Reads of the broker are what the kernel read from storage on behalf of its processes.")
    if "device_reads" in methods:
        parts.append("Reads of the devices include those of all other programs.")
    if drops := sorted({_DROPS[c.drop] for c in caches}):
        parts.append(f"The host's page cache before each trial: {'; '.join(drops)}.")
    if gave_up := sum(1 for s in summaries if s.writeback and s.writeback.flush_complete is False):
        parts.append(f"In {plural(gave_up, 'trial')} writing back was not finished in the time allowed.")
    return median_table(run, _COLUMNS, "Page cache and write-back", " ".join(parts))
