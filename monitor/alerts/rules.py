"""The rules of alerts as data: how long a finding must last, and what shows that it is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from highwater.common.units import percent_text
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.headroom import OF_HOST
from highwater.monitor.figures.hosts import HostFigures
from highwater.monitor.figures.rows import BrokerFigures, FindingKind, GroupFigures, LagVerdict, Level

_MINUTE_MS: Final = 60_000
_ABANDONED_MS: Final = 25 * _MINUTE_MS
"""The least window in which an unread group counts as idle; windows have at most half an hour."""
_SEEN_MS: Final = 5 * _MINUTE_MS

Over = Callable[[Figures, str], str | None]
"""Takes the figures and the finding's subject, when the finding is no longer there. Returns the reason to close in one
sentence, or None while it is not known how it is now."""


@dataclass(frozen=True, slots=True)
class Rule:
    kind: FindingKind
    opens_after_ms: int
    """So long must the finding be there in every tick: what goes by itself needs nobody."""
    closes_after_ms: int
    """So long must it be gone, so that what comes and goes is one alert."""
    over: Over


def _nothing(what: str) -> Over:
    return lambda figures, subject: what


def _of_group(sentence: Callable[[GroupFigures], str]) -> Over:
    def over(figures: Figures, subject: str) -> str | None:
        row = figures.groups.get(subject.removeprefix("group "))
        if row is None:
            return "The group is gone."
        if row.level is not Level.UNKNOWN:
            return sentence(row)
        # Before a restart somebody was seen to read; now nobody was, for as long as a monitor remembers.
        is_idle = row.verdict in (LagVerdict.STOP, LagVerdict.LOSS) and figures.window_ms >= _ABANDONED_MS
        return f"No consumer has read since the monitor started: {row.sentence}" if is_idle else None

    return over


def _of_broker(sentence: Callable[[BrokerFigures], str | None]) -> Over:
    """Return an `Over` that calls `sentence` only for a broker that answers: of another one nothing else is known."""

    def over(figures: Figures, subject: str) -> str | None:
        row = _broker(figures, subject)
        if row is None:
            return "The broker is no longer part of the cluster."
        return sentence(row) if row.is_alive else None

    return over


def _broker(figures: Figures, subject: str) -> BrokerFigures | None:
    # A log directory's subject is `broker 3 /var/lib/log`.
    number = subject.removeprefix("broker ").partition(" ")[0]
    return figures.brokers.get(int(number)) if number.isdecimal() else None


def _of_host(sentence: Callable[[HostFigures], str | None]) -> Over:
    def over(figures: Figures, subject: str) -> str | None:
        row = figures.hosts.get(subject.removeprefix("host "))
        return "The host is no longer in the configuration." if row is None else sentence(row)

    return over


def _as_tuned(row: HostFigures) -> str | None:
    if row.drifted is None:
        return None
    return "All settings are as applied again." if row.is_tuned else "No profile is applied on it any more."


def _headroom(figures: Figures, subject: str) -> str | None:
    if subject.startswith("host "):
        name, resource = next(
            (subject.removeprefix("host ").removesuffix(f" {each}"), each)
            for each in OF_HOST
            if subject.endswith(f" {each}")
        )
        host = figures.hosts.get(name)
        if host is None:
            return "The host is no longer in the configuration."
        numbers: tuple[int, ...] = host.brokers
    else:
        broker = _broker(figures, subject)
        if broker is None:
            return "The broker is no longer part of the cluster."
        numbers, resource = (broker.node_id,), subject.removeprefix(f"broker {broker.node_id} ")
    rows = [row for row in figures.headroom if row.broker_id in numbers and row.resource == resource]
    if not figures.headroom:
        return "Neither hosts nor ceilings are in the configuration."
    for row in rows:
        if row.stale:
            return f"The figure is grey now: {row.sentence}."
        if row.ratio is not None:
            return f"{row.sentence}."
        if row.demand is not None:
            return f"There is no figure any more: {row.sentence}."
    return None


def _disk(row: BrokerFigures) -> str | None:
    if row.disk_usable_percent is None:
        return None
    return f"{percent_text(row.disk_usable_percent / 100)} of its fullest disk is usable."


def _directory(row: BrokerFigures) -> str | None:
    # It says nothing of directories while it does not answer.
    return None if row.disk_usable_percent is None and not row.offline_directories else "The directory is in use again."


def _hangs_no_longer(figures: Figures, subject: str) -> str | None:
    # A monitor that was just started has yet to see what stands still.
    if figures.window_ms < _SEEN_MS or figures.totals.health.unknown_offsets:
        return None
    return "It no longer hangs." if subject else "No such transaction is seen any longer."


def _writable_again(figures: Figures, subject: str) -> str | None:
    health = figures.totals.health
    # A partition without a leader cannot be written either; its own alert says so.
    return None if health.offline else "All partitions have at least min.insync.replicas in sync again."


RULES: Final[Mapping[FindingKind, Rule]] = {
    rule.kind: rule
    for rule in (
        Rule(
            FindingKind.PARTITIONS_OFFLINE,
            _MINUTE_MS // 2,
            2 * _MINUTE_MS,
            _nothing("All partitions have a leader again."),
        ),
        Rule(
            FindingKind.BROKER_GONE,
            _MINUTE_MS,
            2 * _MINUTE_MS,
            _of_broker(lambda row: "The cluster lists the broker again."),
        ),
        Rule(
            FindingKind.NO_CONTROLLER,
            _MINUTE_MS // 2,
            2 * _MINUTE_MS,
            _nothing("The cluster has one controller again."),
        ),
        Rule(FindingKind.LOG_DIRECTORY_OFFLINE, 0, 2 * _MINUTE_MS, _of_broker(_directory)),
        Rule(FindingKind.UNDER_MIN_ISR, _MINUTE_MS // 2, 2 * _MINUTE_MS, _writable_again),
        Rule(FindingKind.RECORDS_LOST, _MINUTE_MS, 5 * _MINUTE_MS, _of_group(lambda row: row.sentence)),
        Rule(
            FindingKind.RETENTION_LOSS,
            2 * _MINUTE_MS,
            10 * _MINUTE_MS,
            _of_group(lambda row: "Retention no longer nears what the group has not read."),
        ),
        Rule(FindingKind.DISK_FULL, 2 * _MINUTE_MS, 10 * _MINUTE_MS, _of_broker(_disk)),
        # A group that is started anew has no member for a moment.
        Rule(FindingKind.LAG, 2 * _MINUTE_MS, 5 * _MINUTE_MS, _of_group(lambda row: row.sentence)),
        Rule(FindingKind.HANGING_TRANSACTION, _MINUTE_MS, 2 * _MINUTE_MS, _hangs_no_longer),
        # A restart of one broker after the other makes replicas fall behind and catch up.
        Rule(FindingKind.UNDER_REPLICATED, 5 * _MINUTE_MS, 2 * _MINUTE_MS, _nothing("All replicas are in sync again.")),
        # A burst is no lack of headroom.
        Rule(FindingKind.HEADROOM_LOW, 5 * _MINUTE_MS, 10 * _MINUTE_MS, _headroom),
        # While settings are applied, some of them are as they were before.
        Rule(FindingKind.TUNING_DRIFT, 2 * _MINUTE_MS, _MINUTE_MS, _of_host(_as_tuned)),
        Rule(FindingKind.HOST_SILENT, _MINUTE_MS, _MINUTE_MS, _of_host(lambda row: "It answers again.")),
        Rule(FindingKind.SOURCE_SILENT, _MINUTE_MS, _MINUTE_MS, _nothing("It answers again.")),
    )
}
