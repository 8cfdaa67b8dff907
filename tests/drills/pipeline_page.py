"""Write docs/results/pipeline-drill.md from the rounds that drills have left below their folders.

python -m tests.drills.pipeline_page results/pipeline-drill results/consumer-drill > docs/results/pipeline-drill.md
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from highwater.pipeline.drill.kinds import KINDS
from highwater.pipeline.drill.model import RoundResult, moment_name
from highwater.pipeline.drill.results import ASKED, ROUNDS
from highwater.pipeline.drill.verdict import REPLAYING_SHARE_MIN
from tests.drills.consumer import MOMENTS

ROUNDS_WANTED: Final = 200
TIMES_WANTED: Final = 10
_CLUSTERS: Final = {
    "highwater": "ours",
    "a broker of the drill": "ours",
    "3.9": "Apache Kafka 3.9",
    "4": "Apache Kafka 4",
}
_ALL: Final = "all brokers"
_CONSUMER: Final = "consumer in "


@dataclass(slots=True)
class Drilled:
    """All rounds of one sink on one system."""

    sink: str
    cluster: str
    without: str
    rounds: list[RoundResult] = field(default_factory=list)

    @property
    def reached(self) -> list[RoundResult]:
        return [each for each in self.rounds if each.reached]

    @property
    def replaying(self) -> int:
        return sum(1 for each in self.reached if each.replays_skipped)

    @property
    def lost(self) -> int:
        return max((each.lost for each in self.rounds), default=0)

    @property
    def twice(self) -> int:
        return max((each.twice for each in self.rounds), default=0)

    @property
    def partial(self) -> int:
        return sum(each.partial_batches for each in self.rounds)

    @property
    def is_consumer(self) -> bool:
        return self.sink.startswith(_CONSUMER)

    @property
    def least(self) -> int:
        """How often the rarest moment of this sink came."""
        times = Counter(each.moment for each in self.reached)
        if self.is_consumer:
            return min(times[moment_name(moment)] for moment in MOMENTS)
        return min(times[name] for name in (*(point.value for point in KINDS[self.sink].points), "random"))

    @property
    def is_proven(self) -> bool:
        enough = len(self.reached) >= ROUNDS_WANTED and self.least >= TIMES_WANTED
        replays = self.is_consumer or self.replaying >= REPLAYING_SHARE_MIN * len(self.reached)
        return enough and replays and not (self.lost or self.twice or self.partial)


def read(folders: Iterable[Path]) -> list[Drilled]:
    """What is below the folders, of each sink on each system together."""
    found: dict[tuple[str, str, str], Drilled] = {}
    for folder in folders:
        for file in sorted(folder.rglob(ROUNDS)):
            asked = json.loads((file.parent / ASKED).read_text("utf-8"))
            cluster = _CLUSTERS.get(asked["cluster"], asked["cluster"])
            key = (asked["sink"], cluster, asked["without"])
            # A drill that runs has perhaps not finished its last line.
            lines = [line for line in file.read_text("utf-8").splitlines() if line.endswith("}")]
            found.setdefault(key, Drilled(*key)).rounds += [RoundResult(**json.loads(line)) for line in lines]
    clusters, sinks = list(dict.fromkeys(_CLUSTERS.values())), list(KINDS)
    return sorted(
        (each for each in found.values() if each.rounds),
        key=lambda each: (
            clusters.index(each.cluster) if each.cluster in clusters else len(clusters),
            sinks.index(each.sink) if each.sink in sinks else len(sinks),
            each.sink,
        ),
    )


def over_all_brokers(drilled: Sequence[Drilled]) -> list[Drilled]:
    """The rounds of each sink on all brokers together."""
    found: dict[str, Drilled] = {}
    for each in drilled:
        found.setdefault(each.sink, Drilled(each.sink, _ALL, "")).rounds += each.rounds
    return list(found.values())


def page(drilled: Sequence[Drilled], date: str) -> str:
    whole = [each for each in drilled if not each.without]
    pipelines = [each for each in whole if not each.is_consumer]
    consumers = [each for each in whole if each.is_consumer]
    parts = [
        "# What the drill of a pipeline found\n",
        _headline(pipelines, consumers),
        _table([*over_all_brokers(pipelines), *pipelines]),
        "Least: how often the rarest moment of this sink came.\n",
        f"Rounds by moment: {_counts(pipelines, 'moment')}.\nBy victim: {_counts(pipelines, 'victim')}.\n",
    ]
    if consumers:
        parts += ["## The consumer without Spark\n", _table(consumers)]
        parts.append(
            f"Rounds by moment: {_counts(consumers, 'moment')}.\nBy victim: {_counts(consumers, 'victim')}. "
            "A frozen member wakes up after the other has its partitions.\n"
        )
    parts += ["## Without a safeguard\n", _controls([each for each in drilled if each.without])]
    parts.append(
        "A sink that is at least once (`tests/pipeline/drill/sinks/careless.py`) is found out in a test, and so is a "
        "consumer that\ncommits rows ahead of offsets.\n"
    )
    parts.append(
        f"Measured up to {date} on two cores that were shared with much else. Again, going on where it was stopped:\n"
        "\n```\nmake drill-pipeline\n.venv/bin/python -m tests.drills.pipeline_page results/pipeline-drill "
        "results/consumer-drill > docs/results/pipeline-drill.md\n```"
    )
    return "\n".join(parts)


def _headline(pipelines: Sequence[Drilled], consumers: Sequence[Drilled]) -> str:
    total = sum(len(each.reached) for each in pipelines)
    replaying = sum(each.replaying for each in pipelines)
    broken = [
        f"{each.sink} on {each.cluster}" for each in (*pipelines, *consumers) if each.lost or each.twice or each.partial
    ]
    proven = sum(1 for each in pipelines if each.is_proven)
    found = (
        f"**Records were lost, doubled or seen in part: {', '.join(broken)}.**"
        if broken
        else f"Nothing was lost and nothing is there twice in {total} rounds with Spark; in {replaying} of them a "
        "batch that was committed\ncame again and was skipped."
        + (
            f" The same holds for {sum(len(each.reached) for each in consumers)} rounds without Spark."
            if consumers
            else ""
        )
    )
    aim = (
        f"{ROUNDS_WANTED} rounds, each moment {TIMES_WANTED} times, and {REPLAYING_SHARE_MIN:.0%} of the rounds with a "
        "replay"
    )
    together = over_all_brokers(pipelines)
    enough = sum(1 for each in together if each.is_proven)
    state = (
        f"Over all brokers together, {enough} of {len(together)} sinks have that; on each broker by itself, "
        f"{proven} of {len(pipelines)}."
    )
    if proven < len(pipelines):
        state = f"**{state}\nWhere it is missing, this is no proof yet.**"
    return (
        f"{found}\n\nThe aim for each sink is {aim}.\n{state} [The drill](../pipeline-drill.md) says what a round is.\n"
    )


def _table(drilled: Sequence[Drilled]) -> str:
    lines = [
        "| sink | broker | rounds | least | with a replay skipped | lost | twice | batches seen in part |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for each in drilled:
        looks = each.is_consumer or KINDS[each.sink].whole_batches
        replaying = "–" if each.is_consumer else each.replaying
        lines.append(
            f"| {each.sink} | {each.cluster} | {len(each.reached)} | {each.least} | {replaying} | {each.lost} | "
            f"{each.twice} | {each.partial if looks else '–'} |"
        )
    return "\n".join(lines) + "\n"


def _counts(drilled: Sequence[Drilled], what: str) -> str:
    counts = Counter(str(getattr(each, what)) for one in drilled for each in one.reached)
    return ", ".join(f"{name} {times}" for name, times in counts.most_common())


def _controls(drilled: Sequence[Drilled]) -> str:
    lines = [
        "Each safeguard was taken away, at the moments where its absence shows. The drill had 20 rounds to notice.\n",
        "| sink | without | found in round | what was found |",
        "|---|---|---:|---|",
    ]
    for each in drilled:
        last = each.rounds[-1]
        faults = [f"{last.lost} lost"] * bool(last.lost) + [f"{last.twice} twice"] * bool(last.twice)
        faults += [f"{last.partial_batches} batches in part"] * bool(last.partial_batches)
        number = len(each.rounds) if faults else "–"
        lines.append(f"| {each.sink} | `{each.without}` | {number} | {', '.join(faults) or '**nothing**'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(read(map(Path, sys.argv[1:])), f"{datetime.now(UTC):%Y-%m-%d}") + "\n")
