"""Writes a load that was drawn from the history as a load file of `highwater plan`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from highwater.common.log_lines import one_line
from highwater.common.units import percent_text, plural, significant, wait_text
from highwater.monitor.history.kinds import DAY_MS
from highwater.monitor.load_history import PEAK_PERCENTILE, DrawnLoad, TopicLoad
from highwater.monitor.model import Topic

FILL_IN: Final = "FILL_IN"
"""`highwater plan` refuses it with the line where it stands."""
_RATES: Final = {"GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1}
_MOST_SILENT: Final = 10
# Of what the brokers counted: with less, topics have more than what their logs hold now.
_SEEN_SHARE: Final = 0.8
# Of an even share: with more, the load file says so.
_UNEVEN: Final = 1.5
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_WORDS: Final = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_DAY_S: Final = DAY_MS // 1000


def load_text(drawn: DrawnLoad, settings: Mapping[str, Topic] | None = None) -> str:
    """The file. settings: the cluster's topics as they are now; None if nobody asked."""
    # Names of groups may hold anything, and stand in comments.
    return "".join(f"{one_line(line)}\n" for line in _lines(drawn, settings))


def _lines(drawn: DrawnLoad, settings: Mapping[str, Topic] | None) -> Iterator[str]:
    yield f"# Drawn from what {drawn.shown} has of {drawn.cluster}, {_when(drawn.from_ms)} to {_when(drawn.to_ms)}:"
    yield f"# {_days(drawn.covered_ms)} of {_days(drawn.to_ms - drawn.from_ms)} days. docs/plan.md explains every key."
    if settings is None:
        yield "# The cluster was not asked for settings (-b HOST:PORT does): check retention, add min_insync_replicas."
    yield "schema: capacity.load/1"
    yield f"name: {_name(drawn.cluster)}"
    minutes_from = _when(drawn.minutes_from_ms)
    yield f"# peak: the {100 * PEAK_PERCENTILE:g}th percentile of the minutes since {minutes_from}, or of all five"
    yield "# minutes if that is more. mean: over all of it. Bytes: records, times what one takes in the log now."
    total = sum(topic.peak_bytes_per_s or 0.0 for topic in drawn.topics)
    yield (
        f"# The peaks add up to {_rate(total)}. In their busiest five minutes, all topics together had "
        f"{_rate(drawn.busiest_bytes_per_s)}."
    )
    seen = sum(topic.mean_bytes_per_s or 0.0 for topic in drawn.topics)
    counted = drawn.counted_bytes_per_s
    if counted and seen < _SEEN_SHARE * counted:
        yield f"# The means add up to {_rate(seen)}, and brokers counted {_rate(counted)}: compaction hides the rest,"
        yield "# or it was of topics that are gone. Raise peak and mean of compacted topics."
    if drawn.request_bytes is None:
        yield "# batch: the brokers serve no metrics, so that nobody knows it; kafka-dump-log shows batches."
    else:
        yield "# batch: the mean of a produce request of all topics, which may have batches of several partitions."
    yield "topics:"
    for topic in drawn.topics:
        yield from _topic(topic, drawn, None if settings is None else settings.get(topic.name))
    if drawn.silent:
        names = ", ".join(drawn.silent[:_MOST_SILENT])
        more = f" and {len(drawn.silent) - _MOST_SILENT} more" if len(drawn.silent) > _MOST_SILENT else ""
        yield f"# Nothing was produced to {names}{more}."
    yield "# One host as you plan it."
    yield "hosts:"
    yield f"  memory: {FILL_IN}"
    yield f"  network: {FILL_IN}"
    yield f"  disks: {{count: {FILL_IN}, size: {FILL_IN}, layout: jbod}}"
    yield from _cluster(drawn)
    yield from _growth(drawn)


def _topic(topic: TopicLoad, drawn: DrawnLoad, now: Topic | None) -> Iterator[str]:
    yield f"  {_key(topic.name)}:"
    if topic.hottest is not None and topic.hottest[1] * topic.partitions > _UNEVEN:
        number, share = topic.hottest
        yield (
            f"    # Partition {number} gets {percent_text(share)} of the records, an even share is "
            f"{percent_text(1 / topic.partitions)}. Is it one key? Then add hottest_key: {round(100 * share)}%"
        )
    if topic.peak_bytes_per_s is None or topic.mean_bytes_per_s is None:
        yield f"    peak: {FILL_IN}  # {significant(topic.records_per_s)} records/s as a mean, of unknown size"
    else:
        yield f"    peak: {_rate(topic.peak_bytes_per_s)}"
        yield f"    mean: {_rate(min(topic.mean_bytes_per_s, topic.peak_bytes_per_s))}"
    yield f"    batch: {FILL_IN if drawn.request_bytes is None else f'{max(1, round(drawn.request_bytes))}B'}"
    copies = len(now.partitions[0].replicas) if now is not None and now.partitions else topic.replication
    yield f"    replication: {copies or FILL_IN}"
    in_sync = _setting(now, "min.insync.replicas")
    if in_sync is not None:
        yield f"    min_insync_replicas: {min(in_sync, copies or in_sync)}"
    yield from _retention(topic, now)
    segment = _setting(now, "segment.bytes")
    if segment is not None:
        yield f"    segment: {segment}B"
    if topic.groups:
        yield f"    groups: {len(topic.groups)}  # {', '.join(topic.groups[:_MOST_SILENT])}"
        yield f"    consumers: {max(1, topic.consumers)}"
        yield f"    lag: {round(topic.lag_s)}s"
    else:
        yield "    groups: 0"
    yield f"    partitions: {topic.partitions}"


def _retention(topic: TopicLoad, now: Topic | None) -> Iterator[str]:
    whole = topic.partition_bytes
    if _text(now, "cleanup.policy") == "compact" and whole:
        yield f"    retention: {{bytes_per_partition: {round(whole)}B}}  # compacted: what it has now"
        return
    time_ms, size = _setting(now, "retention.ms"), _setting(now, "retention.bytes")
    bounds = []
    if time_ms is not None and time_ms > 0:
        bounds.append(f"time: {time_ms // 1000}s")
    if size is not None and size > 0:
        bounds.append(f"bytes_per_partition: {size}B")
    if bounds:
        yield f"    retention: {{{', '.join(bounds)}}}"
    elif now is None and topic.held_s is not None:
        yield f"    retention: {{time: {max(1, round(topic.held_s))}s}}  # what it holds: {wait_text(topic.held_s)}"
    else:
        why = "it deletes nothing" if now is not None else "nothing was deleted meanwhile"
        yield f"    retention: {{time: {FILL_IN}}}  # {why}"


def _cluster(drawn: DrawnLoad) -> Iterator[str]:
    if drawn.imbalance is None:
        yield "# How uneven the brokers are is not known: they serve no metrics, or there is one."
        yield "cluster: {brokers_down: 1}"
        return
    yield "# imbalance: what was written to the busiest broker over the mean, in the busiest tenth of the hours."
    yield f"cluster: {{brokers_down: 1, imbalance: {max(1.0, drawn.imbalance):.2f}}}"


def _growth(drawn: DrawnLoad) -> Iterator[str]:
    growth = drawn.growth
    if growth is None:
        yield f"# growth: none is certain in {plural(drawn.weeks, 'whole week')} of the history; it takes five or more."
        return
    yield (
        f"# growth: of the busy hours of {plural(growth.weeks, 'week')}, {percent_text(growth.low)} to "
        f"{percent_text(growth.high)} (Theil–Sen)."
    )
    yield f"growth: {{per_month: {max(0.1, 100 * growth.per_month):.1f}%, months: 12}}"


def _setting(now: Topic | None, name: str) -> int | None:
    text = _text(now, name)
    try:
        return int(text)
    except ValueError:
        return None


def _text(now: Topic | None, name: str) -> str:
    """Empty if nobody knows it."""
    found = (now.config or {}).get(name) if now is not None else None
    return found.value or "" if found is not None else ""


def _rate(bytes_per_s: float) -> str:
    """Return the rate as load files write it, with four digits."""
    unit, size = next(((unit, size) for unit, size in _RATES.items() if bytes_per_s >= size), ("B", 1))
    return f"{bytes_per_s / size:.4g}{unit}/s"


def _when(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _days(span_ms: int) -> str:
    return f"{span_ms / DAY_MS:.3g}"


def _key(name: str) -> str:
    """A topic's name as a key of YAML, which takes `on` for a truth and `1` for a number."""
    return name if _PLAIN.fullmatch(name) and name.lower() not in _WORDS else json.dumps(name)


def _name(cluster: str) -> str:
    made = _NOT_IN_A_NAME.sub("-", cluster).strip("-._")[:64]
    return _key(made or "cluster")
