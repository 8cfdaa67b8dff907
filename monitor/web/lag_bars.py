"""Draws the lag of a group over the partitions of each topic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from highwater.drawing.axes import linear, numbered
from highwater.drawing.plot import Bar, Size, bar_panel
from highwater.monitor.figures.rows import GroupPartitionFigures, Level
from highwater.monitor.web import words

_MOST_TOPICS: Final = 6
_MOST_PARTITIONS: Final = 1000
_SIZE: Final = Size(580, 200)


@dataclass(frozen=True, slots=True)
class LagBars:
    topic: str
    summary: str
    drawing: Markup | None
    """None if there are too many partitions to draw, or if nothing is known."""


def lag_bars(rows: Sequence[GroupPartitionFigures]) -> list[LagBars]:
    """Return a drawing for each topic, the one with the most lag first; no more than six."""
    topics: dict[str, list[GroupPartitionFigures]] = defaultdict(list)
    for row in rows:
        topics[row.topic].append(row)
    ordered = sorted(topics, key=lambda topic: (-sum(row.lag or 0 for row in topics[topic]), topic))
    return [_of_topic(number, topic, topics[topic]) for number, topic in enumerate(ordered[:_MOST_TOPICS])]


def _of_topic(number: int, topic: str, rows: Sequence[GroupPartitionFigures]) -> LagBars:
    lags = {row.partition: row.lag for row in rows if row.lag is not None}
    last = max(row.partition for row in rows)
    if not lags:
        return LagBars(topic, "Not known: no partition has a commit.", None)
    summary = _summary(rows, lags)
    if last >= _MOST_PARTITIONS:
        return LagBars(topic, f"{summary} There are too many partitions to draw.", None)
    bars = [
        Bar(row.partition, row.lag, words.LEVEL_CLASSES[row.level] if row.lag else "", _bar_words(row)) for row in rows
    ]
    drawing = bar_panel(
        f"lag-{number}",
        f"Lag of topic {topic} by partition",
        summary,
        bars,
        numbered("partition", last, first=0),
        linear("records", "", lags.values(), 4),
        _SIZE,
    )
    return LagBars(topic, summary, drawing)


def _bar_words(row: GroupPartitionFigures) -> str:
    return f"partition {row.partition}: {words.partition_lag(row)}, {words.VERDICT_WORDS[row.verdict]}"


def _summary(rows: Sequence[GroupPartitionFigures], lags: dict[int, int]) -> str:
    most = max(lags, key=lambda partition: (lags[partition], -partition))
    parts = [f"Most in partition {most}: {words.count(lags[most])}" if lags[most] else "It has read everything"]
    ill = Counter(row.verdict for row in rows if row.level in (Level.WARN, Level.ERROR))
    parts += [f"{words.count(many)} {words.VERDICT_WORDS[verdict]}" for verdict, many in ill.most_common()]
    if len(lags) < len(rows):
        parts.append(f"{words.count(len(rows) - len(lags))} not known")
    return f"{'; '.join(parts)}."
