"""What the rounds of a drill prove: counts, the sentence at the end, the exit status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.common.exit_codes import EXIT_INVALID, EXIT_OK, EXIT_REGRESSION
from highwater.common.units import plural
from highwater.pipeline.drill.model import Moment, RoundResult, moment_name

REPLAYING_SHARE_MIN: Final = 0.2


@dataclass(frozen=True, slots=True)
class Verdict:
    rounds: int
    """How many rounds reached their moment and killed their victim."""
    not_reached: int
    replaying_rounds: int
    replays_skipped: int
    lost: int
    twice: int
    partial_batches: int
    times_by_moment: dict[str, int]
    missing: tuple[str, ...]
    """Why this is no proof, although nothing was lost or twice."""

    @property
    def exit_status(self) -> int:
        if self.lost or self.twice or self.partial_batches:
            return EXIT_REGRESSION
        return EXIT_INVALID if self.missing else EXIT_OK

    @property
    def sentence(self) -> str:
        partial = f", {self.partial_batches:,} batches seen in part" if self.partial_batches else ""
        text = (
            f"{self.lost:,} lost, {self.twice:,} twice{partial} in {plural(self.rounds, 'round')}; "
            f"{plural(self.replays_skipped, 'replay')} of committed batches skipped"
        )
        if self.exit_status == EXIT_OK:
            return f"Proven: {text}."
        if self.exit_status == EXIT_INVALID:
            return f"Not proven yet: {'; '.join(self.missing)}. So far {text}."
        return f"Not exactly once: {text}."


def judge(results: Sequence[RoundResult], moments: Sequence[Moment], *, times_min: int, skips: bool) -> Verdict:
    """times_min: how often each moment has to come. skips: the sink recognises batches that it has committed.

    A round counts if its moment came and its victim was killed. What is lost or twice counts in any case.
    """
    counted = [each for each in results if each.reached]
    times = {moment_name(moment): 0 for moment in moments}
    for each in counted:
        times[each.moment] = times.get(each.moment, 0) + 1
    replaying = sum(1 for each in counted if each.replays_skipped)
    missing = [f"{name} came {count} of {times_min} times" for name, count in times.items() if count < times_min]
    if skips and replaying < REPLAYING_SHARE_MIN * len(counted):
        missing.append(
            f"{replaying} of {len(counted)} rounds repeated a committed batch, fewer than {REPLAYING_SHARE_MIN:.0%}"
        )
    return Verdict(
        rounds=len(counted),
        not_reached=len(results) - len(counted),
        replaying_rounds=replaying,
        replays_skipped=sum(each.replays_skipped for each in results),
        lost=max((each.lost for each in results), default=0),
        twice=max((each.twice for each in results), default=0),
        partial_batches=sum(each.partial_batches for each in results),
        times_by_moment=times,
        missing=tuple(missing),
    )


def table(results: Sequence[RoundResult], verdict: Verdict) -> str:
    """Markdown: a row for each moment."""
    lines = [
        "| moment | rounds | victims | rounds with a replay skipped | lost | twice |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for name in verdict.times_by_moment:
        of_it = [each for each in results if each.moment == name and each.reached]
        victims = ", ".join(
            f"{victim} {sum(1 for each in of_it if each.victim == victim)}"
            for victim in sorted({each.victim for each in of_it})
        )
        skipped = sum(1 for each in of_it if each.replays_skipped)
        lost, twice = (max((getattr(each, what) for each in of_it), default=0) for what in ("lost", "twice"))
        lines.append(f"| {name} | {len(of_it)} | {victims} | {skipped} | {lost} | {twice} |")
    return "\n".join(lines) + "\n"
