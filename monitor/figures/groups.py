"""Rows of groups and of what they read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import inf

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.common.units import plural, wait_text
from highwater.monitor.figures.lag import Lag, lag_of
from highwater.monitor.figures.lag_time import catch_up_ms, lag_time
from highwater.monitor.figures.memory import UNKNOWN, Memory
from highwater.monitor.figures.rates import Rate
from highwater.monitor.figures.retention import deleted_per_s, loss_eta_ms
from highwater.monitor.figures.rows import (
    Duration,
    GroupFigures,
    GroupPartitionFigures,
    LagState,
    LagVerdict,
    Level,
    PartitionFigures,
)
from highwater.monitor.figures.verdicts import Judgement, Readers, Track, judge
from highwater.monitor.model import Commit, Group, Member, Partition, Snapshot

_UNJUDGED = {LagState.BEYOND_END: LagVerdict.LOSS}
_NO_MEMBER = Member("", "", "")
_NO_LAG = Duration(0.0)


class GroupRows:
    """Makes the rows of one tick."""

    def __init__(
        self, memory: Memory, partitions: Mapping[str, Sequence[PartitionFigures]], consumed_per_s: Rate
    ) -> None:
        self._memory = memory
        self._snapshot: Snapshot = memory.newest
        self._partitions = partitions
        self._consumed_per_s = consumed_per_s
        self._times_ms = [tick.at_ms for tick in memory.ticks]

    def of(self, group: Group) -> tuple[GroupPartitionFigures, ...]:
        """Rows of all partitions with a commit or a member, in the order of topic and partition."""
        owners = {key: member for member in group.members for key in member.assigned}
        series = self._memory.commit_series(group.name)
        rows = []
        for key in sorted(owners.keys() | group.commits.keys()):
            commit, partition = group.commits.get(key), self._snapshot.partition(key)
            owner = owners.get(key)
            if not group.members:
                readers = Readers.NOBODY
            else:
                readers = Readers.OWNER if owner is not None or not owners else Readers.OTHERS
            rows.append(self._row(group, key, commit, partition, owner or _NO_MEMBER, readers, series.get(key)))
        return tuple(rows)

    def _row(
        self,
        group: Group,
        key: TopicPartition,
        commit: Commit | None,
        partition: Partition | None,
        owner: Member,
        readers: Readers,
        series: int | None,
    ) -> GroupPartitionFigures:
        figures = None if partition is None else self._partitions[key[0]][key[1]]
        produced = None if figures is None else figures.offsets_per_s
        consumed = None if series is None or commit is None else self._consumed_per_s(series)
        lag = lag_of(commit, partition, produced)
        time: Duration | None = None
        eta = catch_up = None
        if lag.lag is None or commit is None or partition is None or series is None:
            judgement = Judgement(_UNJUDGED.get(lag.state, LagVerdict.UNKNOWN), lag.sentence)
        else:
            memory = self._memory
            number = memory.partition_series(key)
            ends: Sequence[int] = ()
            if lag.lag == 0:
                time, catch_up = _NO_LAG, 0.0
            elif number is not None:
                ends = memory.ends[number].tolist()
                time = self._lag_time(commit.offset, ends, number)
                catch_up = catch_up_ms(lag.lag, consumed, produced)
                start = partition.log_start_offset
                if start is not None:
                    deleted = deleted_per_s(memory.starts, number, start, self._snapshot.at_ms)
                    eta = loss_eta_ms(commit.offset, start, deleted, consumed)
            if figures is not None and commit.offset == partition.last_stable_offset and lag.lag > 0:
                judgement = _undecided(lag.lag, figures.hanging_ms)
            else:
                judgement = self._judge(group, lag, ends, series, readers, owner)
        return GroupPartitionFigures(
            group.name,
            key[0],
            key[1],
            lag.state,
            None if commit is None else commit.offset,
            None if partition is None else partition.log_start_offset,
            None if partition is None else partition.end_offset,
            lag.lag,
            lag.error,
            lag.lost,
            time,
            None if catch_up == inf else catch_up,
            catch_up == inf,
            produced,
            consumed,
            eta,
            judgement.verdict,
            self._level(judgement.verdict, readers, series),
            judgement.sentence,
            owner.member_id,
            owner.client_id,
            owner.host,
        )

    def _judge(
        self, group: Group, lag: Lag, ends: Sequence[int], series: int, readers: Readers, owner: Member
    ) -> Judgement:
        if lag.state is LagState.BELOW_LOG_START:
            return Judgement(LagVerdict.LOSS, lag.sentence)
        if lag.lag == 0:
            return Judgement(LagVerdict.OK, "It has read everything.")
        if not ends:
            return Judgement(LagVerdict.UNKNOWN, "Seen in this tick only: too short for a verdict.")
        judgement = judge(self._track(ends, series), readers, owner.client_id)
        rewind = judgement.rewind
        if rewind is not None and self._memory.was_memberless(group.name, rewind.from_ms, rewind.to_ms):
            sentence = f"{judgement.sentence} The group had no member then: somebody reset it."
            return Judgement(judgement.verdict, sentence, rewind)
        return judgement

    def _level(self, verdict: LagVerdict, readers: Readers, series: int | None) -> Level:
        is_idle = readers is not Readers.OWNER and (series is None or not self._memory.has_moved(series))
        return Level.UNKNOWN if is_idle and verdict in (LagVerdict.STOP, LagVerdict.LOSS) else verdict.level

    def _lag_time(self, committed_offset: int, ends: Sequence[int], number: int) -> Duration | None:
        ticks = self._memory.ticks
        if UNKNOWN in ends:
            ticks = [tick for tick, end in zip(ticks, ends, strict=True) if end != UNKNOWN]
            ends = [end for end in ends if end != UNKNOWN]
        # The answers around the commit and the newest one decide; only their times are worked out.
        right = bisect_right(ends, committed_offset)
        newest = len(ends) - 1
        chosen = (right - 1, min(right, newest), newest) if right else (0, newest)
        times = [ticks[index].at_ms + ticks[index].end_delays[number] for index in chosen]
        return lag_time(committed_offset, times, [ends[index] for index in chosen])

    def _track(self, ends: Sequence[int], series: int) -> Track:
        commits = self._memory.commits[series].tolist()
        if UNKNOWN not in ends and UNKNOWN not in commits:
            return Track(self._times_ms, ends, commits)
        known = [
            each
            for each in zip(self._times_ms, ends, commits, strict=True)
            if each[1] != UNKNOWN and each[2] != UNKNOWN
        ]
        return Track(*map(list, zip(*known, strict=True)))


def _undecided(lag: int, hanging_ms: int | None) -> Judgement:
    """A reader of committed data stands at the last stable offset until the transaction there has ended."""
    records = f"{plural(lag, 'offset')} after it {'belongs' if lag == 1 else 'belong'} to transactions"
    if hanging_ms is None:
        return Judgement(LagVerdict.OK, f"It has read all that is decided: {records} that are open, or wait for one.")
    hangs = f"one of them hangs for {wait_text(hanging_ms / 1000)}"
    return Judgement(LagVerdict.WARN, f"A hanging transaction holds it up: {records}, and {hangs}.")


def group_figures(group: Group, rows: Sequence[GroupPartitionFigures]) -> GroupFigures:
    """Sum the rows of a group."""
    lag = error = lost = no_commit = below = beyond = unknown = 0
    produced = consumed = catch_up = 0.0
    knows_lag = knows_produced = knows_consumed = knows_catch_up = never = False
    longest: Duration | None = None
    eta: float | None = None
    worst: GroupPartitionFigures | None = None
    unwell = 0
    for row in rows:
        state = row.state
        if state is LagState.NO_COMMIT:
            no_commit += 1
            continue
        if state is LagState.BELOW_LOG_START:
            below += 1
        elif state is LagState.BEYOND_END:
            beyond += 1
        elif state is not LagState.COMMITTED:
            unknown += 1
        if row.lag is not None:
            lag += row.lag
            error += row.lag_error
            knows_lag = True
        lost += row.lost
        if row.lag_time is not None and (longest is None or row.lag_time.ms > longest.ms):
            longest = row.lag_time
        if row.catch_up_ms is not None:
            catch_up = max(catch_up, row.catch_up_ms)
            knows_catch_up = True
        never = never or row.never_catches_up
        if row.produced_per_s is not None:
            produced += row.produced_per_s
            knows_produced = True
        if row.consumed_per_s is not None:
            consumed += row.consumed_per_s
            knows_consumed = True
        if row.loss_eta_ms is not None and (eta is None or row.loss_eta_ms < eta):
            eta = row.loss_eta_ms
        if row.verdict is not LagVerdict.OK:
            unwell += 1
        if worst is None or _badness(row) > _badness(worst):
            worst = row
    verdict, level, sentence = _judge_group(group, worst, unwell)
    return GroupFigures(
        name=group.name,
        members=len(group.members),
        topics=tuple(dict.fromkeys(row.topic for row in rows)),
        partitions=len(rows),
        lag=lag if knows_lag else None,
        lag_error=error,
        no_commit=no_commit,
        below_log_start=below,
        beyond_end=beyond,
        unknown=unknown,
        lost=lost,
        lag_time=longest,
        catch_up_ms=catch_up if knows_catch_up else None,
        never_catches_up=never,
        produced_per_s=produced if knows_produced else None,
        consumed_per_s=consumed if knows_consumed else None,
        loss_eta_ms=eta,
        verdict=verdict,
        level=level,
        sentence=sentence,
    )


def _badness(row: GroupPartitionFigures) -> tuple[int, int, int]:
    return row.level.rank, row.verdict.rank, row.lag or 0


def _judge_group(group: Group, worst: GroupPartitionFigures | None, unwell: int) -> tuple[LagVerdict, Level, str]:
    if group.error:
        return LagVerdict.UNKNOWN, Level.UNKNOWN, f"Not known: {group.error}"
    if worst is None:
        return LagVerdict.UNKNOWN, Level.UNKNOWN, "Nothing is committed, so lag has no meaning yet."
    if worst.verdict is LagVerdict.OK:
        return LagVerdict.OK, Level.OK, "It has read everything." if not worst.lag else worst.sentence
    sentence = f"{partition_name(worst.topic, worst.partition)}: {worst.sentence}"
    if worst.level is Level.UNKNOWN and worst.verdict is not LagVerdict.UNKNOWN:
        sentence += " It was never seen to be read: perhaps nobody needs it any more."
    if unwell > 1:
        others = plural(unwell - 1, "more partition")
        if worst.verdict is LagVerdict.UNKNOWN:
            sentence += f" {others} cannot be judged either."
        else:
            sentence += f" {others} {'is' if unwell == 2 else 'are'} not well either."
    return worst.verdict, worst.level, sentence
