"""The sections of a report in their order: answer, validity, detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.common.units import plural
from highwater.drawing.quantity import as_sentence
from highwater.reports import settings
from highwater.reports.aims import aim_blocks
from highwater.reports.answers import answer_section, gate_section, search_section, slo_blocks
from highwater.reports.blocks import (
    Block,
    Bullet,
    Bullets,
    Code,
    Column,
    FactColumns,
    Field,
    Figure,
    Figures,
    Heading,
    Paragraph,
    Section,
    table,
)
from highwater.reports.cells import Run
from highwater.reports.changes import change_blocks, noise_blocks
from highwater.reports.curve import curve_figures
from highwater.reports.facets import FacetKeys, facet_figures
from highwater.reports.findings import finding_blocks
from highwater.reports.heatmap import partition_figures
from highwater.reports.host import host_figures
from highwater.reports.intervals import interval_figures
from highwater.reports.lifetime import lifetime_blocks
from highwater.reports.monitor import monitor_blocks
from highwater.reports.overview import overview_blocks
from highwater.reports.phases import phase_blocks
from highwater.reports.roofline import roofline_figures
from highwater.reports.spectrum import spectrum_figures
from highwater.reports.storage import storage_blocks
from highwater.reports.timelines import timeline_figures
from highwater.reports.verdict import verdict_section
from highwater.results.analysis.answer import answer_of
from highwater.results.files import ResultDirectoryError
from highwater.results.reader import RunResult
from highwater.results.salvage import FileFault

_METHOD: Final = """\
Load is open-loop unless the report says closed: the schedule fixes each record's send time beforehand, and latency \
runs from that intended time. So a broker that stalls cannot hide its latencies by slowing the load.
Produce latency ends when the acknowledgement arrives, end-to-end latency when the consumer receives the record. With \
acks=0 a record counts as acknowledged when the kernel has accepted it.
Percentiles come from one histogram per trial with three significant digits. Across trials the report gives the median \
of the trials' percentiles with its interval; it never averages percentiles.
Cells ran in random order within blocks. Ratios compare trials of the same block, so slow drift of the host cancels \
out; disturbances shorter than a trial do not.
Throughput over time belongs to the second in which things happened, latency over time to the second of the intended \
send. Long lines are drawn with fewer points (MinMaxLTTB), which include the lowest and the highest one.
Few trials show only large differences. A difference that is not shown may still exist.
An open load below saturation shows how the broker behaves at that load, not how much it could carry.
""".splitlines()
_MOST_WARNINGS: Final = 8
_SHARED_HOST: Final = (
    "The load generator ran on the same host as the driver and shared its cores with whatever else ran there."
)
_HERE_ONLY: Final = (
    "The figures hold for this host, storage, configuration and record shape. Nothing here says how they carry over to "
    "others."
)


def sections(result: RunResult, facets: FacetKeys) -> tuple[list[Section], list[Section]]:
    """The sections that answer, and all others that are not empty.

    Raises UnknownFactorError when `facets` names a factor that the run does not vary, ResultDirectoryError when a file
    is damaged and the directory is not salvaged.
    """
    for trial in result.trials:
        if not any(phase.name == "measure" for phase in trial.summary.phases):
            raise ResultDirectoryError(f"{trial.directory}: its summary names no measured phase, so it cannot be shown")
    run = Run.of(result)
    gate, search = result.gate(), result.search()
    found = [
        *([gate_section(gate)] if gate else []),
        *([search_section(search)] if search else []),
        Section("aims", "What was aimed at", aim_blocks(run), nav="Aims"),
        Section("findings", "Other metrics", finding_blocks(run), nav="Others"),
        Section("compared", "What was compared, and how", settings.how_compared(run), nav="Compared"),
        Section("cells", "Cells", overview_blocks(run)),
        Section("changes", "Change against the first cell", change_blocks(run), nav="Changes"),
        _charts("curve", "Latency over load", curve_figures(run), nav="Load"),
        _charts("spectra", "Latency by percentile", spectrum_figures(run), nav="Percentiles"),
        _charts("time", "Over time", timeline_figures(run)),
        _charts("every-trial", "Every trial", interval_figures(run)),
        _charts("grid", "By factor", facet_figures(run, facets), nav="Factors"),
        _charts("host", "The host meanwhile", host_figures(run), nav="Host"),
        Section("monitor", "What the monitor saw meanwhile", monitor_blocks(run), nav="Monitor"),
        Section("storage", "Storage", storage_blocks(run)),
        _charts("roofline", "How near to the ceilings", roofline_figures(run), nav="Ceilings"),
        _charts("by-partition", "By partition", partition_figures(run), nav="Partitions"),
        Section("phases", "Steady state, backlog, transactions", phase_blocks(run), nav="Phases"),
        Section("lifetime", "Start, memory, restart", lifetime_blocks(run), nav="Memory"),
        Section("noise", "Noise floor", [*noise_blocks(run), *_warnings(run)], nav="Noise"),
        Section("trials", "Trials in the order they ran", [settings.trial_table(run)], nav="Trials"),
        Section("setup", "Set-up", _setup(run)),
        Section("environment", "Environment", _environment(run)),
        Section("objectives", "Service level objectives", slo_blocks(run), nav="Objectives"),
        Section("repeat", "Repeat this run", _repeat(result), nav="Repeat"),
        Section("method", "Method and known limits", _method(run), nav="Method"),
        Section("files", "Result files", _files(result), nav="Files"),
    ]
    lead = [answer_section(answer_of(result)), verdict_section(run)]
    # Damage last, because series are read while the other sections are made.
    return [*damage_sections(result.faults()), *lead], [section for section in found if section.blocks]


def _charts(name: str, title: str, figures: Sequence[Figure], nav: str = "") -> Section:
    return Section(name, title, [Figures(figures)] if figures else [], nav=nav)


def _warnings(run: Run) -> list[Block]:
    """The warnings of the analysis."""
    texts = [_with_label(run, text) for text in (run.analysis.warnings if run.analysis else [])]
    if (beyond := len(texts) - _MOST_WARNINGS) > 0:
        texts[_MOST_WARNINGS:] = [f"And {plural(beyond, 'more warning')} like these."]
    return [Bullets([Bullet(text) for text in texts])] if texts else []


def _with_label(run: Run, warning: str) -> str:
    """Replace the cell's key at the start of a warning by the report's label."""
    key, colon, rest = warning.partition(": ")
    known = any(cell.key == key for cell in run.cells)
    return f"{run.label(key)}: {rest}." if colon and known else as_sentence(warning)


def _setup(run: Run) -> list[Block]:
    systems = settings.system_facts(run)
    blocks: list[Block] = [FactColumns(systems)] if systems else []
    return [*blocks, Heading("Workload"), Code(settings.workload_text(run.result.manifest.workload))]


def _environment(run: Run) -> list[Block]:
    blocks: list[Block] = []
    if (profiles := settings.profile_table(run)) is not None:
        blocks += [Heading("What host profiles changed"), profiles]
    if (tuning := settings.tuning_table(run.result)) is not None:
        blocks += [Heading("Host tuning when the run began"), tuning]
    if facts := settings.environment_facts(run.result):
        return [*blocks, FactColumns(facts)]
    return [*blocks, Paragraph("No facts about the host were recorded.")]


def _repeat(result: RunResult) -> list[Block]:
    return [
        Code(settings.command_to_repeat(result), "command"),
        Paragraph(
            "The same workload file, seed and host give the same cells in the same order. A result directory is never "
            "overwritten: name a new one.",
            "note",
        ),
    ]


def _method(run: Run) -> list[Block]:
    launchers = {t.summary.generator.launcher for t in run.result.trials}
    shared = any(name.startswith(("spark local", "local", "process")) for name in launchers)
    return [Bullets([Bullet(text) for text in (*_METHOD, *([_SHARED_HOST] if shared else []), _HERE_ONLY)])]


def _files(result: RunResult) -> list[Block]:
    return [
        Paragraph(
            "Every figure of this report was computed from these files. To check that they are unchanged, save the "
            "list as SHA256SUMS in the result directory and run “sha256sum --check SHA256SUMS” there; "
            "“highwater bench verify” also recomputes the percentiles."
        ),
        Code(settings.checksums(result), "sums", folded="SHA-256 of each file"),
    ]


_DAMAGED: Final = (
    "These files are damaged, missing, or not as the run left them. What needs a damaged or missing file is left out "
    "of this report. What was computed from a changed file may be wrong. Restore the directory from a copy, or check "
    "it with “highwater bench verify”."
)


def damage_sections(faults: Sequence[FileFault]) -> list[Section]:
    """One section; none for a directory that is whole."""
    if not faults:
        return []
    header = [Column("file", text=True), Column("what is wrong", text=True, prose=True)]
    found = table(header, [[Field(fault.file), Field(fault.what, tone="bad")] for fault in faults], "Damaged files")
    title = f"Damaged directory: {plural(len(faults), 'file')}"
    return [Section("damage", title, [Paragraph(_DAMAGED, "caution"), found], "bad", nav="Damage")]
