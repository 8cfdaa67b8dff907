"""`highwater tune waits`: what the kernel makes a broker wait for, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from signal import SIGINT, getsignal, signal
from types import FrameType
from typing import Annotated, Final, Literal

import typer
from rich.console import Console
from rich.text import Text

from ...common.quantities import DURATION
from ...common.units import NANOSECONDS, duration_text, percent_text, plural
from ..errors import TuningError
from ..waits.recording import find_process, record
from ..waits.summary import Waits, summarize
from .documents import print_document
from .options import JsonOption, errors_in_one_line
from .printing import Rows, console

_LONGEST_S: Final = 3600.0


@dataclass(frozen=True)
class WaitsDocument:
    """processes: the one that was asked for first, then those that it started. at_least_s: shorter waits are left out.

    lost_events: above 0 there may be more waits than these.
    """

    processes: tuple[int, ...]
    seconds: float
    at_least_s: float
    waits: tuple[Waits, ...]
    waited_for_processor_s: float
    lost_events: int
    has_ended: bool
    schema: Literal["tuning.waits/1"] = "tuning.waits/1"


def waits(
    process: Annotated[str, typer.Argument(metavar="PROCESS", help="A process id, or a service unit that runs.")],
    seconds: Annotated[float, typer.Option(help="Seconds to watch; Ctrl-C ends it earlier.")] = 30.0,
    at_least: Annotated[str, typer.Option("--at-least", metavar="TIME", help="Leave out shorter waits.")] = "1ms",
    as_json: JsonOption = False,
) -> None:
    """Watch what the kernel makes a broker wait for: the journal, write-back, dirty pages, cold reads, locks.

    For Highwater and for Apache Kafka. Changes nothing; the kernel's own trace is read, as root, and the broker's speed
    changes little. All processes that PROCESS started are watched too.

    Exit codes: 0, or 2 for a usage error or a kernel that cannot trace this.
    """
    with errors_in_one_line():
        if not 0 < seconds <= _LONGEST_S:
            raise TuningError(f"--seconds {seconds:g} is not above 0 and at most {_LONGEST_S:.0f}")
        try:
            at_least_s = float(DURATION.above_zero(at_least) / NANOSECONDS["s"])
        except ValueError as error:
            raise TuningError(f"--at-least: {error}") from None
        watched = find_process(process)
        with _until_interrupted() as goes_on:
            recorded = record(watched, seconds, goes_on)
    found = WaitsDocument(
        processes=recorded.processes,
        seconds=recorded.seconds,
        at_least_s=at_least_s,
        waits=summarize(recorded.sleeps, frozenset(recorded.processes), at_least_s),
        waited_for_processor_s=recorded.waited_for_processor_s,
        lost_events=recorded.lost_events,
        has_ended=recorded.has_ended,
    )
    if as_json:
        print_document(found)
    else:
        print_waits(console(), found)


def print_waits(out: Console, found: WaitsDocument) -> None:
    """Print the answer, a row for each kind of wait, and what changes it."""
    out.print(_answer(found), end="\n\n")
    if found.waits:
        header = ("threads", "call", "waited for", "times", "longest", "together")
        cells = [
            (
                row.threads,
                row.call,
                row.text if row.cause != "other" else f"{row.text} ({row.function})",
                str(row.count),
                duration_text(row.longest_s),
                duration_text(row.total_s),
            )
            for row in found.waits
        ]
        rows = Rows(out, header, cells)
        for row, texts in zip(found.waits, cells, strict=True):
            rows.print([Text(text, style="" if row.answers_clients else "dim") for text in texts])
        out.print()
    if found.waited_for_processor_s:
        share = percent_text(found.waited_for_processor_s / found.seconds)
        out.print(
            "Main threads were ready to run, and no processor was free, for "
            f"{duration_text(found.waited_for_processor_s)} ({share} of the time)."
        )
    knobs = dict.fromkeys(knob for row in found.waits if row.answers_clients for knob in row.knobs)
    if knobs:
        out.print(
            f"Knobs that change it: {', '.join(knobs)}. `highwater tune explain KNOB` explains one, "
            "`highwater tune prove KNOB` measures it here."
        )
    if found.lost_events:
        out.print(
            Text(
                f"{plural(found.lost_events, 'event')} came faster than they were read and are lost: there may be more "
                "waits than these.",
                style="yellow",
            )
        )


def _answer(found: WaitsDocument) -> Text:
    span = f"In {duration_text(found.seconds)}"
    if found.has_ended:
        span += f", until process {found.processes[0]} ended,"
    of_clients = [row for row in found.waits if row.answers_clients]
    if not of_clients:
        others = " Only other threads did." if found.waits else ""
        return Text(
            f"{span} no thread that answers clients waited {duration_text(found.at_least_s)} or more in the kernel."
            f"{others}",
            style="green",
        )
    count = sum(row.count for row in of_clients)
    total_s = sum(row.total_s for row in of_clients)
    longest_s = max(row.longest_s for row in of_clients)
    of_causes: dict[str, float] = {}
    for row in of_clients:
        of_causes[row.text] = of_causes.get(row.text, 0.0) + row.total_s
    text, most_s = max(of_causes.items(), key=lambda item: item[1])
    return Text(
        f"{span} threads that answer clients waited {plural(count, 'time')} for {duration_text(found.at_least_s)} or "
        f"more in the kernel: {duration_text(longest_s)} at most, {duration_text(total_s)} together. "
        f"{percent_text(most_s / total_s)} of it: {text}.",
        style="yellow",
    )


@contextmanager
def _until_interrupted() -> Iterator[Callable[[], bool]]:
    """Gives a function that is True until Ctrl-C, which then does nothing else."""
    interrupted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)

    before = getsignal(SIGINT)
    signal(SIGINT, note)
    try:
        yield lambda: not interrupted
    finally:
        signal(SIGINT, before)
