"""Znodes that Kafka 3.9.2 wrote, byte for byte."""

from __future__ import annotations

import pytest

from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import Endpoint
from highwater.broker.cluster.state import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from highwater.broker.cluster.znodes import encode, read
from highwater.broker.features import Range
from highwater.broker.log.checkpoint import decode_topic_id
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.metadata_tree import NewerZnode

BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:48517"]'
    b',"rack":"r1","jmx_port":-1,"port":48517,"host":"127.0.0.1","version":5,"timestamp":"1795261597156"}'
)
CONTROLLER = b'{"version":2,"brokerid":0,"timestamp":"1795261597212","kraftControllerEpoch":-1}'
TOPIC = (
    b'{"partitions":{"0":[0,1]},"topic_id":"dvZhk3WfRjiObDHDpjLbwQ","adding_replicas":{"0":[1]},'
    b'"removing_replicas":{},"version":3}'
)
STATE = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":2,"isr":[0,1]}'


def test_a_broker() -> None:
    info = read(BROKER, lambda value: znodes.parse_broker(3, 17, value))
    assert info == BrokerInfo(3, 17, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 48517),), "r1")
    assert encode(znodes.broker_value(info, 1795261597156)) == BROKER
    assert read(BROKER, znodes.parse_broker_features) == {}


def test_the_features_of_a_broker() -> None:
    """As Kafka 3.9 writes them; before it, a least level of 0 cannot be read (KAFKA-17492)."""
    supported = {"new": Range(0, 2), "old": Range(3, 5)}
    value = znodes.broker_value(BrokerInfo(1, 5, (), None), 0, supported)
    told = b'"features":{"new":{"min_version":1,"max_version":2},"old":{"min_version":3,"max_version":5}}'
    assert told in encode(value)
    assert znodes.parse_broker_features(value) == {"new": Range(1, 2), "old": Range(3, 5)}
    assert znodes.parse_broker_features({"version": 4}) == {}, "of Kafka before 2.7"


@pytest.mark.parametrize(
    "endpoint",
    [
        Endpoint("INNER", "SASL_SSL", "::1", 1),
        Endpoint("PLAINTEXT", "PLAINTEXT", "", 9092),
        Endpoint("A.b", "SSL", "h-1", 2),
    ],
)
def test_endpoints(endpoint: Endpoint) -> None:
    info = BrokerInfo(1, 5, (endpoint,), None)
    assert read(encode(znodes.broker_value(info, 0)), lambda value: znodes.parse_broker(1, 5, value)) == info


def test_without_a_plaintext_listener_older_clients_get_no_address() -> None:
    value = znodes.broker_value(BrokerInfo(1, 5, (Endpoint("S", "SSL", "h", 2),), None), 0)
    assert (value["host"], value["port"]) == (None, -1)


def test_a_controller() -> None:
    assert read(CONTROLLER, znodes.parse_controller) == 0
    assert encode(znodes.controller_value(0, 1795261597212)) == CONTROLLER


def test_a_topic() -> None:
    topic_id, assignment = read(TOPIC, znodes.parse_assigned_topic)
    assert topic_id == decode_topic_id("dvZhk3WfRjiObDHDpjLbwQ")
    assert assignment == {0: ReplicaAssignment((0, 1), (1,))}
    assert encode(znodes.assigned_topic_value(topic_id, assignment)) == TOPIC


def test_a_topic_of_a_tool_of_old() -> None:
    assert read(b'{"version":1,"partitions":{"1":[2],"0":[1]}}', znodes.parse_assigned_topic) == (
        None,
        {0: ReplicaAssignment((1,)), 1: ReplicaAssignment((2,))},
    )


def test_the_state_of_a_partition() -> None:
    state = read(STATE, lambda value: znodes.parse_partition_state(value, 9))
    assert state == LeaderAndIsr(0, 2, (0, 1), 1, 9)
    assert encode(znodes.partition_state_value(state)) == STATE


def test_the_state_of_a_partition_that_recovers_from_an_unclean_election() -> None:
    state = LeaderAndIsr(-1, 2, (0,), 1, 9, is_recovering=True)
    data = encode(znodes.partition_state_value(state))
    assert data == (
        b'{"controller_epoch":1,"leader":-1,"version":1,"leader_recovery_state":1,"leader_epoch":2,"isr":[0]}'
    )
    assert read(data, lambda value: znodes.parse_partition_state(value, 9)) == state


def test_notifications() -> None:
    change = b'{"version":2,"entity_path":"users/alice/clients/<default>"}'
    assert read(change, znodes.parse_config_change) == "/config/users/alice/clients/<default>"
    assert encode(znodes.config_change_value("/config/users/alice/clients/<default>")) == change
    older = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert read(older, znodes.parse_config_change) == "/config/topics/t"
    isr = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    assert read(isr, znodes.parse_partitions) == [("t", 0)]
    assert encode(znodes.partitions_value([("t", 0)])) == isr
    assert encode(znodes.log_dir_event_value(1)) == b'{"version":1,"broker":1,"event":1}'
    assert read(b'{"version":1,"broker":1,"event":1}', znodes.parse_log_dir_event) == 1
    assert znodes.sequence_number("config_change_0000000012") == 12


def test_a_reassignment() -> None:
    data = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'
    assert read(data, znodes.parse_reassignment) == {("t", 0): (2, 3)}
    assert encode(znodes.reassignment_value({("t", 0): (2, 3)})) == data


def test_the_others() -> None:
    assert encode(znodes.feature_value()) == b'{"features":{},"version":2,"status":1}'
    assert encode(metadata_tree.cluster_id_value("c")) == b'{"version":"1","id":"c"}'
    assert (
        encode(metadata_tree.config_value({"retention.ms": "5000"}))
        == b'{"version":1,"config":{"retention.ms":"5000"}}'
    )


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version":1}', b'{"version":1,"leader":"a"}', b"\xff"])
def test_nonsense_is_told(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(data, lambda value: znodes.parse_partition_state(value, 0))


def test_a_newer_version_is_told() -> None:
    with pytest.raises(NewerZnode):
        read(b'{"version":9,"brokerid":1}', znodes.parse_controller)
