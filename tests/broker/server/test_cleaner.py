"""Which logs the cleaner takes in a round, with a process of the test's own making."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.broker.server.cleaner import Cleaner, CleaningFailed
from tests.broker.handlers.harness import NodeHarness
from tests.broker.log.compacting import keyed_batch


async def run_here(work: Callable[[], None]) -> None:
    work()


def test_a_log_on_which_the_process_dies_does_not_keep_others_from_being_cleaned(
    node: NodeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        topic = node.create_topic(name, cleanup_policy="compact", segment_bytes="200")
        log = topic.partitions[0].log
        for _ in range(3):
            node.produce_records(name, bytes(keyed_batch([(b"key", b"x" * 100)])))
        ticket = log.begin_flush()
        assert ticket is not None
        ticket.sync()
        log.complete_flush(ticket)
    asked = []

    async def ask(cleaner: Cleaner, order: dict[str, Any]) -> dict[str, Any]:
        job = order["job"]
        name = Path(job["directory"]).name
        asked.append(name)
        if name == "a-0":
            raise CleaningFailed("the cleaner's process ended")
        return {"finished": {"clean_up_to": job["end_offset"], "records_read": 0, "records_kept": 0}}

    monkeypatch.setattr(Cleaner, "_ask", ask)
    cleaner = Cleaner(node.node, run_here, lambda error, directory: None)
    asyncio.run(cleaner.clean_what_is_due())
    assert sorted(asked) == ["a-0", "b-0", "c-0"]
    asyncio.run(cleaner.clean_what_is_due())
    assert asked[3:] == ["a-0"]
