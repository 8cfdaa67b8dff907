"""Writes the live figures of a pipeline into its folder, for the page of `--watch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, get_args

from highwater.common.live_figures import Chart, LiveFigures
from highwater.common.page_process import PageProcess
from highwater.common.units import count_text, duration_text, plural, rate_text
from highwater.pipeline.run.progress import Pace
from highwater.pipeline.run.queries import FlowRun

_MOST_FLOWS: Final = 4
"""A chart has four lines, each with a colour of its own."""


def charts_of(flows: Sequence[str]) -> list[Chart]:
    """A line for each of the first flows."""
    lines = list(flows[:_MOST_FLOWS])
    return [
        Chart("rate", "Rows read", "/s", lines),
        Chart("lag", "Lag, records", "", lines, is_peak=True),
        Chart("state", "Rows in state", "", lines, is_peak=True),
        Chart("batch", "Time of a batch", "s", lines, is_peak=True),
        Chart("sink", "Of that, computing rows and writing them to the sink", "s", lines, is_peak=True),
    ]


class PipelineFigures:
    """The flows of a run as figures and a sentence."""

    def __init__(self, folder: Path, name: str, flows: Sequence[str], again: str) -> None:
        """again: the command that continues the run if it dies."""
        self._live = LiveFigures(folder, name, charts_of(flows), again)
        self._runs: dict[str, FlowRun] = {}
        self.answer = "The run has ended."
        """What is said at the end."""
        self._live.say("Flows begin.")

    def progress(self, run: FlowRun) -> None:
        """To be called when a flow has finished a batch."""
        self._runs[run.flow.name] = run
        figures: dict[str, float | None] = {}
        for name, each in self._runs.items():
            progress = each.progress
            figures |= {
                f"rate.{name}": progress.rows_per_s_now,
                f"lag.{name}": progress.lag,
                f"state.{name}": progress.state_rows,
                f"batch.{name}": progress.batch_s,
                f"sink.{name}": progress.sink_s,
            }
        self._live.figures(figures, sentence_of(list(self._runs.values())))

    def finish(self) -> None:
        self._live.finish(self.answer)


@contextmanager
def live_figures(
    folder: Path, name: str, flows: Sequence[str], again: str, page: PageProcess | None
) -> Iterator[PipelineFigures]:
    """Figures for as long as flows run; `page` serves them until it has shown how they ended."""
    figures = PipelineFigures(folder, name, flows, again)
    if page is not None:
        page.start(folder)
    try:
        yield figures
    finally:
        figures.finish()
        if page is not None:
            page.finish()


def sentence_of(runs: Sequence[FlowRun]) -> str:
    """`Keeps up. per_minute: 24,000/s, lag 0, a batch takes 1.2 s.`, with a part for each of the first flows."""
    parts = []
    for run in runs[:_MOST_FLOWS]:
        progress = run.progress
        lag = "" if progress.lag is None else f", lag {count_text(progress.lag)}"
        took = "" if progress.batch_s is None else f", a batch takes {duration_text(progress.batch_s)}"
        parts.append(f"{run.flow.name}: {rate_text(progress.rows_per_s_now)}{lag}{took}")
    more = len(runs) - _MOST_FLOWS
    return _pace(runs) + "; ".join([*parts, *([f"{plural(more, 'more flow')}"] if more > 0 else [])]) + "."


def _pace(runs: Sequence[FlowRun]) -> str:
    """`Keeps up. `, or which flow does worst; empty if too little is known."""
    known = [(run.progress.pace, run.flow.name) for run in runs]
    for pace in get_args(Pace):
        if names := [name for found, name in known if found == pace]:
            is_of_all = len(names) == len(runs)
            return f"{pace[:1].upper()}{pace[1:]}. " if is_of_all else f"{', '.join(names)}: {pace}. "
    return ""
