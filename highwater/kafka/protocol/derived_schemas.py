"""Versions that kio's schemas lack: of Kafka 3.9, which Kafka 4 dropped, and the newest of Kafka 4.4.

Each is defined as its difference from the nearest version that kio has, by Apache Kafka's message definitions
(clients/src/main/resources/common/message): which fields it lacks, and which others stand in their places.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i32, i64


class _Field(NamedTuple):
    name: str
    hint: Any
    kafka_type: str
    default: Any = dataclasses.MISSING


class _Derived(NamedTuple):
    """One version of one schema, by the version that it is made from."""

    base: int
    request: Mapping[str, tuple[_Field, ...]] = {}
    """What replaces each field of that version; keys are "Entity.field"."""
    response: Mapping[str, tuple[_Field, ...]] = {}
    is_flexible: bool | None = None
    """Where it is not as flexible as that version."""


_DERIVED: Final[Mapping[tuple[str, int], _Derived]] = {
    ("list_offsets", 0): _Derived(
        1,
        {
            "ListOffsetsPartition.timestamp": (
                _Field("timestamp", i64, "int64"),
                _Field("max_num_offsets", i32, "int32"),
            )
        },
        {
            "ListOffsetsPartitionResponse.timestamp": (_Field("old_style_offsets", tuple[i64, ...], "int64"),),
            "ListOffsetsPartitionResponse.offset": (),
        },
    ),
    ("create_topics", 0): _Derived(
        2,
        {"CreateTopicsRequest.validate_only": ()},
        {"CreateTopicsResponse.throttle_time": (), "CreatableTopicResult.error_message": ()},
    ),
    ("create_topics", 1): _Derived(2, response={"CreateTopicsResponse.throttle_time": ()}),
    ("delete_topics", 0): _Derived(1, response={"DeleteTopicsResponse.throttle_time": ()}),
    ("offset_for_leader_epoch", 0): _Derived(
        2,
        {"OffsetForLeaderPartition.current_leader_epoch": ()},
        {"OffsetForLeaderEpochResponse.throttle_time": (), "EpochEndOffset.leader_epoch": ()},
    ),
    ("offset_for_leader_epoch", 1): _Derived(
        2,
        {"OffsetForLeaderPartition.current_leader_epoch": ()},
        {"OffsetForLeaderEpochResponse.throttle_time": ()},
    ),
    ("write_txn_markers", 0): _Derived(1, is_flexible=False),
    ("describe_acls", 0): _Derived(
        1, {"DescribeAclsRequest.pattern_type_filter": ()}, {"DescribeAclsResource.pattern_type": ()}
    ),
    ("create_acls", 0): _Derived(1, {"AclCreation.resource_pattern_type": ()}),
    ("delete_acls", 0): _Derived(
        1, {"DeleteAclsFilter.pattern_type_filter": ()}, {"DeleteAclsMatchingAcl.pattern_type": ()}
    ),
    ("describe_configs", 0): _Derived(
        1,
        {"DescribeConfigsRequest.include_synonyms": ()},
        {
            "DescribeConfigsResourceResult.config_source": (_Field("is_default", bool, "bool"),),
            "DescribeConfigsResourceResult.synonyms": (),
        },
    ),
    ("alter_partition", 0): _Derived(
        1, {"PartitionData.leader_recovery_state": ()}, {"PartitionData.leader_recovery_state": ()}
    ),
    ("alter_partition", 1): _Derived(
        2,
        {"TopicData.topic_id": (_Field("topic_name", str, "string"),)},
        {"TopicData.topic_id": (_Field("topic_name", str, "string"),)},
    ),
    ("alter_replica_log_dirs", 0): _Derived(1),
    ("describe_log_dirs", 0): _Derived(1),
    ("api_versions", 5): _Derived(
        4,
        {
            "ApiVersionsRequest.client_software_version": (
                _Field("client_software_version", str, "string"),
                _Field("cluster_id", str | None, "string", None),
                _Field("node_id", i32, "int32", i32(-1)),
            )
        },
    ),
    ("delete_groups", 3): _Derived(
        2,
        response={
            "DeletableGroupResult.error_code": (
                _Field("error_code", ErrorCode, "error_code"),
                _Field("error_message", str | None, "string", None),
            )
        },
    ),
    ("txn_offset_commit", 6): _Derived(
        5,
        {"TxnOffsetCommitRequestTopic.name": (_Field("topic_id", UUID | None, "uuid"),)},
        {"TxnOffsetCommitResponseTopic.name": (_Field("topic_id", UUID | None, "uuid"),)},
    ),
}


def versions(schema: str) -> list[int]:
    """The versions of a schema that are defined here."""
    return [version for name, version in _DERIVED if name == schema]


def base_version(schema: str, version: int) -> int | None:
    """The version that this one is made from, or None if it is not defined here."""
    derived = _DERIVED.get((schema, version))
    return None if derived is None else derived.base


def derive(schema: str, version: int, kind: EntityType, base: type[Any]) -> type[Any]:
    """The request or answer of a version, as a dataclass in kio's manner, made from that of `base_version`."""
    derived = _DERIVED[schema, version]
    changes = derived.request if kind is EntityType.request else derived.response
    unused = set(changes)
    entity = _derive(base, version, derived, changes, unused)
    if unused:
        raise TypeError(f"{schema} {version}: there is no field {', '.join(sorted(unused))}")
    return entity


def _derive(
    base: type[Any], version: int, derived: _Derived, changes: Mapping[str, tuple[_Field, ...]], unused: set[str]
) -> type[Any]:
    nested = functools.partial(_derive, version=version, derived=derived, changes=changes, unused=unused)
    fields: list[tuple[str, Any, Any]] = []
    for field in dataclasses.fields(base):
        place = f"{base.__name__}.{field.name}"
        if place in changes:
            unused.discard(place)
            fields += [
                (
                    added.name,
                    added.hint,
                    dataclasses.field(metadata={"kafka_type": added.kafka_type}, default=added.default),
                )
                for added in changes[place]
            ]
        else:
            copy = dataclasses.field(metadata=dict(field.metadata), default=field.default)
            fields.append((field.name, _replace_entities(field.type, nested), copy))
    constants = {
        "__type__": base.__type__,
        "__version__": version,
        "__flexible__": base.__flexible__ if derived.is_flexible is None else derived.is_flexible,
        "__api_key__": base.__api_key__,
    }
    return dataclasses.make_dataclass(base.__name__, fields, namespace=constants, frozen=True, slots=True, kw_only=True)


def _replace_entities(hint: Any, derive_entity: Callable[[Any], Any]) -> Any:
    """The type of a field with every entity in it made of this version."""
    if dataclasses.is_dataclass(hint):
        return derive_entity(hint)
    if typing.get_origin(hint) is tuple:
        return types.GenericAlias(tuple, (_replace_entities(typing.get_args(hint)[0], derive_entity), ...))
    choices = typing.get_args(hint)
    if choices and any(typing.get_origin(choice) is tuple for choice in choices):
        (array,) = (choice for choice in choices if typing.get_origin(choice) is tuple)
        return _replace_entities(array, derive_entity) | None
    return hint
