"""Rows of groups that retry records: what waits, what is due again, what is dead. By the names of topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from highwater.common.retry_topics import DEAD_LETTER_PREFIX, PARKED_SUFFIX, RETRY_SUFFIX
from highwater.common.units import plural, rate_text
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import Level, TopicFigures
from highwater.monitor.figures.sums import known_sum


class RetryFigures(NamedTuple):
    """What one group retries of one topic. Numbers count offsets, markers of transactions among them."""

    name: str
    """`TOPIC.GROUP`."""
    topic: str
    """Empty if no topic and group of the cluster have this name, as they may be gone."""
    group: str
    level: Level
    sentence: str
    waiting: int | None
    """What no mover has delivered yet; None if that is not known, or nothing ever waited."""
    due: int | None
    """The lag of the group on the topic of records that are due again."""
    dead: int | None
    """Held by the topic of dead letters; None if there is none, or that is not known."""
    dead_per_s: float | None
    dead_topic: str
    """Empty if there is none."""
    unmoved: str
    """A topic of a delay whose records no mover reads; empty if there is none."""


def retry_figures(figures: Figures) -> tuple[RetryFigures, ...]:
    """A row for each topic of dead letters, and for each group with topics of retries; those with a fault first."""
    waiting: dict[str, list[TopicFigures]] = defaultdict(list)
    names = set()
    for topic in figures.topics.values():
        retry, is_level, _ = topic.name.rpartition(".")
        if topic.name.startswith(DEAD_LETTER_PREFIX):
            names.add(topic.name.removeprefix(DEAD_LETTER_PREFIX))
        elif topic.name.endswith(RETRY_SUFFIX):
            names.add(topic.name.removesuffix(RETRY_SUFFIX))
        elif is_level and retry.endswith(RETRY_SUFFIX) and not topic.name.endswith(PARKED_SUFFIX):
            waiting[retry.removesuffix(RETRY_SUFFIX)].append(topic)
    rows = [_row(name, waiting[name], figures) for name in sorted(names | waiting.keys())]
    return tuple(sorted(rows, key=lambda row: row.level.rank, reverse=True))


def _row(name: str, waiting: list[TopicFigures], figures: Figures) -> RetryFigures:
    topic, group = _of_whom(name, figures.topics, figures.groups)
    dead = figures.topics.get(DEAD_LETTER_PREFIX + name)
    due = figures.topics.get(name + RETRY_SUFFIX)
    unmoved = next((each.name for each in waiting if each.held_offsets and not each.groups), "")
    level, sentence = _judge(unmoved, dead)
    return RetryFigures(
        name=name,
        topic=topic,
        group=group,
        level=level,
        sentence=sentence,
        waiting=known_sum(each.worst_lag if each.groups else each.held_offsets for each in waiting),
        due=None if due is None else due.worst_lag,
        dead=None if dead is None else dead.held_offsets,
        dead_per_s=None if dead is None else dead.offsets_per_s,
        dead_topic="" if dead is None else dead.name,
        unmoved=unmoved,
    )


def _judge(unmoved: str, dead: TopicFigures | None) -> tuple[Level, str]:
    if unmoved:
        return Level.WARN, f"records wait in {unmoved}, and no mover reads it: start one"
    if dead is None:
        return Level.OK, "no dead letters"
    if dead.offsets_per_s:
        return Level.WARN, f"records become dead letters: {rate_text(dead.offsets_per_s)}"
    if dead.held_offsets is None:
        return Level.UNKNOWN, "how many dead letters there are is not known"
    if not dead.held_offsets:
        return Level.OK, "no dead letters"
    return Level.OK, f"at most {plural(dead.held_offsets, 'dead letter')}, none new"


def _of_whom(name: str, topics: Mapping[str, object], groups: Mapping[str, object]) -> tuple[str, str]:
    """Topic and group, which both may have dots in their names."""
    at = name.find(".")
    while at >= 0:
        if name[:at] in topics and name[at + 1 :] in groups:
            return name[:at], name[at + 1 :]
        at = name.find(".", at + 1)
    return "", ""
