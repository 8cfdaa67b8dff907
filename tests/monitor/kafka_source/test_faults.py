"""The collector against scripted brokers that are dead, slow, or refuse: the tick goes on and says why."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.kafka.client.settings import ClientSettings
from highwater.monitor.events import EventKind, events_between
from highwater.monitor.figures.cluster import derive
from highwater.monitor.figures.rows import Level
from highwater.monitor.kafka_source.source import KafkaSource
from highwater.monitor.model import Group, GroupState, Snapshot
from tests.pipeline.kafka.fake_broker import FakeBroker, fake_broker
from tests.waiting import wait_until

TICK_S = 2.0


class FakeCluster:
    """Brokers with the ids 0, 1, …; topic t has one partition on each, and each coordinates one group."""

    def __init__(self) -> None:
        self.brokers: list[FakeBroker] = []
        self.topic_id = UUID(int=1)
        self.asked: list[tuple[int, str]] = []
        self.answers: dict[tuple[int, str], Callable[[Any], Any]] = {}
        """What a broker answers in place of the usual, by node id and API."""
        self.gone: set[int] = set()

    def answer(self, node_id: int, api: str, request: Any) -> Any:
        self.asked.append((node_id, api))
        own = self.answers.get((node_id, api))
        return self.usual(node_id, api, request) if own is None else own(request)

    def usual(self, node_id: int, api: str, request: Any) -> Any:
        match api:
            case "metadata":
                return self._metadata()
            case "list_groups":
                group = {
                    "group_id": f"g{node_id}",
                    "protocol_type": "consumer",
                    "group_state": "Empty",
                    "group_type": "Classic",
                }
                return {"error_code": ErrorCode.none, "groups": [group]}
            case "offset_fetch":
                partition = {"partition_index": node_id, "committed_offset": 5, "metadata": ""}
                topics = [{"name": "t", "partitions": [partition]}]
                return {"groups": [{"group_id": group.group_id, "topics": topics} for group in request.groups]}
            case "list_offsets":
                offset = {-1: 10, -2: 1}[request.topics[0].partitions[0].timestamp] - request.isolation_level
                return {"topics": [{"name": "t", "partitions": [{"partition_index": node_id, "offset": offset}]}]}
            case "describe_log_dirs":
                partition = {
                    "partition_index": node_id,
                    "partition_size": 100,
                    "offset_lag": 0,
                    "is_future_key": False,
                }
                topics = [{"name": "t", "partitions": [partition]}]
                return {"results": [{"error_code": ErrorCode.none, "log_dir": "/log", "topics": topics}]}
            case "describe_configs":
                return {
                    "results": [
                        {"resource_type": each.resource_type, "resource_name": each.resource_name, "configs": []}
                        for each in request.resources
                    ]
                }
            case "list_partition_reassignments":
                return {"error_code": ErrorCode.none, "topics": []}
        raise AssertionError(api)

    def _metadata(self) -> Any:
        alive = [node_id for node_id in range(len(self.brokers)) if node_id not in self.gone]
        partitions = [
            {
                "partition_index": node_id,
                "leader_id": node_id,
                "leader_epoch": 1,
                "replica_nodes": (node_id,),
                "isr_nodes": (node_id,),
                "offline_replicas": (node_id,) if node_id in self.gone else (),
            }
            for node_id in range(len(self.brokers))
        ]
        return {
            "brokers": [{"node_id": each, "host": "127.0.0.1", "port": self.brokers[each].port} for each in alive],
            "cluster_id": "fake",
            "controller_id": alive[0],
            "topics": [{"name": "t", "topic_id": self.topic_id, "partitions": partitions}],
        }


@contextmanager
def fake_cluster(count: int = 2, made: FakeCluster | None = None) -> Iterator[FakeCluster]:
    cluster = made or FakeCluster()
    with ExitStack() as stack:
        for node_id in range(count):

            def answer(api: str, request: Any, node_id: int = node_id) -> Any:
                return cluster.answer(node_id, api, request)

            cluster.brokers.append(stack.enter_context(fake_broker(answer)))
        yield cluster


def watching(cluster: FakeCluster, story: Callable[[KafkaSource], Awaitable[None]], *, bootstrap: int = 0) -> None:
    async def running() -> None:
        settings = ClientSettings((("127.0.0.1", cluster.brokers[bootstrap].port),))
        source = KafkaSource("c", settings, TICK_S)
        try:
            await story(source)
        finally:
            await source.close()

    asyncio.run(running())


def ends(snapshot: Snapshot) -> Sequence[int | None]:
    return [partition.end_offset for partition in snapshot.topics["t"].partitions]


def commit(group: Group) -> int | None:
    return next((each.offset for each in group.commits.values()), None)


def test_a_tick_of_a_healthy_cluster_in_which_commits_come_before_end_offsets() -> None:
    async def story(source: KafkaSource) -> None:
        first = await source.snapshot(0)
        assert ends(first) == [10, 10]
        partition = first.topics["t"].partitions[1]
        assert (partition.log_start_offset, partition.last_stable_offset) == (1, 9)
        assert partition.size_bytes == {1: 100}
        assert {name: commit(group) for name, group in first.groups.items()} == {"g0": 5, "g1": 5}
        assert {state.error for state in first.sources.values()} == {""}
        before = len(cluster.asked)
        second = await source.snapshot(1)
        asked = cluster.asked[before:]
        assert sorted(api for _, api in asked) == [
            "list_groups",
            "list_groups",
            *["list_offsets"] * 6,
            "metadata",
            "offset_fetch",
            "offset_fetch",
        ]
        assert sum(state.requests for state in second.sources.values()) == len(asked)
        apis = [api for _, api in asked]
        assert max(at for at, api in enumerate(apis) if api == "offset_fetch") < apis.index("list_offsets")
        for group in second.groups.values():
            for each in group.commits.values():
                at_ms = second.topics["t"].partitions[0].offsets_at_ms
                assert at_ms is not None
                assert each.at_ms <= at_ms
        assert second.topics["t"].partitions[1].size_bytes == {1: 100}

    with fake_cluster() as cluster:
        watching(cluster, story)


def test_a_slow_broker_costs_one_timeout_and_its_late_answer_is_dropped() -> None:
    goes_on = threading.Event()

    def slow(request: Any) -> Any:
        wait_until(goes_on.is_set, "the end of the delay")
        return cluster.usual(1, "list_groups", request)

    async def story(source: KafkaSource) -> None:
        await source.snapshot(0)
        cluster.answers[1, "list_groups"] = slow
        before = len(cluster.asked)
        found = await source.snapshot(1)
        assert [api for node_id, api in cluster.asked[before:] if node_id == 1] == ["list_groups"]
        port = cluster.brokers[1].port
        reason = f"broker 127.0.0.1:{port} did not answer ListGroups within 0.5 s"
        assert (found.brokers[0].error, found.brokers[1].error) == ("", reason)
        assert ends(found) == [10, None]
        assert found.sources["kafka"].error == ""
        assert found.sources["kafka groups"].error == reason
        assert commit(found.groups["g0"]) == 5
        lost = found.groups["g1"]
        assert (lost.state, lost.error, dict(lost.commits)) == (
            GroupState.UNKNOWN,
            "its coordinator did not answer",
            {},
        )
        del cluster.answers[1, "list_groups"]
        goes_on.set()
        late = 0
        while not late:
            again = await source.snapshot(2)
            late = again.sources["kafka"].late_answers
            assert again.number == 2
            if again.brokers[1].error:
                continue
            assert ends(again) == [10, 10]
            break

    with fake_cluster() as cluster:
        watching(cluster, story)


def test_a_dead_broker_is_not_asked_twice_and_comes_back() -> None:
    async def story(source: KafkaSource) -> None:
        await source.snapshot(0)
        port = cluster.brokers[1].port
        cluster.brokers[1].close()
        found = await source.snapshot(1)
        assert f"broker 127.0.0.1:{port} " in found.brokers[1].error
        assert found.brokers[1].is_alive
        assert ends(found) == [10, None]
        cluster.gone.add(1)
        gone = await source.snapshot(2)
        assert not gone.brokers[1].is_alive
        assert ends(gone) == [10, None]
        assert gone.sources["kafka offsets"].error == ""
        cluster.brokers.pop()
        source.forget(1)
        source.forget(0)
        assert list((await source.snapshot(3)).brokers) == [0]

    with fake_cluster() as cluster:
        watching(cluster, story)


def test_a_broker_that_was_away_from_the_start_is_known_by_its_replicas() -> None:
    async def story(source: KafkaSource) -> None:
        cluster.gone.add(1)
        found = await source.snapshot(0)
        assert (found.brokers[1].is_alive, found.brokers[1].address) == (False, "address not known")
        assert found.brokers[0].is_alive
        cluster.gone.clear()
        back = await source.snapshot(1)
        assert (back.brokers[1].is_alive, back.brokers[1].port) == (True, cluster.brokers[1].port)

    with fake_cluster() as cluster:
        watching(cluster, story)


def test_no_broker_answers_and_what_was_known_stays_without_offsets() -> None:
    async def story(source: KafkaSource) -> None:
        for broker in cluster.brokers:
            broker.close()
        empty = await source.snapshot(0)
        assert (empty.topics, empty.brokers, empty.controller) == ({}, {}, None)
        assert "cannot be reached" in empty.sources["kafka"].error
        assert empty.sources["kafka"].as_of_ms is None

    with fake_cluster() as cluster:
        watching(cluster, story)

    async def later(source: KafkaSource) -> None:
        await source.snapshot(0)
        for broker in cluster.brokers:
            broker.close()
        found = await source.snapshot(1)
        assert ends(found) == [None, None]
        assert all(broker.error for broker in found.brokers.values())
        assert found.sources["kafka"].error
        assert found.sources["kafka"].as_of_ms is not None

    with fake_cluster() as cluster:
        watching(cluster, later)


@pytest.mark.parametrize("is_large", [False, True])
def test_nothing_is_taken_of_another_cluster_at_the_same_addresses(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """is_large: most ticks do not ask for the topics."""
    if is_large:
        monkeypatch.setattr("highwater.monitor.kafka_source.source._LARGE_TOPICS", 0)
    others = [{"name": f"t{number}", "topic_id": UUID(int=number + 9), "partitions": []} for number in range(100)]
    of_another = {
        "brokers": [{"node_id": 7, "host": "127.0.0.1", "port": 1}],
        "cluster_id": "other",
        "controller_id": 7,
        "topics": others,
    }

    def answer(request: Any) -> Any:
        return of_another if request.topics is None else {**of_another, "topics": []}

    async def story(source: KafkaSource) -> None:
        before = await source.snapshot(0)
        cluster.answers = {(node_id, "metadata"): answer for node_id in range(2)}
        cluster.asked.clear()
        during = [await source.snapshot(number) for number in (1, 2)]
        assert {api for _, api in cluster.asked} == {"metadata"}, "it is asked who it is, and nothing else"
        for found in during:
            assert (found.cluster_id, found.other_cluster_id) == ("fake", "other")
            assert found.topics.keys() == {"t"}
            assert found.brokers.keys() == {0, 1}
            assert found.controller == before.controller
            assert ends(found) == [None, None]
            assert found.sources["kafka"].as_of_ms == before.sources["kafka"].as_of_ms
            (finding,) = [each for each in derive([before, found]).findings if each.level is Level.ERROR]
            begin = "Another cluster answers at the addresses of this one: other in place of fake. "
            assert finding.sentence.startswith(begin)
        (event,) = events_between(before, during[0])
        assert (event.kind, event.before, event.after) == (EventKind.OTHER_CLUSTER, "fake", "other")
        assert events_between(during[0], during[1]) == []
        cluster.answers = {}
        after = await source.snapshot(3)
        assert (after.other_cluster_id, ends(after)) == ("", [10, 10])
        (event,) = events_between(during[1], after)
        assert event.text == "cluster fake answers again at its addresses, where cluster other did"

    with fake_cluster() as cluster:
        watching(cluster, story)


def test_a_topic_that_was_made_again_has_no_sizes_of_the_former_one() -> None:
    async def story(source: KafkaSource) -> None:
        first = await source.snapshot(0)
        cluster.topic_id = UUID(int=2)
        second = await source.snapshot(1)
        assert first.topics["t"].topic_id != second.topics["t"].topic_id
        assert (first.topics["t"].config, second.topics["t"].config) == ({}, None)
        assert first.topics["t"].partitions[0].size_bytes == {0: 100}
        assert second.topics["t"].partitions[0].size_bytes == {}

    with fake_cluster() as cluster:
        watching(cluster, story)


def test_what_is_not_allowed_is_said_with_the_way_out() -> None:
    async def story(source: KafkaSource) -> None:
        no_cluster = {"error_code": ErrorCode.cluster_authorization_failed}
        cluster.answers[0, "list_partition_reassignments"] = lambda request: no_cluster | {"topics": []}
        no_group = {"error_code": ErrorCode.group_authorization_failed, "topics": []}
        cluster.answers[1, "offset_fetch"] = lambda request: {"groups": [{"group_id": "g1"} | no_group]}
        error = {"partition_index": 1, "error_code": ErrorCode.topic_authorization_failed, "offset": -1}
        cluster.answers[1, "list_offsets"] = lambda request: {"topics": [{"name": "t", "partitions": [error]}]}
        found = await source.snapshot(0)
        assert found.sources["kafka reassignments"].error == (
            "the controller does not list moves: CLUSTER_AUTHORIZATION_FAILED (31); give the monitor's user Describe "
            "and DescribeConfigs on the cluster"
        )
        assert found.groups["g1"].error == "GROUP_AUTHORIZATION_FAILED (30); give the monitor's user Describe on groups"
        assert "TOPIC_AUTHORIZATION_FAILED (29)" in found.sources["kafka offsets"].error
        assert ends(found) == [10, None]

    with fake_cluster() as cluster:
        watching(cluster, story)
