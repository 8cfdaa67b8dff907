"""Commits for a group with each finished batch, against a real broker: with and without a listener's word."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.errors import ClientError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import CommittedOffset
from highwater.pipeline.kafka.settings import Settings, settings_of
from highwater.pipeline.source.group_commits import COMMITS, LISTENER_GRACE_S, Finished, GroupCommits, tell
from highwater.pipeline.source.listener import FinishedBatches
from tests.pipeline.source.topics import DEADLINE_S, Topics
from tests.waiting import wait_until

QUERY = "7a1c9b6e-0000-0000-0000-000000000000"


@pytest.fixture
def settings(topics: Topics) -> Settings:
    return settings_of({"bootstrap.servers": topics.address, "default.api.timeout.ms": "2000"})


def test_a_late_word_does_not_keep_a_query_from_its_end() -> None:
    commits = GroupCommits(settings_of({"bootstrap.servers": "127.0.0.1:1"}), "late")
    with commits._changed:
        commits._is_closed = True
        commits._changed.notify_all()
    commits._committing.join(DEADLINE_S)
    commits._told(Finished({"orders": {"0": 1}}))
    closing = threading.Thread(target=commits.close, daemon=True)
    closing.start()
    closing.join(DEADLINE_S)
    assert not closing.is_alive()


@pytest.fixture
def opened() -> Iterator[list[GroupCommits]]:
    found: list[GroupCommits] = []
    yield found
    for commits in found:
        commits.close()


def is_over(commits: GroupCommits) -> bool:
    try:
        commits.wait()
    except ClientError:
        return True
    return False


def committed(settings: Settings, group: str) -> dict[int, tuple[int, str]]:
    with Client(settings) as client:
        found = client.committed_offsets(group)
    assert not isinstance(found, BrokerError)
    return {
        partition: (each.offset, each.metadata)
        for (_, partition), each in found.items()
        if isinstance(each, CommittedOffset)
    }


def test_a_batch_is_committed_without_a_listener(
    topics: Topics, settings: Settings, opened: list[GroupCommits]
) -> None:
    topics.create("alone")
    opened.append(GroupCommits(settings, "alone"))
    opened[0].finished({"alone": {"0": 5}, "#ids": {"alone": "some-id"}})
    opened[0].wait()
    assert committed(settings, "alone") == {0: (5, "highwater reached some-id")}
    opened[0].finished({"alone": {"0": 5}, "#ids": {"alone": "some-id"}})
    opened[0].wait()


def test_a_listener_tells_the_ids(topics: Topics, settings: Settings, opened: list[GroupCommits]) -> None:
    topics.create("told")
    opened.append(GroupCommits(settings, "told"))
    address = opened[0].address[COMMITS]
    assert tell(address, Finished({"told": {"0": 5}}, QUERY, 3))
    wait_until(lambda: committed(settings, "told") == {0: (5, f"highwater reached query {QUERY} batch 3")}, "batch 3")
    # Spark asks for the next batch afterwards, and words of earlier batches can be late.
    opened[0].finished({"told": {"0": 5}})
    assert tell(address, Finished({"told": {"0": 2}}, QUERY, 2))
    opened[0].finished({"told": {"0": 9}})
    assert tell(address, Finished({"told": {"0": 9}}, QUERY, 4))
    wait_until(lambda: committed(settings, "told") == {0: (9, f"highwater reached query {QUERY} batch 4")}, "batch 4")


def test_a_batch_waits_longer_for_a_listener_that_has_told_before(
    topics: Topics, settings: Settings, opened: list[GroupCommits]
) -> None:
    topics.create("longer")
    opened.append(GroupCommits(settings, "longer"))
    assert tell(opened[0].address[COMMITS], Finished({"longer": {"0": 5}}, QUERY, 3))
    wait_until(lambda: 0 in committed(settings, "longer"), "batch 3")
    before_s = time.monotonic()
    opened[0].finished({"longer": {"0": 9}})
    assert opened[0]._due_s >= before_s + LISTENER_GRACE_S
    assert tell(opened[0].address[COMMITS], Finished({"longer": {"0": 9}}, QUERY, 4))
    opened[0].wait()
    assert committed(settings, "longer") == {0: (9, f"highwater reached query {QUERY} batch 4")}


def test_what_is_left_is_committed_at_the_end(topics: Topics, settings: Settings) -> None:
    topics.create("left")
    commits = GroupCommits(settings, "left")
    commits.finished({"left": {"0": 5}})
    commits.close()
    assert committed(settings, "left") == {0: (5, "highwater reached")}
    assert not tell(commits.address[COMMITS], Finished({"left": {"0": 6}}, QUERY, 3))


def test_words_that_make_no_sense_change_nothing(
    topics: Topics, settings: Settings, opened: list[GroupCommits]
) -> None:
    topics.create("sense")
    opened.append(GroupCommits(settings, "sense"))
    for words in (b"", b"hello", b'{"a": 1}', b'{"end": [1, 2]}', b"[1]"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"\0{opened[0].address[COMMITS]['socket']}")
            connection.sendall(words)
    assert tell(opened[0].address[COMMITS], Finished({"sense": {"0": 1}}, QUERY, 0))
    wait_until(lambda: 0 in committed(settings, "sense"), "the thread still listens")


def test_a_commit_that_can_never_work_ends_the_query(
    settings: Settings, opened: list[GroupCommits], topics: Topics
) -> None:
    topics.create("never")
    opened.append(GroupCommits(settings, "never"))
    assert tell(opened[0].address[COMMITS], Finished({"never": {"0": 1}}, "q" * 5000, 3))
    wait_until(lambda: is_over(opened[0]), "the answer of the broker")
    with pytest.raises(ClientError, match="commitOffsets=never: never-0: OFFSET_METADATA_TOO_LARGE"):
        opened[0].wait()
    with pytest.raises(ClientError):
        opened[0].finished({"never": {"0": 2}})


def test_a_broker_that_does_not_answer_only_delays_the_commit(opened: list[GroupCommits]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        unreachable = settings_of({"bootstrap.servers": address, "default.api.timeout.ms": "200"})
        opened.append(GroupCommits(unreachable, "g"))
        opened[0].finished({"t": {"0": 1}})
        opened[0].wait()
        opened[0].finished({"t": {"0": 1}})
        opened[0].wait()


def test_the_listener_tells_the_sources_that_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Any, Finished]] = []
    monkeypatch.setattr("highwater.pipeline.source.listener.tell", lambda *each: told.append(each))

    here = {"latestOffset": {"t": {"0": 7}, "#commits": {"socket": "s"}}, "endOffset": {"t": {"0": 6}}}
    others = [
        {"latestOffset": {"t": {"0": 7}}, "endOffset": {"t": {"0": 6}}},
        {"latestOffset": 17, "endOffset": 16},
        {"latestOffset": "file:/x", "endOffset": "no json"},
        {"latestOffset": None, "endOffset": None},
        {},
    ]
    text = json.dumps({"id": QUERY, "batchId": 8, "sources": [here, *others]})
    event: Any = SimpleNamespace(progress=SimpleNamespace(json=text))
    FinishedBatches().onQueryProgress(event)
    assert told == [({"socket": "s"}, Finished({"t": {"0": 6}}, QUERY, 8))]
