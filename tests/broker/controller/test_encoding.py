"""What the controller writes by hand, against the schemas."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.broker.cluster.peers import SECURITY_PROTOCOLS, Endpoint
from highwater.broker.cluster.state import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from highwater.broker.controller import encoding
from highwater.kafka.protocol import cold

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=300)
BROKERS = st.lists(INT32, max_size=5).map(tuple)
STATES = st.builds(LeaderAndIsr, INT32, INT32, BROKERS, INT32, INT32, st.booleans())
ENDPOINTS = st.builds(Endpoint, NAMES, st.sampled_from(SECURITY_PROTOCOLS), NAMES, INT32)
INFOS = st.builds(BrokerInfo, INT32, INT64, st.lists(ENDPOINTS, max_size=2).map(tuple), st.none() | NAMES)
HEADERS = st.tuples(INT32, INT32, INT64)


def header_fields(header: tuple[int, int, int]) -> dict[str, Any]:
    return dict(zip(("controller_id", "controller_epoch", "broker_epoch"), header, strict=True))


def common_fields(index: int, state: LeaderAndIsr) -> dict[str, Any]:
    return {
        "partition_index": index,
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": state.in_sync_replicas,
    }


LED = st.tuples(INT32, STATES, st.builds(ReplicaAssignment, BROKERS, BROKERS, BROKERS), st.booleans())
KNOWN = st.tuples(INT32, STATES, BROKERS, BROKERS)


def topics_of(partitions: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(NAMES, st.uuids(version=4), st.lists(partitions, max_size=3)), max_size=3)


@settings(deadline=None)
@given(HEADERS, topics_of(LED), st.dictionaries(INT32, ENDPOINTS, max_size=3))
def test_leader_and_isr(header: tuple[int, int, int], topics: list[tuple[str, UUID, Any]], leaders: Any) -> None:
    by_hand = encoding.leader_and_isr(
        *header,
        [
            encoding.TopicStates(
                name,
                topic_id,
                [
                    encoding.leader_and_isr_partition(index, state, assignment, is_new=is_new)
                    for index, state, assignment, is_new in partitions
                ],
            )
            for name, topic_id, partitions in topics
        ],
        leaders,
    )
    fields = header_fields(header) | {
        "topic_states": [
            {
                "topic_name": name,
                "topic_id": topic_id,
                "partition_states": [
                    common_fields(index, state)
                    | {
                        "partition_epoch": state.partition_epoch,
                        "replicas": assignment.replicas,
                        "adding_replicas": assignment.adding,
                        "removing_replicas": assignment.removing,
                        "is_new": is_new,
                        "leader_recovery_state": int(state.is_recovering),
                    }
                    for index, state, assignment, is_new in partitions
                ],
            }
            for name, topic_id, partitions in topics
        ],
        "live_leaders": [
            {"broker_id": broker_id, "host_name": endpoint.host, "port": endpoint.port}
            for broker_id, endpoint in leaders.items()
        ],
    }
    assert by_hand == cold.encode_request("leader_and_isr", encoding.LEADER_AND_ISR_VERSION, fields)


@settings(deadline=None)
@given(HEADERS, topics_of(KNOWN), st.lists(INFOS, max_size=3))
def test_update_metadata(
    header: tuple[int, int, int], topics: list[tuple[str, UUID, Any]], brokers: list[BrokerInfo]
) -> None:
    by_hand = encoding.update_metadata(
        *header,
        [
            encoding.TopicStates(name, topic_id, [encoding.metadata_partition(*partition) for partition in partitions])
            for name, topic_id, partitions in topics
        ],
        brokers,
    )
    fields = header_fields(header) | {
        "topic_states": [
            {
                "topic_name": name,
                "topic_id": topic_id,
                "partition_states": [
                    common_fields(index, state)
                    | {"zk_version": state.partition_epoch, "replicas": replicas, "offline_replicas": offline}
                    for index, state, replicas, offline in partitions
                ],
            }
            for name, topic_id, partitions in topics
        ],
        "live_brokers": [
            {
                "id": broker.broker_id,
                "endpoints": [
                    {
                        "port": endpoint.port,
                        "host": endpoint.host,
                        "listener": endpoint.listener_name,
                        "security_protocol": SECURITY_PROTOCOLS.index(endpoint.security_protocol),
                    }
                    for endpoint in broker.endpoints
                ],
                "rack": broker.rack,
            }
            for broker in brokers
        ],
    }
    assert by_hand == cold.encode_request("update_metadata", encoding.UPDATE_METADATA_VERSION, fields)
