"""Paths and values of Kafka 3.9's znodes (kafka.zk.ZkData): what they hold as Python values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID, uuid4

from broker.log.checkpoint import decode_topic_id, encode_topic_id
from broker.quota.entities import DEFAULT, Default, Entity
from broker.security.scram import Credentials, ScramMechanism, decode_credential, encode_credential

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER_EPOCH: Final = "/controller_epoch"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
DEFAULT_ENTITY: Final = "<default>"
"""The name under which settings of all brokers are kept, or of all clients."""
USER_CONFIGS: Final = "/config/users"
DELETE_TOPICS: Final = "/admin/delete_topics"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

PRODUCER_ID_BLOCK_SIZE: Final = 1000

Assignment = Mapping[int, list[int]]
"""Replicas by partition, the preferred leader first."""


class NewerZnode(ValueError):  # noqa: N818 - it names the thing found
    """A value of a version that this broker does not know, so somebody newer wrote it."""


class ProducerIdBlock(NamedTuple):
    broker_id: int
    first: int
    last: int


def random_topic_id() -> UUID:
    """A topic id as Kafka's Uuid.randomUuid makes it: its text has no dash in front, which tools take for an option."""
    while True:
        topic_id = uuid4()
        if not encode_topic_id(topic_id).startswith("-"):
            return topic_id


def _fields(value: object, version: object) -> Mapping[str, Any]:
    """The fields of a value of this version; ValueError if it is something else."""
    if not isinstance(value, dict) or "version" not in value:
        raise ValueError(f"{value!r} is not a value with a version")
    if value["version"] != version:
        raise NewerZnode(f"its version is {value['version']!r}, and this broker knows {version!r}")
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


def topic_value(topic_id: UUID, assignment: Assignment) -> dict[str, Any]:
    return {
        "version": 3,
        "topic_id": encode_topic_id(topic_id),
        "partitions": {str(partition): list(replicas) for partition, replicas in assignment.items()},
        "adding_replicas": {},
        "removing_replicas": {},
    }


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
