"""What the controller tells a broker of its cluster, and what the broker tells its clients of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.closed_leaders import SETTLED_WITHIN_MS
from highwater.broker.cluster.state import LEADER_DURING_DELETE, BrokerInfo, PartitionView
from highwater.broker.handlers.metadata import NOTICED_WITHIN_MS
from highwater.broker.handlers.shared.reply import Client
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC
from highwater.kafka.protocol.apis import APIS, CLUSTER_APIS, METADATA, UPDATE_METADATA
from highwater.kafka.protocol.primitives import MalformedRequestError
from tests.broker.handlers.harness import NodeHarness, Pending, a_member

TOPIC_ID: Final = UUID(int=7)
LATER_TOPIC_ID: Final = UUID(int=8)
OURS: Final = 0
"""The id of the broker that is asked; its listener is called PLAINTEXT."""
VERSIONS: Final = range(CLUSTER_APIS[UPDATE_METADATA].max_version + 1)
LATEST: Final = CLUSTER_APIS[UPDATE_METADATA].max_version


class Member:
    """A broker of a cluster, and its controller as the test plays it."""

    def __init__(self, directory: Path, *topics: str) -> None:
        """`topics` are those that it has replicas of."""
        self.harness = NodeHarness(directory)
        for topic in topics:
            self.harness.create_topic(topic)
        node = self.harness.node
        clustered = a_member(node, node.storage, "a-cluster")
        self.parts = clustered.parts
        self.cache = self.parts.metadata
        self.harness.replace(
            cluster=self.cache,
            groups=clustered.node.groups,
            transactions=clustered.node.transactions,
            member=self.parts,
        )
        self.parts.epochs.session_began(50)

    def tell(
        self,
        *partitions: dict[str, Any],
        version: int = LATEST,
        topic_id: UUID = TOPIC_ID,
        brokers: tuple[int, ...] = (0, 1, 2),
        controller_epoch: int = 3,
        broker_epoch: int = 50,
        controller_id: int = 2,
        topic: str = "t",
    ) -> ErrorCode:
        if version >= 5:
            told = {"topic_name": topic, "partition_states": partitions} | (
                {"topic_id": topic_id} if version >= 7 else {}
            )
            states = {"topic_states": [told] if partitions else [], "broker_epoch": broker_epoch}
        else:
            states = {"ungrouped_partition_states": [{"topic_name": topic, **state} for state in partitions]}
        answer = self.harness.ask(
            "update_metadata",
            version,
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            live_brokers=[told_broker(broker_id, version) for broker_id in brokers],
            **states,
        )
        return ErrorCode(answer.error_code)

    def metadata(self, version: int = APIS[METADATA].max_version, **fields: Any) -> Any:
        return self.harness.ask("metadata", version, **({"topics": None} | fields))

    def partitions(self, version: int = APIS[METADATA].max_version) -> dict[int, Any]:
        wanted: Any = [{"name": "t"}] if version == 0 else None
        (topic,) = self.metadata(version, topics=wanted).topics
        return {partition.partition_index: partition for partition in topic.partitions}


def told_broker(broker_id: int, version: int) -> dict[str, Any]:
    address = {"host": f"h{broker_id}", "port": 9000 + broker_id}
    if version == 0:
        return {"id": broker_id, "v0_host": address["host"], "v0_port": address["port"]}
    endpoint = address | {"security_protocol": 0} | ({"listener": "PLAINTEXT"} if version >= 3 else {})
    endpoints = [endpoint]
    if version >= 3:
        endpoints.append({"host": "inside", "port": 1, "security_protocol": 2, "listener": "INSIDE"})
    return {"id": broker_id, "endpoints": endpoints} | ({"rack": f"r{broker_id}"} if version >= 2 else {})


def state(index: int, leader: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "partition_index": index,
        "controller_epoch": 3,
        "leader": leader,
        "leader_epoch": 9,
        "isr": [1, 2],
        "zk_version": 4,
        "replicas": [1, 2, 0],
    } | more


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    member = Member(tmp_path / "log")
    yield member
    member.harness.close()


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Member]:
    """One that has replicas of the topic t."""
    member = Member(tmp_path / "restarted", "t")
    yield member
    member.harness.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_told_in_any_version_is_known(member: Member, version: int) -> None:
    offline: dict[str, Any] = {"offline_replicas": [0]} if version >= 4 else {}
    assert member.tell(state(0, **offline), state(1, leader=0), version=version) is ErrorCode.none
    cache = member.cache
    assert (cache.controller_id, [broker.broker_id for broker in cache.brokers()]) == (2, [0, 1, 2])
    broker = cache.broker(1)
    assert isinstance(broker, BrokerInfo)
    endpoint = broker.endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port, endpoint.security_protocol) == ("h1", 9001, "PLAINTEXT")
    assert broker.rack == ("r1" if version >= 2 else None)
    if version >= 3:
        inside = broker.endpoint("INSIDE")
        assert inside is not None
        assert inside.security_protocol == "SASL_PLAINTEXT"
    topic = cache.topic("t")
    assert topic is not None
    assert topic.topic_id == (TOPIC_ID if version >= 7 else UUID(int=0))
    assert topic.partitions == {
        0: PartitionView(1, 9, [1, 2, 0], [1, 2], [0] if version >= 4 else []),
        1: PartitionView(0, 9, [1, 2, 0], [1, 2], []),
    }
    assert cache.topic(TOPIC_ID) is (topic if version >= 7 else None)
    assert cache.partition("t", 1) == topic.partitions[1]
    assert cache.partition("t", 2) is cache.partition("u", 0) is None


def test_updates_add_up_and_brokers_are_told_whole(member: Member) -> None:
    member.tell(state(0), state(1))
    member.tell(state(1, leader=2, leader_epoch=10), brokers=(0, 2))
    assert [broker.broker_id for broker in member.cache.brokers()] == [0, 2]
    topic = member.cache.topic("t")
    assert topic is not None
    assert [(view.leader, view.leader_epoch) for view in topic.partitions.values()] == [(1, 9), (2, 10)]


def test_partitions_go_and_the_topic_with_the_last_of_them(member: Member) -> None:
    deleted: list[list[tuple[str, int]]] = []
    member.cache.when_deleted.append(deleted.append)
    member.tell(state(0), state(1))
    member.tell(state(0, leader=LEADER_DURING_DELETE))
    assert deleted == [[("t", 0)]]
    assert list(member.partitions()) == [1]
    member.tell(state(1, leader=LEADER_DURING_DELETE), state(5, leader=LEADER_DURING_DELETE))
    assert deleted == [[("t", 0)], [("t", 1)]]
    assert member.cache.topics() == []
    assert member.cache.topic("t") is member.cache.topic(TOPIC_ID) is None


def test_a_topic_made_anew_takes_nothing_over(member: Member) -> None:
    deleted: list[list[tuple[str, int]]] = []
    member.cache.when_deleted.append(deleted.append)
    member.tell(state(0), state(1))
    member.tell(state(0), topic_id=LATER_TOPIC_ID)
    assert deleted == [[("t", 0), ("t", 1)]]
    topic = member.cache.topic(LATER_TOPIC_ID)
    assert topic is member.cache.topic("t")
    assert topic is not None
    assert list(topic.partitions) == [0]
    assert member.cache.topic(TOPIC_ID) is None


def test_a_topic_that_gets_an_id_was_not_deleted(member: Member) -> None:
    member.cache.when_deleted.append(lambda _: pytest.fail("nothing was deleted"))
    member.tell(state(0), version=6)
    member.tell(state(0))
    assert member.cache.topic(TOPIC_ID) is not None


def test_who_waits_is_called_after_each_update_until_he_waits_no_longer(member: Member) -> None:
    seen: list[str] = []
    end = member.cache.when_changed(lambda: seen.append("one"))

    def only_once() -> None:
        seen.append("once")
        end_it()

    end_it = member.cache.when_changed(only_once)
    member.tell(state(0))
    member.tell(state(0))
    end()
    end()
    member.tell(state(0))
    assert seen == ["one", "once", "one"]


def test_a_controller_of_the_past_is_refused(member: Member) -> None:
    assert member.tell(state(0), controller_epoch=3) is ErrorCode.none
    assert member.tell(state(0, leader=2), controller_epoch=2) is ErrorCode.stale_controller_epoch
    assert member.partitions()[0].leader_id == 1
    assert member.tell(state(0, leader=2), controller_epoch=3) is ErrorCode.none


def test_what_means_an_earlier_life_is_refused(member: Member) -> None:
    assert member.tell(state(0), broker_epoch=49) is ErrorCode.stale_broker_epoch
    assert member.tell(state(0), broker_epoch=49, controller_epoch=9) is ErrorCode.stale_broker_epoch
    assert member.parts.epochs.controller_epoch == 0, "nothing was learned of it"
    # -1: the controller does not say. Greater: our registration was told to it before it was to us.
    for broker_epoch in (-1, 50, 51):
        assert member.tell(state(0), broker_epoch=broker_epoch) is ErrorCode.none


def test_brokers_and_controller_are_told_at_the_listener_of_the_client(member: Member) -> None:
    member.tell()
    answer = member.metadata()
    assert (answer.cluster_id, answer.controller_id) == ("a-cluster", 2)
    addresses = [(broker.node_id, broker.host, broker.port, broker.rack) for broker in answer.brokers]
    assert addresses == [(0, "broker.example", 9092, "r0"), (1, "h1", 9001, "r1"), (2, "h2", 9002, "r2")]
    described = member.harness.ask("describe_cluster", 1)
    assert (described.cluster_id, described.controller_id) == ("a-cluster", 2)
    assert [(broker.broker_id, broker.host, broker.port, broker.rack) for broker in described.brokers] == addresses


def test_a_client_that_looks_for_another_broker_of_the_cluster_is_refused(member: Member) -> None:
    """KIP-1242. At a bootstrap port that processes share it looks for none yet."""
    software = {"client_software_name": "a", "client_software_version": "1"}

    def asked(cluster_id: str | None, node_id: int) -> Any:
        return member.harness.ask("api_versions", 5, cluster_id=cluster_id, node_id=node_id, **software).error_code

    assert asked(None, -1) == asked("a-cluster", 0) == ErrorCode.none
    assert asked("a-cluster", 1) == asked("another", 0) == ErrorCode.rebootstrap_required


def test_clients_are_told_for_a_while_of_a_broker_that_is_gone(member: Member) -> None:
    """And only they: it leads nothing, and is no coordinator."""

    def told() -> list[int]:
        return [broker.node_id for broker in member.metadata().brokers]

    pass_time = member.harness.scheduler.run
    member.tell(state(0, leader=1))
    member.tell(state(0, leader=1), brokers=(0, 2))
    assert told() == [0, 2, 1]
    assert [broker.broker_id for broker in member.harness.ask("describe_cluster", 1).brokers] == [0, 2]
    assert member.partitions()[0].error_code is ErrorCode.leader_not_available
    pass_time(10_000)
    member.tell(state(0))  # it is back, and gone again: its time begins anew
    assert told() == [0, 1, 2]
    member.tell(state(0, leader=2), brokers=(0, 2))
    pass_time(10_000)
    assert told() == [0, 2, 1]
    pass_time(8000)
    assert told() == [0, 2]


def ask_before_the_cluster_is_known(member: Member) -> dict[str, Pending]:
    """What would say of brokers and topics that they are not there, asked of a broker that was told of none."""
    committed = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}]
    of_group = {"group_id": "g", "member_id": "", "topics": [{"name": "t", "partitions": committed}]}
    of_transaction = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
    requests: dict[str, tuple[int, dict[str, Any]]] = {
        "metadata": (12, {"topics": [{"name": "t"}]}),
        "describe_cluster": (0, {}),
        "offset_commit": (7, {"generation_id_or_member_epoch": -1, **of_group}),
        "offset_fetch": (
            10,
            {"groups": [{"group_id": "g", "topics": [{"topic_id": TOPIC_ID, "partition_indexes": [0]}]}]},
        ),
        "txn_offset_commit": (2, {**of_transaction, "group_id": "g", "topics": of_group["topics"]}),
        "add_partitions_to_txn": (
            3,
            {f"v3_and_below_{name}": value for name, value in of_transaction.items()}
            | {"v3_and_below_topics": [{"name": "t", "partitions": [0]}]},
        ),
    }
    return {name: member.harness.ask(name, version, **fields) for name, (version, fields) in requests.items()}


def test_nobody_is_told_that_there_are_no_brokers_and_topics_before_the_controller_told_of_them(
    restarted: Member,
) -> None:
    pending = ask_before_the_cluster_is_known(restarted)
    assert all(answer.waits for answer in pending.values())
    assert restarted.harness.refusal("u", 0) is ErrorCode.not_leader_or_follower
    restarted.tell()  # as a controller does that takes over: the partitions come later
    assert all(answer.waits for answer in pending.values())
    restarted.tell(state(0))
    assert not any(answer.waits for answer in pending.values())
    told = pending["metadata"].answer
    assert [broker.node_id for broker in told.brokers] == [0, 1, 2]
    assert [topic.error_code for topic in told.topics] == [ErrorCode.none]
    (partition,) = pending["add_partitions_to_txn"].answer.results_by_topic_v3_and_below[0].results_by_partition
    assert partition.partition_error_code is ErrorCode.not_coordinator
    assert restarted.metadata().controller_id == 2, "at once from now on"
    assert restarted.harness.refusal("u", 0) is ErrorCode.unknown_topic_or_partition


def test_who_goes_before_the_cluster_is_known_is_forgotten(member: Member) -> None:
    pending = member.metadata()
    pending.cancel()
    member.tell(state(0))
    assert pending.waits


def test_a_cluster_without_topics_is_known_when_its_brokers_are(member: Member) -> None:
    member.tell()
    assert member.metadata().topics == ()


def test_a_broker_whose_topics_were_all_deleted_while_it_was_down_waits_for_them_a_moment(restarted: Member) -> None:
    pending = restarted.metadata()
    restarted.tell()
    assert pending.waits
    restarted.harness.scheduler.run(2000)
    assert pending.answer.topics == ()


@pytest.mark.parametrize("version", range(APIS[METADATA].max_version + 1))
def test_partitions_are_told_as_they_are(member: Member, version: int) -> None:
    member.tell(state(0, offline_replicas=[0]), state(1, leader=-1), state(2, leader=5), brokers=(0, 1, 2))
    told = member.partitions(version)
    assert [(one.error_code, one.leader_id) for one in told.values()] == [
        (ErrorCode.none, 1),
        (ErrorCode.leader_not_available, -1),
        (ErrorCode.leader_not_available, -1),
    ]
    assert (told[0].replica_nodes, told[0].isr_nodes) == ((1, 2, 0), (1, 2))
    if version >= 5:
        assert told[0].offline_replicas == (0,)
    if version >= 7:
        assert [one.leader_epoch for one in told.values()] == [9, 9, 9]


def test_the_oldest_clients_are_told_of_no_replica_that_is_away(member: Member) -> None:
    member.tell(state(0, leader=1), brokers=(0, 1))
    told = member.partitions(0)[0]
    assert (told.error_code, told.leader_id) == (ErrorCode.replica_not_available, 1)
    assert (told.replica_nodes, told.isr_nodes) == ((1, 0), (1,))
    assert member.partitions(1)[0].replica_nodes == (1, 2, 0)


@pytest.mark.parametrize(("version", "error_code"), [(5, "leader_not_available"), (6, "listener_not_found")])
def test_a_leader_that_has_no_such_listener(member: Member, version: int, error_code: str) -> None:
    elsewhere = {"host": "h1", "port": 1, "security_protocol": 0, "listener": "INSIDE"}
    member.harness.ask(
        "update_metadata",
        LATEST,
        controller_id=2,
        controller_epoch=3,
        live_brokers=[told_broker(0, LATEST), {"id": 1, "endpoints": [elsewhere]}],
        topic_states=[{"topic_name": "t", "topic_id": TOPIC_ID, "partition_states": [state(0)]}],
    )
    assert [broker.node_id for broker in member.metadata().brokers] == [0]
    told = member.partitions(version)[0]
    assert (told.error_code, told.leader_id) == (ErrorCode[error_code], -1)


def test_topics_are_found_by_id_and_name(member: Member) -> None:
    member.tell(state(0))
    answer = member.metadata(
        topics=[
            {"name": "t"},
            {"name": None, "topic_id": TOPIC_ID},
            {"name": None, "topic_id": LATER_TOPIC_ID},
            {"name": "no topic"},
            {"name": "u"},
        ],
        allow_auto_topic_creation=False,
    )
    assert [(topic.error_code, topic.name) for topic in answer.topics] == [
        (ErrorCode.none, "t"),
        (ErrorCode.none, "t"),
        (ErrorCode.unknown_topic_id, None),
        (ErrorCode.invalid_topic_exception, "no topic"),
        (ErrorCode.unknown_topic_or_partition, "u"),
    ]


def test_brokers_apis_are_told_and_served_only_in_a_cluster(member: Member, tmp_path: Path) -> None:
    told = {entry.api_key for entry in member.harness.ask("api_versions", 2).api_keys}
    assert told == {*APIS, *CLUSTER_APIS}
    alone = NodeHarness(tmp_path / "alone")
    assert {entry.api_key for entry in alone.ask("api_versions", 2).api_keys} == set(APIS)
    with pytest.raises(MalformedRequestError):
        alone.ask("update_metadata", LATEST)
    alone.close()


@pytest.mark.parametrize("told_first", [(1, 4), (0, 1, 3, 4)])
def test_groups_are_not_looked_for_in_less_than_their_whole_topic(member: Member, told_first: tuple[int, ...]) -> None:
    """A controller that takes over tells last of partitions of whose replicas none lives."""
    offsets = member.harness.node.groups
    member.tell(*map(state, told_first), topic=OFFSETS_TOPIC)
    assert offsets.partition_of("g") is None
    member.tell(*(state(index, leader=-1) for index in range(5) if index not in told_first), topic=OFFSETS_TOPIC)
    assert offsets.partition_of("g") == ord("g") % 5


# --- leaders that closed their connections ----------------------------------------------------------------------------


def leaders_of(answer: Any) -> dict[int, int]:
    (topic,) = answer.topics
    return {partition.partition_index: partition.leader_id for partition in topic.partitions}


@pytest.mark.parametrize("topics", [None, [{"name": "t"}], [{"topic_id": TOPIC_ID, "name": None}]])
def test_who_asks_for_a_leader_that_went_is_told_of_the_next_one(member: Member, topics: Any) -> None:
    member.tell(state(0, leader=1), state(1, leader=2))
    member.parts.closed_leaders.closed(1)
    pending = member.metadata(topics=topics)
    assert isinstance(pending, Pending)
    member.tell(state(1, leader=0, leader_epoch=10))
    assert pending.waits, "the partition of the leader that went is not elected yet"
    member.tell(state(0, leader=2, leader_epoch=10))
    assert leaders_of(pending.answer) == {0: 2, 1: 0}


def test_a_leader_that_answers_again_is_the_leader(member: Member) -> None:
    member.tell(state(0, leader=1))
    member.parts.closed_leaders.closed(1)
    pending = member.metadata()
    assert pending.waits
    member.parts.closed_leaders.settled(1)
    assert leaders_of(pending.answer) == {0: 1}
    assert leaders_of(member.metadata()) == {0: 1}


def test_nobody_waits_for_an_election_longer_than_it_takes(member: Member) -> None:
    member.tell(state(0, leader=1))
    member.parts.closed_leaders.closed(1)
    pending = member.metadata()
    member.harness.scheduler.run(SETTLED_WITHIN_MS - 1)
    assert pending.waits
    member.harness.scheduler.run(1)
    assert leaders_of(pending.answer) == {0: 1}
    assert leaders_of(member.metadata()) == {0: 1}, "nor does the next one wait"


def test_only_who_asks_for_that_leader_waits(member: Member) -> None:
    member.tell(state(0, leader=1))
    member.tell(state(0, leader=2), topic="other", topic_id=LATER_TOPIC_ID)
    member.parts.closed_leaders.closed(1)
    assert leaders_of(member.metadata(topics=[{"name": "other"}])) == {0: 2}
    assert not member.metadata(topics=[]).topics
    assert member.metadata(topics=[{"name": "unknown"}], allow_auto_topic_creation=False).topics[0].error_code


def test_a_client_that_goes_is_not_waited_for(member: Member) -> None:
    member.tell(state(0, leader=1))
    member.parts.closed_leaders.closed(1)
    pending = member.metadata()
    pending.cancel()
    member.tell(state(0, leader=2))
    member.harness.scheduler.run(SETTLED_WITHIN_MS)
    assert pending.waits


class TestOnAConnectionThatIsNotNew:
    """A client may notice the death of a leader before this broker does."""

    @pytest.fixture(autouse=True)
    def connection(self, member: Member) -> Client:
        harness = member.harness
        harness.connection = Client(harness.listener, connected_ns=harness.clock.monotonic_ns())
        harness.clock.advance_ms(1001)
        return harness.connection

    def test_a_client_is_told_of_the_next_leader_though_this_broker_notices_later(self, member: Member) -> None:
        member.tell(state(0, leader=1))
        pending = member.metadata()
        member.harness.scheduler.run(NOTICED_WITHIN_MS - 1)
        member.parts.closed_leaders.closed(1)
        member.harness.scheduler.run(NOTICED_WITHIN_MS)
        assert pending.waits, "for the election"
        member.tell(state(0, leader=2, leader_epoch=10))
        assert leaders_of(pending.answer) == {0: 2}

    def test_a_client_is_told_a_moment_later_what_is_still_so(self, member: Member) -> None:
        member.tell(state(0, leader=1))
        pending = member.metadata()
        member.tell(state(1, leader=2))
        member.harness.scheduler.run(NOTICED_WITHIN_MS - 1)
        assert pending.waits
        member.harness.scheduler.run(1)
        assert leaders_of(pending.answer) == {0: 1, 1: 2}

    def test_a_client_is_answered_at_once_where_no_other_broker_leads(self, member: Member) -> None:
        member.tell(state(0, leader=0), state(1, leader=-1))
        assert leaders_of(member.metadata()) == {0: 0, 1: -1}
        member.tell(state(2, leader=1))
        assert not member.metadata(topics=[]).topics, "it asks for brokers alone"

    def test_a_new_client_is_answered_at_once(self, member: Member, connection: Client) -> None:
        connection.connected_ns = member.harness.clock.monotonic_ns()
        member.tell(state(0, leader=1))
        for _ in range(2):
            assert leaders_of(member.metadata()) == {0: 1}

    def test_a_client_that_goes_is_not_waited_for(self, member: Member) -> None:
        member.tell(state(0, leader=1))
        pending = member.metadata()
        pending.cancel()
        member.harness.scheduler.run(NOTICED_WITHIN_MS)
        assert pending.waits
