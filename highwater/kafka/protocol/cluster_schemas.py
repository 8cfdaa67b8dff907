"""Requests of a ZooKeeper-mode controller to brokers, which kio lacks because Kafka 4 dropped them.

They follow Apache Kafka 3.9's message definitions (clients/src/main/resources/common/message), in kio's spelling:
each field with the versions it is in. The class of a version is made at its first use, in kio's manner.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i64

_LATEST: Final = 99
_HINTS: Final[Mapping[str, Any]] = {
    "bool": bool,
    "error_code": ErrorCode,
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    "string": str,
    "uuid": UUID | None,
}


class _Struct(NamedTuple):
    name: str
    fields: tuple[_Field, ...]


class _Array(NamedTuple):
    item: str | _Struct


class _Field(NamedTuple):
    name: str
    kind: str | _Array
    since: int = 0
    until: int = _LATEST
    default: Any = dataclasses.MISSING
    is_nullable: bool = False
    tag: int | None = None


class _Schema(NamedTuple):
    api_key: int
    max_version: int
    flexible_from: int
    request: _Struct
    response: _Struct


def _struct(name: str, *fields: _Field) -> _Struct:
    return _Struct(name, fields)


def _each(name: str, *fields: _Field) -> _Array:
    """An array of structures."""
    return _Array(_Struct(name, fields))


_PARTITION_STATE: Final = _struct(
    "LeaderAndIsrPartitionState",
    _Field("topic_name", "string", until=1),
    _Field("partition_index", "int32"),
    _Field("controller_epoch", "int32"),
    _Field("leader", "int32"),
    _Field("leader_epoch", "int32"),
    _Field("isr", _Array("int32")),
    _Field("partition_epoch", "int32"),
    _Field("replicas", _Array("int32")),
    _Field("adding_replicas", _Array("int32"), since=3),
    _Field("removing_replicas", _Array("int32"), since=3),
    _Field("is_new", "bool", since=1, default=False),
    _Field("leader_recovery_state", "int8", since=6, default=0),
)

_PARTITION_ERROR: Final = _struct(
    "LeaderAndIsrPartitionError",
    _Field("topic_name", "string", until=4),
    _Field("partition_index", "int32"),
    _Field("error_code", "error_code"),
)

_LEADER_AND_ISR: Final = _Schema(
    api_key=4,
    max_version=7,
    flexible_from=4,
    request=_struct(
        "LeaderAndIsrRequest",
        _Field("controller_id", "int32"),
        _Field("is_k_raft_controller", "bool", since=7, default=False),
        _Field("controller_epoch", "int32"),
        _Field("broker_epoch", "int64", since=2, default=-1),
        _Field("type", "int8", since=5),
        _Field("ungrouped_partition_states", _Array(_PARTITION_STATE), until=1),
        _Field(
            "topic_states",
            _each(
                "LeaderAndIsrTopicState",
                _Field("topic_name", "string"),
                _Field("topic_id", "uuid", since=5),
                _Field("partition_states", _Array(_PARTITION_STATE)),
            ),
            since=2,
        ),
        _Field(
            "live_leaders",
            _each(
                "LeaderAndIsrLiveLeader",
                _Field("broker_id", "int32"),
                _Field("host_name", "string"),
                _Field("port", "int32"),
            ),
        ),
    ),
    response=_struct(
        "LeaderAndIsrResponse",
        _Field("error_code", "error_code"),
        _Field("partition_errors", _Array(_PARTITION_ERROR), until=4),
        _Field(
            "topics",
            _each(
                "LeaderAndIsrTopicError",
                _Field("topic_id", "uuid"),
                _Field("partition_errors", _Array(_PARTITION_ERROR)),
            ),
            since=5,
        ),
    ),
)

_STOP_REPLICA: Final = _Schema(
    api_key=5,
    max_version=4,
    flexible_from=2,
    request=_struct(
        "StopReplicaRequest",
        _Field("controller_id", "int32"),
        _Field("is_k_raft_controller", "bool", since=4, default=False),
        _Field("controller_epoch", "int32"),
        _Field("broker_epoch", "int64", since=1, default=-1),
        _Field("delete_partitions", "bool", until=2),
        _Field(
            "ungrouped_partitions",
            _each("StopReplicaPartitionV0", _Field("topic_name", "string"), _Field("partition_index", "int32")),
            until=0,
        ),
        _Field(
            "topics",
            _each("StopReplicaTopicV1", _Field("name", "string"), _Field("partition_indexes", _Array("int32"))),
            since=1,
            until=2,
        ),
        _Field(
            "topic_states",
            _each(
                "StopReplicaTopicState",
                _Field("topic_name", "string"),
                _Field(
                    "partition_states",
                    _each(
                        "StopReplicaPartitionState",
                        _Field("partition_index", "int32"),
                        _Field("leader_epoch", "int32", default=-1),
                        _Field("delete_partition", "bool"),
                    ),
                ),
            ),
            since=3,
        ),
    ),
    response=_struct(
        "StopReplicaResponse",
        _Field("error_code", "error_code"),
        _Field(
            "partition_errors",
            _each(
                "StopReplicaPartitionError",
                _Field("topic_name", "string"),
                _Field("partition_index", "int32"),
                _Field("error_code", "error_code"),
            ),
        ),
    ),
)

_METADATA_PARTITION_STATE: Final = _struct(
    "UpdateMetadataPartitionState",
    _Field("topic_name", "string", until=4),
    _Field("partition_index", "int32"),
    _Field("controller_epoch", "int32"),
    _Field("leader", "int32"),
    _Field("leader_epoch", "int32"),
    _Field("isr", _Array("int32")),
    _Field("zk_version", "int32"),
    _Field("replicas", _Array("int32")),
    _Field("offline_replicas", _Array("int32"), since=4),
)

_UPDATE_METADATA: Final = _Schema(
    api_key=6,
    max_version=8,
    flexible_from=6,
    request=_struct(
        "UpdateMetadataRequest",
        _Field("controller_id", "int32"),
        _Field("is_k_raft_controller", "bool", since=8, default=False),
        _Field("type", "int8", since=8, default=0, tag=0),
        _Field("controller_epoch", "int32"),
        _Field("broker_epoch", "int64", since=5, default=-1),
        _Field("ungrouped_partition_states", _Array(_METADATA_PARTITION_STATE), until=4),
        _Field(
            "topic_states",
            _each(
                "UpdateMetadataTopicState",
                _Field("topic_name", "string"),
                _Field("topic_id", "uuid", since=7),
                _Field("partition_states", _Array(_METADATA_PARTITION_STATE)),
            ),
            since=5,
        ),
        _Field(
            "live_brokers",
            _each(
                "UpdateMetadataBroker",
                _Field("id", "int32"),
                _Field("v0_host", "string", until=0),
                _Field("v0_port", "int32", until=0),
                _Field(
                    "endpoints",
                    _each(
                        "UpdateMetadataEndpoint",
                        _Field("port", "int32"),
                        _Field("host", "string"),
                        _Field("listener", "string", since=3),
                        _Field("security_protocol", "int16"),
                    ),
                    since=1,
                ),
                _Field("rack", "string", since=2, is_nullable=True),
            ),
        ),
    ),
    response=_struct("UpdateMetadataResponse", _Field("error_code", "error_code")),
)

_CONTROLLED_SHUTDOWN: Final = _Schema(
    api_key=7,
    max_version=3,
    flexible_from=3,
    request=_struct(
        "ControlledShutdownRequest", _Field("broker_id", "int32"), _Field("broker_epoch", "int64", since=2, default=-1)
    ),
    response=_struct(
        "ControlledShutdownResponse",
        _Field("error_code", "error_code"),
        _Field(
            "remaining_partitions",
            _each("RemainingPartition", _Field("topic_name", "string"), _Field("partition_index", "int32")),
        ),
    ),
)

_SCHEMAS: Final[Mapping[str, _Schema]] = {
    "leader_and_isr": _LEADER_AND_ISR,
    "stop_replica": _STOP_REPLICA,
    "update_metadata": _UPDATE_METADATA,
    "controlled_shutdown": _CONTROLLED_SHUTDOWN,
}


def versions(schema: str) -> range:
    """The versions of a schema that are defined here."""
    return range(_SCHEMAS[schema].max_version + 1) if schema in _SCHEMAS else range(0)


def entity(schema: str, version: int, kind: EntityType) -> type[Any]:
    """The request or answer of a version, as a dataclass in kio's manner."""
    told = _SCHEMAS[schema]
    if version not in versions(schema):
        raise KeyError(f"{schema} has no version {version}")
    return _make(told.request if kind is EntityType.request else told.response, told, version, kind)


def _make(struct: _Struct, schema: _Schema, version: int, kind: EntityType) -> type[Any]:
    fields = []
    for field in struct.fields:
        if not field.since <= version <= field.until:
            continue
        hint, kafka_type = _hint(field, schema, version)
        metadata: dict[str, Any] = {} if kafka_type is None else {"kafka_type": kafka_type}
        if field.tag is not None:
            metadata["tag"] = field.tag
        fields.append((field.name, hint, dataclasses.field(metadata=metadata, default=field.default)))
    constants = {
        "__type__": kind,
        "__version__": i16(version),
        "__flexible__": version >= schema.flexible_from,
        "__api_key__": i16(schema.api_key),
    }
    return dataclasses.make_dataclass(struct.name, fields, namespace=constants, frozen=True, slots=True, kw_only=True)


def _hint(field: _Field, schema: _Schema, version: int) -> tuple[Any, str | None]:
    """The type of a field, and kio's name of it if that is no structure."""
    if isinstance(field.kind, str):
        hint = _HINTS[field.kind]
        return hint | None if field.is_nullable else hint, field.kind
    item = field.kind.item
    if isinstance(item, str):
        return types.GenericAlias(tuple, (_HINTS[item], ...)), item
    return types.GenericAlias(tuple, (_make(item, schema, version, EntityType.nested), ...)), None
