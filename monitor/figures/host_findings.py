"""What is wrong with hosts: settings that are not as applied, and brokers near a ceiling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from highwater.monitor.figures.headroom import DISK_SPACE, OF_HOST, WARN_RATIO, Headroom
from highwater.monitor.figures.hosts import drift_sentence, is_old
from highwater.monitor.figures.rows import Finding, FindingKind, Level
from highwater.monitor.model import Host, Snapshot

# An alert closes above this only, so that a value at the limit does not open and close it again and again.
HEADROOM_NEAR_RATIO: Final = 0.25


def findings_of_hosts(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield findings of hosts that answer: the last answer of a silent host may be wrong by now."""
    for name, host in snapshot.hosts.items():
        tuning = None if host.answer is None or is_old(host, snapshot.taken_at_ms) else host.answer.tuning
        if tuning is None or not (tuning.drift or tuning.interrupted):
            continue
        if tuning.drift:
            what = drift_sentence(tuning)
        else:
            what = f"a change of its tuning was interrupted: {tuning.interrupted}"
        sentence = f"The tuning of host {name} has changed: {what}."
        yield Finding(FindingKind.TUNING_DRIFT, Level.WARN, f"host {name}", sentence, len(tuning.drift))


def findings_of_headroom(rows: Sequence[Headroom], hosts: Mapping[str, Host] | None = None) -> Iterator[Finding]:
    """Yield findings of rows that are neither stale nor unknown. Disk space has findings of its own, by its trend too.

    Always a warning: what a lack of headroom leads to, such as lag or replicas out of sync, has findings of its own.
    What several brokers of one host have together is one finding.
    """
    host_of = {number: name for name, host in (hosts or {}).items() if len(host.brokers) > 1 for number in host.brokers}
    together: dict[tuple[str, str], list[Headroom]] = {}
    for row in rows:
        if row.ratio is None or row.stale or row.resource == DISK_SPACE or row.ratio >= HEADROOM_NEAR_RATIO:
            continue
        name = host_of.get(row.broker_id) if row.resource in OF_HOST else None
        subject = f"broker {row.broker_id} {row.resource}" if name is None else f"host {name} {row.resource}"
        together.setdefault((subject, f"Broker {row.broker_id}" if name is None else f"Host {name}"), []).append(row)
    for (subject, which), same in together.items():
        worst = min(same, key=lambda row: row.ratio or 0.0)
        ratio = worst.ratio or 0.0
        numbers = sorted(row.broker_id for row in same)
        of = f" of brokers {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}" if len(numbers) > 1 else ""
        sentence = f"{which}{of} has {'little' if ratio > 0 else 'no'} headroom: {worst.sentence}."
        yield Finding(FindingKind.HEADROOM_LOW, Level.WARN, subject, sentence, ratio, ratio >= WARN_RATIO)
