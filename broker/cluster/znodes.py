"""Paths and values of Kafka 3.9's znodes (kafka.zk.ZkData): what they hold as Python values, and back.

`<thing>_value` gives the JSON of a thing with its fields in the order in which Kafka writes them; `parse_<thing>` the
thing of a JSON. `encode` makes the bytes of a znode from the first, and `read` gives them to the second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote
from uuid import UUID, uuid4

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.cluster.state import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from highwater.broker.log.checkpoint import TopicPartition, decode_topic_id, encode_topic_id
from highwater.broker.quota.entities import DEFAULT, Default, Entity
from highwater.broker.security.scram import Credentials, ScramMechanism, decode_credential, encode_credential

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONSUMERS: Final = "/consumers"
FEATURE: Final = "/feature"
CONFIG_CHANGES: Final = "/config/changes"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
CLIENT_CONFIGS: Final = "/config/clients"
USER_CONFIGS: Final = "/config/users"
IP_CONFIGS: Final = "/config/ips"
DEFAULT_ENTITY: Final = "<default>"
"""The name under which settings of all brokers are kept, or of all clients."""
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATIONS: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATIONS: Final = "/log_dir_event_notification"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

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
"""What every broker makes at its start, parents too, unless it is there."""

PRODUCER_ID_BLOCK_SIZE: Final = 1000

Assignment = Mapping[int, list[int]]
"""Replicas by partition, the preferred leader first."""

T = TypeVar("T")


class NewerZnode(ValueError):  # noqa: N818 - it names the thing found
    """A value of a version that this broker does not know, so somebody newer wrote it."""


class ProducerIdBlock(NamedTuple):
    broker_id: int
    first: int
    last: int


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


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: str) -> str:
    """Of the settings of one broker, or, under the empty name, of all."""
    return f"{BROKER_CONFIGS}/{broker or DEFAULT_ENTITY}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


_to_json: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def encode(value: object) -> bytes:
    """A JSON as Kafka writes it."""
    return _to_json(value).encode()


def read(data: bytes, parse: Callable[[object], T]) -> T:
    """What a znode holds. Raises ValueError when it is something else; NewerZnode is one."""
    try:
        return parse(json.loads(data))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{data[:200]!r} cannot be understood: {error!r}") from None


def random_topic_id() -> UUID:
    """A topic id as Kafka's Uuid.randomUuid makes it: its text has no dash in front, which tools take for an option."""
    while True:
        topic_id = uuid4()
        if not encode_topic_id(topic_id).startswith("-"):
            return topic_id


def _fields(value: object, *versions: object) -> Mapping[str, Any]:
    """The fields of a value of one of these versions; ValueError if it is something else."""
    if not isinstance(value, dict) or "version" not in value:
        raise ValueError(f"{value!r} is not a value with a version")
    if value["version"] not in versions:
        raise NewerZnode(f"its version is {value['version']!r}, and this broker knows {versions[-1]!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**31 - 1:
        raise ValueError(f"{value!r} is not a number from 0 to {2**31 - 2}")
    return int(value)


def parse_cluster_id(value: object) -> str:
    return _text(_fields(value, "1")["id"])


def parse_controller_epoch(value: object) -> int:
    return _number(value)


def cluster_id_value(cluster_id: str) -> dict[str, Any]:
    return {"version": "1", "id": cluster_id}


def _listed(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(partition): list(brokers) for partition, brokers in replicas.items() if brokers}


def topic_value(topic_id: UUID, assignment: Assignment) -> dict[str, Any]:
    return assigned_topic_value(
        topic_id, {index: ReplicaAssignment(tuple(brokers)) for index, brokers in assignment.items()}
    )


def assigned_topic_value(topic_id: UUID, assignment: Mapping[int, ReplicaAssignment]) -> dict[str, Any]:
    return {
        "partitions": _listed({index: assigned.replicas for index, assigned in assignment.items()}),
        "topic_id": encode_topic_id(topic_id),
        "adding_replicas": _listed({index: assigned.adding for index, assigned in assignment.items()}),
        "removing_replicas": _listed({index: assigned.removing for index, assigned in assignment.items()}),
        "version": 3,
    }


def parse_assigned_topic(value: object) -> tuple[UUID | None, dict[int, ReplicaAssignment]]:
    """Without an id a topic was made before Kafka 2.8, or by a tool of that time: the controller gives it one."""
    fields = _fields(value, 1, 2, 3)
    adding, removing = fields.get("adding_replicas", {}), fields.get("removing_replicas", {})
    assignment = {
        int(index): ReplicaAssignment(
            _brokers(brokers), _brokers(adding.get(index, ())), _brokers(removing.get(index, ()))
        )
        for index, brokers in fields["partitions"].items()
    }
    topic_id = fields.get("topic_id")
    return None if topic_id is None else decode_topic_id(_text(topic_id)), dict(sorted(assignment.items()))


def _brokers(value: Iterable[object]) -> tuple[int, ...]:
    return tuple(_number(broker) for broker in value)


def parse_topic(value: object) -> tuple[UUID, dict[int, list[int]]]:
    fields = _fields(value, 3)
    assignment = {
        int(partition): [_number(replica) for replica in replicas]
        for partition, replicas in fields["partitions"].items()
    }
    if sorted(assignment) != list(range(len(assignment))) or not all(assignment.values()):
        raise ValueError(f"the partitions {sorted(assignment)} are not numbered from 0 on, each with its replicas")
    return decode_topic_id(_text(fields["topic_id"])), dict(sorted(assignment.items()))


def config_value(config: Mapping[str, str]) -> dict[str, Any]:
    return {"version": 1, "config": dict(config)}


def parse_config(value: object) -> dict[str, str]:
    return {name: _text(text) for name, text in _fields(value, 1)["config"].items()}


def quota_path(entity: Entity) -> str:
    """Where the quotas of users and clients stand: /config/users/U, /config/users/U/clients/C, /config/clients/C."""
    client = "" if entity.client_id is None else f"/clients/{_quota_name(entity.client_id)}"
    return f"/config{client}" if entity.user is None else f"{USER_CONFIGS}/{_quota_name(entity.user)}{client}"


def parse_quota_path(path: str) -> Entity | None:
    """Whose quotas stand there; None for any other path."""
    match path.removeprefix("/config/").split("/") if path.startswith("/config/") else ():
        case ["clients", client]:
            return Entity(None, _parse_quota_name(client))
        case ["users", user]:
            return Entity(_parse_quota_name(user), None)
        case ["users", user, "clients", client]:
            return Entity(_parse_quota_name(user), _parse_quota_name(client))
    return None


def _quota_name(name: str | Default) -> str:
    # As org.apache.kafka.common.utils.Sanitizer does it; "<" is never left as it is.
    return DEFAULT_ENTITY if isinstance(name, Default) else quote(name, safe="").replace("~", "%7E")


def _parse_quota_name(text: str) -> str | Default:
    return DEFAULT if text == DEFAULT_ENTITY else unquote(text)


def quota_config(limits: Mapping[str, float]) -> dict[str, str]:
    return {name: str(int(limit)) for name, limit in limits.items()}


def parse_quotas(value: object) -> dict[str, float]:
    return {name: float(limit) for name, limit in parse_config(value).items() if name not in _SCRAM_MECHANISMS}


_SCRAM_MECHANISMS: Final = {mechanism.text: mechanism for mechanism in ScramMechanism}


def scram_config(credentials: Credentials) -> dict[str, str]:
    """The credentials of a user, which stand beside his quotas."""
    return {mechanism.text: encode_credential(credential) for mechanism, credential in credentials.items()}


def parse_scram_credentials(value: object) -> Credentials:
    config = parse_config(value)
    return {
        mechanism: decode_credential(config[name]) for name, mechanism in _SCRAM_MECHANISMS.items() if name in config
    }


def producer_id_block_value(block: ProducerIdBlock) -> dict[str, Any]:
    return {"version": 1, "broker": block.broker_id, "block_start": str(block.first), "block_end": str(block.last)}


def parse_producer_id_block(value: object) -> ProducerIdBlock:
    fields = _fields(value, 1)
    first, last = int(_text(fields["block_start"])), int(_text(fields["block_end"]))
    if not 0 <= first <= last < 2**63 - PRODUCER_ID_BLOCK_SIZE:
        raise ValueError(f"{first} to {last} are no producer ids")
    return ProducerIdBlock(_number(fields["broker"]), first, last)


# Brokers and the controller


def broker_value(info: BrokerInfo, timestamp_ms: int) -> dict[str, Any]:
    """The registration of a broker. Its epoch is not in it: ZooKeeper gives it."""
    plaintext = next((endpoint for endpoint in info.endpoints if endpoint.security_protocol == "PLAINTEXT"), None)
    return {
        "features": {},
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
    fields = _fields(value, 4, 5)
    protocols = fields["listener_security_protocol_map"]
    endpoints = tuple(_parse_endpoint(_text(text), protocols) for text in fields["endpoints"])
    rack = fields.get("rack")
    return BrokerInfo(broker_id, epoch, endpoints, None if rack is None else _text(rack))


_ENDPOINT: Final = re.compile(r"(?P<name>.*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)")


def _endpoint_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener_name}://{host}:{endpoint.port}"


def _parse_endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an endpoint")
    return Endpoint(match["name"], _text(protocols[match["name"]]), match["host"], int(match["port"]))


def controller_value(broker_id: int, timestamp_ms: int) -> dict[str, Any]:
    return {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}


def parse_controller(value: object) -> int:
    """Which broker it is."""
    return _number(_fields(value, 1, 2)["brokerid"])


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
    fields = _fields(value, 1)
    leader = fields["leader"]
    return LeaderAndIsr(
        leader=leader if leader == -1 else _number(leader),
        leader_epoch=_number(fields["leader_epoch"]),
        in_sync_replicas=_brokers(fields["isr"]),
        controller_epoch=_number(fields["controller_epoch"]),
        partition_epoch=partition_epoch,
        is_recovering=fields.get("leader_recovery_state", 0) == 1,
    )


def partitions_value(partitions: Iterable[TopicPartition]) -> dict[str, Any]:
    """Of a notification of changed in-sync replicas, and of a wish for preferred leaders."""
    return {
        "version": 1,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in partitions],
    }


def parse_partitions(value: object) -> list[TopicPartition]:
    return [_partition(fields) for fields in _fields(value, 1)["partitions"]]


def _partition(fields: Mapping[str, object]) -> TopicPartition:
    return _text(fields["topic"]), _number(fields["partition"])


def reassignment_value(reassignment: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in reassignment.items()
        ],
    }


def parse_reassignment(value: object) -> dict[TopicPartition, tuple[int, ...]]:
    return {_partition(fields): _brokers(fields["replicas"]) for fields in _fields(value, 1)["partitions"]}


# Notifications


def log_dir_event_value(broker_id: int) -> dict[str, Any]:
    """A log directory of this broker failed."""
    return {"version": 1, "broker": broker_id, "event": 1}


def parse_log_dir_event(value: object) -> int:
    """The broker whose log directory failed."""
    return _number(_fields(value, 1)["broker"])


def config_change_value(config_path: str) -> dict[str, Any]:
    """The settings at this path changed."""
    return {"version": 2, "entity_path": config_path.removeprefix("/config/")}


def parse_config_change(value: object) -> str:
    """The path of the settings that changed."""
    fields = _fields(value, 1, 2)
    if fields["version"] == 1:
        return f"/config/{_text(fields['entity_type'])}/{_text(fields['entity_name'])}"
    return f"/config/{_text(fields['entity_path'])}"


def sequence_number(name: str) -> int:
    """That ZooKeeper gave to a sequential node; names that have none come first."""
    digits = name[-10:]
    return int(digits) if digits.isdecimal() else -1
