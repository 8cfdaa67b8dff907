"""Rows of groups and of what they read."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.common.units import plural, wait_text
from highwater.monitor.figures.lag import catch_up_ms, deleted_per_s, lag_of, lag_time, loss_eta_ms
from highwater.monitor.figures.memory import UNKNOWN, Memory
from highwater.monitor.figures.rates import Rates
from highwater.monitor.figures.rows import (
    Duration,
    GroupFigures,
    GroupPartitionFigures,
    LagState,
    LagVerdict,
    Level,
    PartitionFigures,
    Sentence,
)
from highwater.monitor.figures.sums import known_max, known_sum
from highwater.monitor.figures.verdicts import READ_ALL, Company, Judgement, Paces, Readers, Track, judge
from highwater.monitor.model import NO_MEMBER, Commit, Group, Member, Partition, Snapshot

_UNJUDGED = {LagState.BEYOND_END: LagVerdict.LOSS}
_NO_LAG = Duration(0.0)


class GroupRows:
    """Makes the rows of one tick."""

    def __init__(
        self, memory: Memory, partitions: Mapping[str, Sequence[PartitionFigures]], consumed_per_s: Rates
    ) -> None:
        self._memory = memory
        self._snapshot: Snapshot = memory.newest
        self._partitions = partitions
        self._consumed_per_s = consumed_per_s
        self._times_ms = [tick.at_ms for tick in memory.ticks]
        self._paces = Paces(self._times_ms)
        self._company: tuple[str, Company] | None = None
        """A cache of one entry: the last group that needed a Company, by its name."""

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
            rows.append(self._row(group, key, commit, partition, owner or NO_MEMBER, readers, series.get(key)))
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
        consumed = None if series is None or commit is None else self._consumed_per_s[series]
        lag = lag_of(commit, partition, produced)
        time: Duration | None = None
        eta = catch_up = None
        if lag.lag is None or commit is None or partition is None or figures is None or series is None:
            judgement = _judgement(_UNJUDGED.get(lag.state, LagVerdict.UNKNOWN), lag.sentence)
        elif lag.lag == 0:
            time, catch_up = _NO_LAG, 0.0
            judgement = READ_ALL if lag.state is LagState.COMMITTED else _judgement(LagVerdict.LOSS, lag.sentence)
        else:
            memory = self._memory
            number = memory.topic_series(key[0])[key[1]]
            ends = memory.ends(number)
            has_gaps = UNKNOWN in ends
            time = self._lag_time(commit.offset, number, ends, has_gaps=has_gaps)
            catch_up = catch_up_ms(lag.lag, consumed, produced)
            start = partition.log_start_offset
            if start is not None:
                deleted = deleted_per_s(memory.starts, number, start, self._snapshot.at_ms)
                eta = loss_eta_ms(commit.offset, start, deleted, consumed)
            if commit.offset == partition.last_stable_offset:
                judgement = _undecided(lag.lag, figures.hanging_ms)
            elif lag.state is LagState.BELOW_LOG_START:
                judgement = _judgement(LagVerdict.LOSS, lag.sentence)
            else:
                judgement = self._judge(group, ends, series, readers, owner, has_gaps=has_gaps)
                if judgement.verdict is LagVerdict.STALL:
                    judgement = self._look_again(group, key, owner.client_id) or judgement
        verdict = judgement.verdict
        return GroupPartitionFigures(
            group=group.name,
            topic=key[0],
            partition=key[1],
            state=lag.state,
            committed_offset=None if commit is None else commit.offset,
            log_start_offset=None if partition is None else partition.log_start_offset,
            end_offset=None if partition is None else partition.end_offset,
            lag=lag.lag,
            lag_error=lag.error,
            lost=lag.lost,
            lag_time=time,
            catch_up_ms=None if catch_up == inf else catch_up,
            never_catches_up=catch_up == inf,
            produced_per_s=produced,
            consumed_per_s=consumed,
            loss_eta_ms=eta,
            verdict=verdict,
            level=Level.OK if verdict is LagVerdict.OK else self._level(verdict, readers, series),
            reason=judgement.reason,
            owner=owner,
        )

    def _judge(
        self, group: Group, ends: Sequence[int], series: int, readers: Readers, owner: Member, *, has_gaps: bool
    ) -> Judgement:
        commits = self._memory.commits(series)
        if has_gaps or UNKNOWN in commits:
            seen = zip(self._times_ms, ends, commits, strict=True)
            known = [each for each in seen if each[1] != UNKNOWN and each[2] != UNKNOWN]
            judgement = judge(Track(*map(list, zip(*known, strict=True))), readers, owner.client_id)
        else:
            judgement = judge(Track(self._times_ms, ends, commits), readers, owner.client_id, self._paces)
        rewind = judgement.rewind
        if rewind is not None and self._memory.was_memberless(group.name, rewind.from_ms, rewind.to_ms):
            return judgement._replace(reason=Sentence(_was_reset, (judgement.reason,)))
        return judgement

    def _look_again(self, group: Group, key: TopicPartition, client: str) -> Judgement | None:
        """For groups with a partition that stalls: it reads what the memory has of all their partitions."""
        if self._company is None or self._company[0] != group.name:
            series = self._memory.commit_series(group.name)
            tracks = {
                each: track for each in group.commits if (track := self._track(each, series.get(each))) is not None
            }
            owners = {each: member.member_id for member in group.members for each in member.assigned}
            self._company = group.name, Company(tracks, owners)
        return self._company[1].look_again(key, client)

    def _track(self, key: TopicPartition, series: int | None) -> Track | None:
        """Ticks in which both offsets are known; None where the newest is not one of them."""
        number = self._memory.partition_series(key)
        if number is None or series is None:
            return None
        seen = zip(self._times_ms, self._memory.ends(number), self._memory.commits(series), strict=True)
        known = [each for each in seen if each[1] != UNKNOWN and each[2] != UNKNOWN]
        if not known or known[-1][0] != self._times_ms[-1]:
            return None
        return Track(*map(list, zip(*known, strict=True)))

    def _level(self, verdict: LagVerdict, readers: Readers, series: int | None) -> Level:
        is_idle = readers is not Readers.OWNER and (series is None or not self._memory.has_moved(series))
        return Level.UNKNOWN if is_idle and verdict in (LagVerdict.STOP, LagVerdict.LOSS) else verdict.level

    def _lag_time(self, committed_offset: int, number: int, ends: Sequence[int], *, has_gaps: bool) -> Duration | None:
        ticks = self._memory.ticks
        if has_gaps:
            ticks = [tick for tick, end in zip(ticks, ends, strict=True) if end != UNKNOWN]
            ends = [end for end in ends if end != UNKNOWN]
        # The answers around the commit and the newest one decide; only their times are worked out.
        right = bisect_right(ends, committed_offset)
        newest = len(ends) - 1
        chosen = (right - 1, right, newest) if 0 < right < newest else (max(0, right - 1), newest)
        times = [ticks[index].at_ms + ticks[index].end_delays[number] for index in chosen]
        return lag_time(committed_offset, times, [ends[index] for index in chosen])


def _judgement(verdict: LagVerdict, sentence: str) -> Judgement:
    return Judgement(verdict, Sentence(str, (sentence,)))


def _was_reset(reason: Sentence) -> str:
    return f"{reason} The group had no members then: somebody reset its offsets."


def _undecided(lag: int, hanging_ms: int | None) -> Judgement:
    """A reader of committed data stands at the last stable offset until the transaction there has ended."""
    verdict = LagVerdict.OK if hanging_ms is None else LagVerdict.WARN
    return Judgement(verdict, Sentence(_waits, (lag, hanging_ms)))


def _waits(lag: int, hanging_ms: int | None) -> str:
    records = f"{plural(lag, 'offset')} after it {'belongs' if lag == 1 else 'belong'} to transactions"
    if hanging_ms is None:
        return f"It has read all committed records: {records} that are open, or wait for one."
    return f"A hanging transaction holds it up: {records}, and one of them has hung for {wait_text(hanging_ms / 1000)}."


def group_figures(group: Group, rows: Sequence[GroupPartitionFigures]) -> GroupFigures:
    """Sum the rows of a group."""
    states = Counter(row.state for row in rows)
    read = [row for row in rows if row.state is not LagState.NO_COMMIT]
    worst = max(read, key=lambda row: (row.level.rank, row.verdict.rank, row.lag or 0), default=None)
    unwell = sum(row.verdict is not LagVerdict.OK for row in read)
    verdict, level, reason = _judge_group(group, worst, unwell)
    return GroupFigures(
        name=group.name,
        state=group.state,
        members=len(group.members),
        topics=tuple(dict.fromkeys(row.topic for row in rows)),
        partitions=len(rows),
        lag=known_sum(row.lag for row in read),
        lag_error=sum(row.lag_error for row in read if row.lag is not None),
        no_commit=states[LagState.NO_COMMIT],
        below_log_start=states[LagState.BELOW_LOG_START],
        beyond_end=states[LagState.BEYOND_END],
        unknown=states[LagState.UNKNOWN_PARTITION] + states[LagState.UNKNOWN_END],
        lost=sum(row.lost for row in read),
        lag_time=max(
            (row.lag_time for row in read if row.lag_time is not None), key=lambda time: time.ms, default=None
        ),
        catch_up_ms=known_max(row.catch_up_ms for row in read),
        never_catches_up=any(row.never_catches_up for row in read),
        produced_per_s=known_sum(row.produced_per_s for row in read),
        consumed_per_s=known_sum(row.consumed_per_s for row in read),
        loss_eta_ms=min((row.loss_eta_ms for row in read if row.loss_eta_ms is not None), default=None),
        verdict=verdict,
        level=level,
        reason=reason,
    )


def _judge_group(group: Group, worst: GroupPartitionFigures | None, unwell: int) -> tuple[LagVerdict, Level, Sentence]:
    if group.error:
        return LagVerdict.UNKNOWN, Level.UNKNOWN, Sentence(str, (f"Not known: {group.error}",))
    if worst is None:
        return LagVerdict.UNKNOWN, Level.UNKNOWN, Sentence(str, ("Nothing is committed, so lag has no meaning yet.",))
    if worst.verdict is LagVerdict.OK:
        return LagVerdict.OK, Level.OK, worst.reason if worst.lag else READ_ALL.reason
    return worst.verdict, worst.level, Sentence(_of_group, (worst, unwell))


def _of_group(worst: GroupPartitionFigures, unwell: int) -> str:
    sentence = f"{partition_name(worst.topic, worst.partition)}: {worst.sentence}"
    if worst.level is Level.UNKNOWN and worst.verdict is not LagVerdict.UNKNOWN:
        sentence += " Nobody has read it since the monitor started: perhaps it is no longer needed."
    if unwell > 1:
        others = plural(unwell - 1, "more partition")
        if worst.verdict is LagVerdict.UNKNOWN:
            sentence += f" {others} cannot be judged either."
        else:
            sentence += f" {others} {'has' if unwell == 2 else 'have'} problems too."
    return sentence
