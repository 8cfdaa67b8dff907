"""Prints a calibration for people."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from highwater.common.figure_table import FigureTable
from highwater.common.units import duration_ns_text, percent_text, rate_text, ratio_text, size_text
from highwater.results.analysis.conclusions import HEADLINES
from highwater.results.calibration import Calibration, ConsumerCeiling, GeneratorCeiling


def print_calibration(calibration: Calibration, out: Path) -> None:
    console = Console(highlight=False)
    console.print("[bold]load generator[/], without a broker")
    for ceiling in calibration.ceilings:
        console.print(_figures(ceiling, ceiling.shape.text), soft_wrap=True)
    if calibration.consumer_ceilings:
        console.print("\n[bold]consumers[/], with all there to read")
    for read in calibration.consumer_ceilings:
        console.print(_figures(read, read.shape.text), soft_wrap=True)
    loopback = calibration.loopback
    console.print(
        f"\n[bold]loopback[/] {size_text(loopback.bytes_per_s)}/s, round trip p50 "
        f"{duration_ns_text(loopback.round_trip_p50_ns)}, p99 {duration_ns_text(loopback.round_trip_p99_ns)}"
    )
    for probe in calibration.storage:
        figures = [f"{job.name.replace('_', ' ')} {size_text(job.bytes_per_s)}/s" for job in probe.jobs]
        emulated = " (emulated)" if probe.target.emulated else ""
        console.print(
            f"[bold]storage {escape(probe.target.name)}[/]{emulated} "
            + escape(", ".join(figures) or probe.problem or "not probed"),
            soft_wrap=True,
        )
    if calibration.noise:
        console.print("\n[bold]noise[/]: 95 % of pairs of the same thing differ by at most")
        _noise(calibration).print_to(console)
    if calibration.launchers:
        console.print("\n[bold]Spark ÷ plain processes[/], paired by block")
        _launchers(calibration).print_to(console)
    for note in calibration.notes:
        console.print(f"note: {escape(note)}", soft_wrap=True)
    console.print(f"calibration: {escape(str(out))}", soft_wrap=True)


def _figures(ceiling: GeneratorCeiling | ConsumerCeiling, of: str) -> str:
    lowest, highest = min(ceiling.values_per_s), max(ceiling.values_per_s)
    trials = len(ceiling.values_per_s)
    spread = f"{rate_text(lowest)}–{rate_text(highest)} in {trials} trials" if trials > 1 else "1 trial"
    return (
        f"{rate_text(ceiling.ceiling_per_s):>13} ({spread}), {size_text(ceiling.ceiling_bytes_per_s)}/s, "
        f"{duration_ns_text(round(ceiling.cpu_ns_per_record))} of CPU a record: {escape(of)}"
    )


def _noise(calibration: Calibration) -> FigureTable:
    table = FigureTable(show_header=False)
    table.add_names("")
    table.add_figures("", "", justify="left")
    for item in calibration.noise:
        if item.metric in HEADLINES:
            bound = "not known" if item.bound95_ratio is None else percent_text(item.bound95_ratio)
            table.add_row(item.metric, bound, f"{item.n_pairs} pairs")
    return table


def _launchers(calibration: Calibration) -> FigureTable:
    table = FigureTable(show_header=False)
    table.add_names("")
    table.add_figures("", "", "", justify="left")
    for item in calibration.launchers:
        if item.metric in HEADLINES:
            interval = "no interval" if item.ci95 is None else f"95 %: {'–'.join(map(ratio_text, item.ci95))}"
            table.add_row(item.metric, ratio_text(item.ratio), interval, item.verdict.replace("_", " "))
    return table
