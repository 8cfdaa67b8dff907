"""What is wrong with hosts: settings that are not as applied, and brokers near a ceiling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from highwater.monitor.figures.headroom import DISK_SPACE, WARN_RATIO, Headroom
from highwater.monitor.figures.hosts import drift_sentence, is_old
from highwater.monitor.figures.rows import Finding, FindingKind, Level
from highwater.monitor.model import Snapshot

# An alert closes above this only, so that a value at the limit does not open and close it again and again.
HEADROOM_NEAR_RATIO: Final = 0.25


def findings_of_hosts(snapshot: Snapshot) -> Iterator[Finding]:
    """Of hosts that answer: what a silent one said before is no answer to how it is now."""
    for name, host in snapshot.hosts.items():
        tuning = None if host.answer is None or is_old(host, snapshot.taken_at_ms) else host.answer.tuning
        if tuning is None or not (tuning.drift or tuning.interrupted):
            continue
        if tuning.drift:
            what = drift_sentence(tuning)
        else:
            what = f"a change of its tuning was interrupted: {tuning.interrupted}"
        sentence = f"Host {name} is not as tuned: {what}."
        yield Finding(FindingKind.TUNING_DRIFT, Level.WARN, f"host {name}", sentence, len(tuning.drift))


def findings_of_headroom(rows: Sequence[Headroom]) -> Iterator[Finding]:
    """Of figures that are neither grey nor unknown. Disk space has findings of its own, by its trend too.

    Always a warning: what a lack of headroom leads to, such as lag or replicas out of sync, has findings of its own.
    """
    for row in rows:
        if row.ratio is None or row.stale or row.resource == DISK_SPACE or row.ratio >= HEADROOM_NEAR_RATIO:
            continue
        amount = "little" if row.ratio > 0 else "no"
        sentence = f"Broker {row.broker_id} has {amount} headroom: {row.sentence}."
        subject = f"broker {row.broker_id} {row.resource}"
        is_near = row.ratio >= WARN_RATIO
        yield Finding(FindingKind.HEADROOM_LOW, Level.WARN, subject, sentence, row.ratio, is_near)
