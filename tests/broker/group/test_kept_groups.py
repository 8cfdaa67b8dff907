"""A log in which a group changed its protocol back and forth: each beginning of it, compacted or not, is one group."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.counters import GroupCounters
from highwater.broker.group.events import Now
from highwater.broker.group.groups import Groups
from highwater.broker.group.kept import KeptGroups, kept_groups
from highwater.broker.group.rebalance import GroupSettings
from highwater.broker.topics.settled_records import SettledRecords
from tests.broker.group.asking import GroupHarness, successive_harnesses
from tests.broker.group.consumer_bytes import assignment, subscription
from tests.broker.handlers.harness import Pending

Batch = list[tuple[bytes, bytes | None]]
PROTOCOLS = [{"name": "range", "metadata": subscription(["t"])}]


def rounds(node: GroupHarness) -> None:
    node.find()
    member_id = node.join(protocols=PROTOCOLS).member_id
    joined: Any = node.join(member_id, protocols=PROTOCOLS)
    for _ in range(2):
        node.scheduler.run()
        generation = (joined.answer if isinstance(joined, Pending) else joined).generation_id
        shares: Any = {member_id: assignment({"t": range(4)})}
        node.sync(member_id, generation, **shares)
        node.commit({("t", 0): 7}, member_id=member_id, generation=generation)
        node.beat("a")
        mixed = node.join(member_id, protocols=PROTOCOLS)
        assert not mixed.error_code
        node.beat("b", subscribed_topic_regex="t.*")
        node.advance(2000)
        node.beat("b", -1)
        node.beat("a", -1)
        joined = node.join(member_id, protocols=PROTOCOLS)


def kept_of(records: list[tuple[bytes, bytes | None]]) -> KeptGroups:
    settled = SettledRecords()
    for key, value in records:
        settled.latest.pop(key, None)
        if value is not None:
            settled.latest[key] = value
    return kept_groups(settled)


def compacted(records: list[tuple[bytes, bytes | None]], rng: Random) -> list[tuple[bytes, bytes | None]]:
    """What the cleaner leaves of the older part: the last record of each key, and of tombstones some."""
    clean_end = rng.randint(0, len(records))
    last = {key: position for position, (key, _) in enumerate(records[:clean_end])}
    kept = [
        (key, value)
        for position, (key, value) in enumerate(records[:clean_end])
        if last[key] == position and (value is not None or rng.random() < 0.5)
    ]
    return kept + records[clean_end:]


def test_each_beginning_of_the_log_is_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[Batch] = []
    append = Groups.append

    def noted(groups: Groups, group_id: str, records: Any, *rest: Any, **options: Any) -> None:
        batches.append(list(records))
        append(groups, group_id, records, *rest, **options)

    monkeypatch.setattr(Groups, "append", noted)
    harnesses = successive_harnesses(tmp_path / "log")
    make = next(harnesses)
    rounds(make())
    kinds = []
    for end in range(1, len(batches) + 1):
        records = [record for batch in batches[:end] for record in batch]
        kept = kept_of(records)
        assert len(kept.members) + len(kept.consumers) == 1
        kinds.append("classic" if kept.members else "consumer")
        for seed in range(10):
            assert kept_of(compacted(records, Random(seed))) == kept
        for stored in kept.members.values():
            classic = ClassicGroup.restored("g", GroupSettings(0, 10, str, GroupCounters()), stored, Now(0, 0))
            assert classic.generation_id > 0
        for of_group in kept.consumers.values():
            group, complaints = ConsumerGroup.loaded("g", of_group, 45_000, 0)
            assert not complaints
            assert group.members
    changes = [kind for kind, before in zip(kinds, [None, *kinds], strict=False) if kind != before]
    assert changes == ["classic", "consumer"] * 2 + ["classic"]
