"""Kafka's metadata tree as each broker keeps it: topics, settings, producer ids, features, by path.

A member of a cluster keeps the tree in ZooKeeper (cluster/znodes.py has the rest of it), a lone broker in a file.
`<thing>_value` returns the JSON of a thing, with the fields in the order in which Kafka writes them (kafka.zk.ZkData);
`parse_<thing>` returns the thing of a JSON, and raises ValueError, KeyError, TypeError or AttributeError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from highwater.broker.features import Finalised
from highwater.broker.log.checkpoint import decode_topic_id, encode_topic_id
from highwater.broker.settings.quota_entities import DEFAULT, WHOLE_NUMBERS, Default, Entity
from highwater.kafka.login.scram import Credentials, ScramMechanism, decode_credential, encode_credential

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER_EPOCH: Final = "/controller_epoch"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
CLIENT_CONFIGS: Final = "/config/clients"
USER_CONFIGS: Final = "/config/users"
IP_CONFIGS: Final = "/config/ips"
CLIENT_METRICS_CONFIGS: Final = "/config/client-metrics"
GROUP_CONFIGS: Final = "/config/groups"
OWN_CONFIGS: Final = (CLIENT_METRICS_CONFIGS, GROUP_CONFIGS)
"""Ours alone: Kafka has such settings with a quorum only."""
DEFAULT_ENTITY: Final = "<default>"
"""The name under which settings of all brokers are kept, or of all clients."""
DELETE_TOPICS: Final = "/admin/delete_topics"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURES: Final = "/highwater/features"
"""Ours alone. Kafka 3.9 ends where its own path, /feature, has a feature that it does not know."""

PRODUCER_ID_BLOCK_SIZE: Final = 1000


class NewerZnode(ValueError):  # noqa: N818 - it names the thing found
    """A value of a version that this broker does not know, so somebody newer wrote it."""


class ProducerIdBlock(NamedTuple):
    broker_id: int
    first: int
    last: int


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: str) -> str:
    """The path of the settings of one broker, or of all if the name is empty."""
    return f"{BROKER_CONFIGS}/{broker or DEFAULT_ENTITY}"


def own_config_path(parent: str, name: str) -> str:
    """The path of a thing with settings below one of `OWN_CONFIGS`, whose name may be any text."""
    return f"{parent}/{sanitized(name)}"


def parse_own_config_path(path: str) -> tuple[str, str] | None:
    """The parent and the name of the thing with settings at this path; None for any other path."""
    parent, _, name = path.rpartition("/")
    return (parent, unquote(name)) if parent in OWN_CONFIGS else None


def own_configs_of(configs: Mapping[str, Mapping[str, str]], parent: str) -> Mapping[str, Mapping[str, str]]:
    """The settings below one of `OWN_CONFIGS` by name, of settings by path."""
    named = ((parse_own_config_path(path), config) for path, config in configs.items())
    return {found[1]: config for found, config in named if found is not None and found[0] == parent}


def fields_of(value: object, *versions: object) -> Mapping[str, Any]:
    """The fields of a value of one of these versions; ValueError if it is something else."""
    if not isinstance(value, dict) or "version" not in value:
        raise ValueError(f"{value!r} is not a value with a version")
    if value["version"] not in versions:
        raise NewerZnode(f"its version is {value['version']!r}, and this broker knows {versions[-1]!r}")
    return value


def text_of(value: object) -> str:
    """The text that `value` is; ValueError if it is something else."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def number_of(value: object) -> int:
    """The int32 from 0 on that `value` is; ValueError if it is something else."""
    if not isinstance(value, int) or not 0 <= value < 2**31 - 1:
        raise ValueError(f"{value!r} is not a number from 0 to {2**31 - 2}")
    return int(value)


def parse_cluster_id(value: object) -> str:
    return text_of(fields_of(value, "1")["id"])


def parse_controller_epoch(value: object) -> int:
    return number_of(value)


def cluster_id_value(cluster_id: str) -> dict[str, Any]:
    return {"version": "1", "id": cluster_id}


def listed(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    """The replicas by partition, in the form of a topic's znode."""
    return {str(partition): list(brokers) for partition, brokers in replicas.items() if brokers}


def topic_value(topic_id: UUID, assignment: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    return {
        "partitions": listed(assignment),
        "topic_id": encode_topic_id(topic_id),
        "adding_replicas": {},
        "removing_replicas": {},
        "version": 3,
    }


def parse_topic(value: object) -> tuple[UUID, dict[int, list[int]]]:
    fields = fields_of(value, 3)
    assignment = {
        int(partition): [number_of(replica) for replica in replicas]
        for partition, replicas in fields["partitions"].items()
    }
    if sorted(assignment) != list(range(len(assignment))) or not all(assignment.values()):
        raise ValueError(f"the partitions {sorted(assignment)} are not numbered from 0 on, each with its replicas")
    return decode_topic_id(text_of(fields["topic_id"])), dict(sorted(assignment.items()))


def config_value(config: Mapping[str, str]) -> dict[str, Any]:
    return {"version": 1, "config": dict(config)}


def parse_config(value: object) -> dict[str, str]:
    return {name: text_of(text) for name, text in fields_of(value, 1)["config"].items()}


def quota_path(entity: Entity) -> str:
    """Where quotas stand: /config/users/U, /config/users/U/clients/C, /config/clients/C, /config/ips/I."""
    if entity.ip is not None:
        return f"{IP_CONFIGS}/{_quota_name(entity.ip)}"
    client = "" if entity.client_id is None else f"/clients/{_quota_name(entity.client_id)}"
    return f"/config{client}" if entity.user is None else f"{USER_CONFIGS}/{_quota_name(entity.user)}{client}"


def parse_quota_path(path: str) -> Entity | None:
    """The entity whose quotas are at this path; None for any other path."""
    match path.removeprefix("/config/").split("/") if path.startswith("/config/") else ():
        case ["clients", client]:
            return Entity(None, _parse_quota_name(client))
        case ["ips", ip]:
            return Entity(ip=_parse_quota_name(ip))
        case ["users", user]:
            return Entity(_parse_quota_name(user), None)
        case ["users", user, "clients", client]:
            return Entity(_parse_quota_name(user), _parse_quota_name(client))
    return None


def _quota_name(name: str | Default) -> str:
    # A sanitised name has no "<".
    return DEFAULT_ENTITY if isinstance(name, Default) else sanitized(name)


def sanitized(name: str) -> str:
    """A name as a part of a path, as org.apache.kafka.common.utils.Sanitizer does it."""
    return quote(name, safe="").replace("~", "%7E")


def _parse_quota_name(text: str) -> str | Default:
    return DEFAULT if text == DEFAULT_ENTITY else unquote(text)


def quota_config(limits: Mapping[str, float]) -> dict[str, str]:
    """Kafka writes whole numbers of bytes and connections, and a decimal point in what is of type DOUBLE."""
    return {name: str(int(limit) if name in WHOLE_NUMBERS else float(limit)) for name, limit in limits.items()}


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
    fields = fields_of(value, 1)
    first, last = int(text_of(fields["block_start"])), int(text_of(fields["block_end"]))
    if not 0 <= first <= last < 2**63 - PRODUCER_ID_BLOCK_SIZE:
        raise ValueError(f"{first} to {last} are no producer ids")
    return ProducerIdBlock(number_of(fields["broker"]), first, last)


def features_value(finalised: Finalised) -> dict[str, Any]:
    return {"version": 1, "epoch": finalised.epoch, "levels": dict(finalised.levels)}


def parse_features(value: object) -> Finalised:
    fields = fields_of(value, 1)
    epoch = fields["epoch"]
    if not isinstance(epoch, int) or not 0 <= epoch < 2**63 - 1:
        raise ValueError(f"{epoch!r} is not an epoch of features")
    return Finalised(epoch, {text_of(name): number_of(level) for name, level in fields["levels"].items()})
