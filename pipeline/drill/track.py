"""One query of a drill: its records, stops, checkpoint, output, and what readers saw of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.cluster import DrillCluster
from highwater.pipeline.drill.ledger import Ledger, partial_batches, sizes_of_batches
from highwater.pipeline.drill.model import QuerySpec, RoundPlan, RoundResult, Victim, moment_name
from highwater.pipeline.drill.outputs import Output
from highwater.pipeline.drill.servers import Server
from highwater.pipeline.drill.stops import Stops

RECORDS_OF_A_ROUND: Final = 160
PARTITIONS: Final = 3
BATCHES_OF_A_ROUND: Final = 2
STILL_DEADLINE_S: Final = 240.0
"""Records are lost if no row came for so long, whatever was started again meanwhile."""
_INSTEAD: Final = {Victim.DATABASE: Victim.BROKER, Victim.CHECKPOINT: Victim.DRIVER}
"""What dies for a query that does not have the victim of the others."""


@dataclass(frozen=True, slots=True)
class TrackSetting:
    """All that stays the same for the rounds of one query. name: of the topic that is read, and of all else."""

    name: str
    folder: Path
    cluster: DrillCluster
    source: Mapping[str, str]
    output: Output
    victims: frozenset[Victim]
    """What can be killed."""
    servers: Mapping[Victim, Server]
    whole_batches: bool
    """The sink promises that no reader ever sees a part of a batch."""
    without: str = ""


class Track:
    """One query after the other on one input and one output."""

    def __init__(self, setting: TrackSetting, stops: Stops) -> None:
        self._setting = setting
        self.name = setting.name
        self.servers = setting.servers
        self.stops = stops
        self.query: QuerySpec | None = None
        self.restarts = 0
        """How often the query was restarted in this round."""
        self._ledger = Ledger()
        self._queries = count()
        self._checkpoint = setting.folder
        self._views: list[Mapping[str, int]] = []
        self._partial: set[str] = set()
        self._keys: list[str] = []
        self._skipped_before = 0
        self._row_count = 0
        self._last_row_s = 0.0
        self._lost = self._twice = 0

    # A round

    def begin_round(self, number: int) -> None:
        self._keys = [f"{number}-{sequence}" for sequence in range(RECORDS_OF_A_ROUND)]
        self._partial = set()
        self.restarts = 0
        self._skipped_before = self._skipped

    def produce(self, up_to: int = RECORDS_OF_A_ROUND) -> None:
        """Those of the round's records up to `up_to` that were not produced yet."""
        fresh = [key for key in self._keys[:up_to] if key not in self._ledger.produced]
        if fresh:
            self._setting.cluster.produce(self.name, PARTITIONS, fresh)
            self._ledger.produced.update(fresh)
        self._last_row_s = time.monotonic()

    def look(self) -> None:
        """Keep what a reader sees while the query waits at a point."""
        if self._setting.whole_batches:
            self._views.append(sizes_of_batches(self._setting.output.rows()))

    def is_through(self) -> bool:
        """All records are there, or no more come."""
        rows = self._setting.output.rows()
        account = self._ledger.account(rows)
        self._lost, self._twice = len(account.lost), len(account.twice) + len(account.unknown)
        if not self._lost:
            self._compare_views(sizes_of_batches(rows))
            return True
        if len(rows) != self._row_count:
            self._row_count, self._last_row_s = len(rows), time.monotonic()
        return time.monotonic() > self._last_row_s + STILL_DEADLINE_S

    def _compare_views(self, final: Mapping[str, int]) -> None:
        self._partial |= {batch for view in self._views for batch in partial_batches(view, final)}
        self._views.clear()

    def result(self, number: int, plan: RoundPlan, *, reached: bool, duration_s: float) -> RoundResult:
        """The result of the round that has ended. reached: its moment came, and its victim was killed."""
        return RoundResult(
            number=number,
            moment=moment_name(plan.stop.moment),
            victim=self.victim(plan.stop.victim).value,
            reached=reached,
            replays_skipped=self._skipped - self._skipped_before,
            restarts=self.restarts,
            records=len(self._ledger.produced),
            lost=self._lost,
            twice=self._twice,
            partial_batches=len(self._partial),
            duration_s=round(duration_s, 1),
        )

    @property
    def _skipped(self) -> int:
        return self.stops.passages()[CrashPoint.SINK_SKIPPED]

    # Victims

    def victim(self, planned: Victim) -> Victim:
        """Which one dies for this query where `planned` dies for others."""
        return planned if planned in self._setting.victims else _INSTEAD.get(planned, planned)

    def process_ids(self) -> set[int]:
        """The ids of all processes that were at a crash point of this query."""
        return {process_id for _, process_id in self.stops.journal()}

    def passed_since(self, before: int, processes: Iterable[int]) -> list[CrashPoint]:
        """The points that these processes passed after the first `before` passages."""
        these = set(processes)
        return [point for point, process_id in self.stops.journal()[before:] if process_id in these]

    # Queries

    def begin_anew(self) -> None:
        """Begin with a new checkpoint, at the records that are produced from now on."""
        self.query = self._new_query({"startingOffsets": "latest"})

    def lose_checkpoint(self) -> None:
        """The next query goes on where the sink says."""
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        self.query = self._new_query({"resumeFrom": self._setting.output.resume_from})

    def _new_query(self, beginning: Mapping[str, str]) -> QuerySpec:
        """A query with a new checkpoint, which stores its first offsets elsewhere than the query before."""
        number = next(self._queries)
        self._checkpoint = self._setting.folder / "checkpoints" / f"{self.name}-{number}"
        kept_in = (
            {"commitOffsets": f"{self.name}-{number}"}
            if number % 2
            else {"initialOffsetsLocation": str(self._checkpoint.with_suffix(".first"))}
        )
        limit = {"maxOffsetsPerTrigger": str(RECORDS_OF_A_ROUND // BATCHES_OF_A_ROUND)}
        source = {**self._setting.source, **kept_in, **beginning, **limit}
        return QuerySpec(
            source, str(self._checkpoint), self._setting.output.spec, self._setting.without, self.stops.query
        )
