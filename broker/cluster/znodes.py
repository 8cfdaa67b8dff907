"""Paths and values of the znodes that only a cluster has (kafka.zk.ZkData 3.9).

metadata_tree.py has the others.

`<thing>_value` gives the JSON of a thing with its fields in the order in which Kafka writes them; `parse_<thing>` the
thing of a JSON. `encode` makes the bytes of a znode from the first, and `read` gives them to the second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar
from uuid import UUID

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.cluster.state import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from highwater.broker.features import Range, Supported
from highwater.broker.log.checkpoint import MalformedFile, decode_topic_id
from highwater.broker.settings.metadata_tree import (
    BROKER_CONFIGS,
    CLIENT_CONFIGS,
    DELETE_TOPICS,
    IP_CONFIGS,
    PRODUCER_ID_BLOCK,
    TOPIC_CONFIGS,
    TOPICS,
    USER_CONFIGS,
    fields_of,
    listed,
    number_of,
    text_of,
    topic_value,
)
from highwater.common.topic_partition import TopicPartition

CONTROLLER: Final = "/controller"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
CONSUMERS: Final = "/consumers"
FEATURE: Final = "/feature"
CONFIG_CHANGES: Final = "/config/changes"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATIONS: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATIONS: Final = "/log_dir_event_notification"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
ISR_CHANGE_PREFIX: Final = f"{ISR_CHANGE_NOTIFICATIONS}/isr_change_"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENT_NOTIFICATIONS}/log_dir_event_"
"""ZooKeeper appends a number."""

PERSISTENT_PATHS: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGE_NOTIFICATIONS,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATIONS,
    TOPIC_CONFIGS,
    CLIENT_CONFIGS,
    USER_CONFIGS,
    BROKER_CONFIGS,
    IP_CONFIGS,
)
"""The znodes that every broker creates at its start, with their parents, if they are missing."""

T = TypeVar("T")


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


_to_json: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def encode(value: object) -> bytes:
    """Encode JSON as Kafka writes it."""
    return _to_json(value).encode()


def read(data: bytes, parse: Callable[[object], T]) -> T:
    """Parse the data of a znode. Raises ValueError for other data; NewerZnode is a ValueError."""
    try:
        return parse(json.loads(data))
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError, MalformedFile) as error:
        raise ValueError(f"{data[:200]!r} cannot be understood: {error!r}") from None


def assigned_topic_value(topic_id: UUID, assignment: Mapping[int, ReplicaAssignment]) -> dict[str, Any]:
    value = topic_value(topic_id, {index: assigned.replicas for index, assigned in assignment.items()})
    return value | {
        "adding_replicas": listed({index: assigned.adding for index, assigned in assignment.items()}),
        "removing_replicas": listed({index: assigned.removing for index, assigned in assignment.items()}),
    }


def parse_assigned_topic(value: object) -> tuple[UUID | None, dict[int, ReplicaAssignment]]:
    """Return the topic's id and assignment. The id is None before Kafka 2.8: the controller then makes one."""
    fields = fields_of(value, 1, 2, 3)
    adding, removing = fields.get("adding_replicas", {}), fields.get("removing_replicas", {})
    assignment = {
        int(index): ReplicaAssignment(
            _brokers(brokers), _brokers(adding.get(index, ())), _brokers(removing.get(index, ()))
        )
        for index, brokers in fields["partitions"].items()
    }
    topic_id = fields.get("topic_id")
    return None if topic_id is None else decode_topic_id(text_of(topic_id)), dict(sorted(assignment.items()))


def _brokers(value: Iterable[object]) -> tuple[int, ...]:
    return tuple(number_of(broker) for broker in value)


# Brokers and the controller


def broker_value(info: BrokerInfo, timestamp_ms: int, supported: Supported = MappingProxyType({})) -> dict[str, Any]:
    """The registration of a broker. Its epoch is not in it: ZooKeeper gives it.

    Level 0 of a feature is left out: Kafka before 3.9 cannot read it, and each broker serves it.
    """
    plaintext = next((endpoint for endpoint in info.endpoints if endpoint.security_protocol == "PLAINTEXT"), None)
    return {
        "features": {
            name: {"min_version": max(levels.min_level, 1), "max_version": levels.max_level}
            for name, levels in sorted(supported.items())
        },
        "listener_security_protocol_map": {
            endpoint.listener_name: endpoint.security_protocol for endpoint in info.endpoints
        },
        "endpoints": [_endpoint_text(endpoint) for endpoint in info.endpoints],
        **({} if info.rack is None else {"rack": info.rack}),
        "jmx_port": -1,
        "port": -1 if plaintext is None else plaintext.port,
        "host": None if plaintext is None else plaintext.host,
        "version": 5,
        "timestamp": str(timestamp_ms),
    }


def parse_broker(broker_id: int, epoch: int, value: object) -> BrokerInfo:
    fields = fields_of(value, 4, 5)
    protocols = fields["listener_security_protocol_map"]
    endpoints = tuple(_parse_endpoint(text_of(text), protocols) for text in fields["endpoints"])
    rack = fields.get("rack")
    return BrokerInfo(broker_id, epoch, endpoints, None if rack is None else text_of(rack))


def parse_broker_features(value: object) -> Supported:
    """Return the levels from 1 on that a broker supports, from its registration."""
    features = fields_of(value, 4, 5).get("features", {})
    return {
        name: Range(number_of(levels["min_version"]), number_of(levels["max_version"]))
        for name, levels in features.items()
    }


_ENDPOINT: Final = re.compile(r"(?P<name>.*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)")


def _endpoint_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener_name}://{host}:{endpoint.port}"


def _parse_endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an endpoint")
    return Endpoint(match["name"], text_of(protocols[match["name"]]), match["host"], int(match["port"]))


def controller_value(broker_id: int, timestamp_ms: int) -> dict[str, Any]:
    return {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}


def parse_controller(value: object) -> int:
    """Return the controller's broker id."""
    return number_of(fields_of(value, 1, 2)["brokerid"])


def feature_value() -> dict[str, Any]:
    return {"features": {}, "version": 2, "status": 1}


# Partitions


def partition_state_value(state: LeaderAndIsr) -> dict[str, Any]:
    """The partition epoch is not in it: it is the version of the node."""
    return {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        **({"leader_recovery_state": 1} if state.is_recovering else {}),
        "leader_epoch": state.leader_epoch,
        "isr": list(state.in_sync_replicas),
    }


def parse_partition_state(value: object, partition_epoch: int) -> LeaderAndIsr:
    fields = fields_of(value, 1)
    leader = fields["leader"]
    return LeaderAndIsr(
        leader=leader if leader == -1 else number_of(leader),
        leader_epoch=number_of(fields["leader_epoch"]),
        in_sync_replicas=_brokers(fields["isr"]),
        controller_epoch=number_of(fields["controller_epoch"]),
        partition_epoch=partition_epoch,
        is_recovering=fields.get("leader_recovery_state", 0) == 1,
    )


def partitions_value(partitions: Iterable[TopicPartition]) -> dict[str, Any]:
    """The value of a notification of changed in-sync replicas, or of a request for preferred leaders."""
    return {
        "version": 1,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in partitions],
    }


def parse_partitions(value: object) -> list[TopicPartition]:
    return [_partition(fields) for fields in fields_of(value, 1)["partitions"]]


def _partition(fields: Mapping[str, object]) -> TopicPartition:
    return text_of(fields["topic"]), number_of(fields["partition"])


def reassignment_value(reassignment: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in reassignment.items()
        ],
    }


def parse_reassignment(value: object) -> dict[TopicPartition, tuple[int, ...]]:
    return {_partition(fields): _brokers(fields["replicas"]) for fields in fields_of(value, 1)["partitions"]}


# Notifications


def log_dir_event_value(broker_id: int) -> dict[str, Any]:
    """A log directory of this broker failed."""
    return {"version": 1, "broker": broker_id, "event": 1}


def parse_log_dir_event(value: object) -> int:
    """The broker whose log directory failed."""
    return number_of(fields_of(value, 1)["broker"])


def config_change_value(config_path: str) -> dict[str, Any]:
    """The settings at this path changed."""
    return {"version": 2, "entity_path": config_path.removeprefix("/config/")}


def parse_config_change(value: object) -> str:
    """The path of the settings that changed."""
    fields = fields_of(value, 1, 2)
    if fields["version"] == 1:
        return f"/config/{text_of(fields['entity_type'])}/{text_of(fields['entity_name'])}"
    return f"/config/{text_of(fields['entity_path'])}"


def sequence_number(name: str) -> int:
    """Return the number of a sequential znode; names without a number sort first."""
    digits = name[-10:]
    return int(digits) if digits.isdecimal() else -1
