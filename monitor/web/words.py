"""Values of figures in the words and units of the pages; what is not known has words too."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from highwater.common.units import (
    NONE,
    change_text,
    count_text,
    duration_text,
    percent_text,
    plural,
    rate_text,
    significant,
    size_text,
    wait_text,
)
from highwater.monitor.figures.lag import lag_text
from highwater.monitor.figures.rows import (
    Duration,
    GroupFigures,
    GroupPartitionFigures,
    Health,
    LagState,
    LagVerdict,
    Level,
)
from highwater.monitor.model import NO_LEADER

LEVEL_WORDS: Final = {Level.OK: "OK", Level.UNKNOWN: "not known", Level.WARN: "warning", Level.ERROR: "error"}
VERDICT_WORDS: Final = {
    LagVerdict.OK: "OK",
    LagVerdict.UNKNOWN: "not judged yet",
    LagVerdict.WARN: "falling behind",
    LagVerdict.LOSS: "with lost records",
    LagVerdict.REWIND: "set back",
    LagVerdict.STALL: "stalled",
    LagVerdict.STOP: "stopped",
}
_CLAUSE_END: Final = re.compile(r"[:;.](?= )")
_STEADY: Final = "→ steady"
LEVEL_CLASSES: Final = {Level.OK: "good", Level.UNKNOWN: "unknown", Level.WARN: "warn", Level.ERROR: "bad"}


def headline(sentence: str, subject: str = "") -> tuple[str, str]:
    """The first clause of a sentence, which is short enough for large type on a phone, and the rest.

    subject: what the sentence may begin with, such as `group NAME`: a name may have any sign.
    """
    begin = len(subject) if sentence[1 : len(subject)] == subject[1:] else 0
    found = _CLAUSE_END.search(sentence, begin)
    return (sentence[: found.start()], sentence[found.end() + 1 :]) if found else (sentence, "")


def count(value: float | None) -> str:
    return NONE if value is None else count_text(value)


def many(value: int | None, noun: str) -> str:
    return f"{NONE} {noun}s" if value is None else plural(value, noun)


def size(value: float | None) -> str:
    return NONE if value is None else size_text(value)


def percent(value: float | None) -> str:
    """Return the text of a value that is a percentage already."""
    return NONE if value is None else percent_text(value / 100)


def share(value: float | None) -> str:
    return NONE if value is None else percent_text(value)


def rate(value: float | None) -> str:
    return NONE if value is None else rate_text(value)


def size_rate(value: float | None) -> str:
    return NONE if value is None else f"{size_text(value)}/s"


def amount(value: float, unit: str) -> str:
    """`unit` as charts have it: `B` and `B/s` get a prefix, anything else is written as it is."""
    if unit in ("B", "B/s"):
        return size_text(value) + unit[1:]
    shown = significant(value)
    if shown == "1" and "/" not in unit and unit != "s":
        unit = unit.removesuffix("s")
    return f"{shown}{'' if unit.startswith('/') else ' '}{unit}".rstrip()


def above_mean(max_over_mean: float | None) -> str:
    return NONE if max_over_mean is None else change_text(max_over_mean)


def factor(value: float | None) -> str:
    return NONE if value is None else f"{significant(value)}×"


def time_ms(value: float | None) -> str:
    if value is None:
        return NONE
    return wait_text(value / 1000) if value >= 1000 else duration_text(value / 1000)


def age(value: Duration | None) -> str:
    if value is None:
        return NONE
    if not value.is_known:
        return f"not known yet: watched for {time_ms(value.ms)}"
    return f"more than {time_ms(value.ms)}" if value.is_least else time_ms(value.ms)


def clock_time(at_ms: float | None) -> str:
    return NONE if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def broker_ids(ids: tuple[int, ...]) -> str:
    return " ".join(map(str, ids)) or "none"


def leader(node_id: int) -> str:
    return "none" if node_id == NO_LEADER else str(node_id)


def yes_no(value: bool | None) -> str:
    return NONE if value is None else "yes" if value else "no"


def health(value: Health) -> str:
    """What is wrong, the worst first."""
    parts = [
        (value.offline, "offline"),
        (value.under_min_isr, "under min ISR"),
        (value.under_replicated, "under-replicated"),
        (value.hanging_transactions, "with a hanging transaction"),
    ]
    found = [f"{count_text(many)} {what}" for many, what in parts if many]
    return ", ".join(found) or "all in sync"


def group_lag(figures: GroupFigures) -> str:
    if figures.lag is None:
        return "no commit" if figures.no_commit and not figures.unknown else NONE
    return lag_text(figures.lag, figures.lag_error)


def group_lag_rest(figures: GroupFigures) -> str:
    """The partitions that the sum leaves out, and what is lost."""
    parts = [
        (figures.no_commit, "without a commit"),
        (figures.unknown, "not known"),
        (figures.beyond_end, "beyond the end"),
        (figures.below_log_start, "below the log start"),
    ]
    return ", ".join(f"{count_text(many)} {what}" for many, what in parts if many)


def partition_lag(row: GroupPartitionFigures) -> str:
    if row.lag is None:
        return row.state.value
    text = lag_text(row.lag, row.lag_error)
    return f"{text}, {count_text(row.lost)} lost" if row.state is LagState.BELOW_LOG_START else text


def trend(produced_per_s: float | None, consumed_per_s: float | None) -> str:
    """What lag does, from the two rates."""
    if produced_per_s is None or consumed_per_s is None:
        return NONE
    growth = produced_per_s - consumed_per_s
    # Commits come in steps: a difference of a tenth of the rate is no trend.
    if abs(growth) <= max(1.0, 0.1 * produced_per_s):
        return _STEADY
    return f"↗ +{rate_text(growth)}" if growth > 0 else f"↘ −{rate_text(-growth)}"


def catch_up(figures: GroupFigures | GroupPartitionFigures) -> str:
    if figures.lag and figures.level is Level.UNKNOWN:
        # The group is not judged yet, or was never seen to read: its rates are no evidence.
        return NONE
    if figures.never_catches_up:
        is_steady = (
            figures.level.rank < Level.WARN.rank and trend(figures.produced_per_s, figures.consumed_per_s) == _STEADY
        )
        return "lag stays as it is" if is_steady else "never at these rates"
    if not figures.lag:
        return NONE if figures.lag is None else "has read everything"
    return time_ms(figures.catch_up_ms)
