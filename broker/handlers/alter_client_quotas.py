"""AlterClientQuotas: v0-v1 (key 49)

Behaviour (KIP-546):
* Each entity succeeds or fails by itself, as a whole. An entity is a user, a client id, both, or an address (KIP-612);
  a null name is the default of its type. Host names are no addresses here: INVALID_REQUEST.
* producer_byte_rate and consumer_byte_rate are whole numbers above 0, connection_creation_rate of addresses is one from
  0 on. request_percentage and controller_mutation_rate are numbers above 0. Others: INVALID_REQUEST.
* In force from the next request on; the recent traffic of a client counts against the new limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.describe_client_quotas import CLIENT_ID, IP, USER
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.property_row import INT32_MAX
from highwater.broker.settings.quota_entities import (
    CONNECTION_CREATION_RATE,
    DEFAULT,
    OF_CLIENTS,
    WHOLE_NUMBERS,
    Entity,
    Name,
    plain_ip,
)
from highwater.broker.settings.store import ConfigChange
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.problem import Problem, error_fields

_EPSILON: Final = 1e-6
"""The largest difference of a number from a whole one, as in ZkAdminManager."""
_MOST: Final = 2**63 - 1


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    changes: dict[Entity, ConfigChange] = {}
    wanted: list[Entity | Problem] = [_take(entry, changes) for entry in request.entries]
    deferred = Deferred()

    def answered(outcome: Mapping[str, Problem | None]) -> Answer:
        entries = []
        for entry, entity in zip(request.entries, wanted, strict=True):
            problem = entity if isinstance(entity, Problem) else outcome.get(metadata_tree.quota_path(entity))
            told = [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]
            entries.append({"entity": told} | error_fields(problem))
        return {"entries": entries}

    if changes and not request.validate_only:
        node.store.change_configs(
            {metadata_tree.quota_path(entity): change for entity, change in paced(changes.items())},
            deferred.complete_by(answered),
        )
    else:
        deferred.complete(answered({}))
    return deferred.now_or_later()


def _take(entry: Any, changes: dict[Entity, ConfigChange]) -> Entity | Problem:
    """Add the changes of an entry to `changes`, or return its error."""
    entity = _entity(entry.entity)
    if isinstance(entity, Problem):
        return entity
    if entity in changes:
        return Problem(ErrorCode.invalid_request, "The entity is altered twice in one request.")
    limits: dict[str, float | None] = {}
    for operation in entry.ops:
        key, value = operation.key, operation.value
        if key not in (OF_CLIENTS if entity.ip is None else (CONNECTION_CREATION_RATE,)):
            return Problem(ErrorCode.invalid_request, f"Invalid configuration key {key}.")
        if operation.remove:
            limits[key] = None
            continue
        if key == CONNECTION_CREATION_RATE and not 0 <= value <= INT32_MAX:
            return Problem(ErrorCode.invalid_request, f"Quota {key} must be at least 0 and at most {INT32_MAX}.")
        if key not in WHOLE_NUMBERS:
            if not 0 < value < inf:
                return Problem(ErrorCode.invalid_request, f"Quota {key} must be greater than 0.")
            limits[key] = value
            continue
        if key != CONNECTION_CREATION_RATE and not 1 <= value <= _MOST:
            return Problem(ErrorCode.invalid_request, f"Quota {key} must be greater than 0 and at most {_MOST}.")
        if abs(value - int(value + _EPSILON)) > _EPSILON:
            return Problem(ErrorCode.invalid_request, f"Configuration {key} must be a whole number.")
        limits[key] = float(int(value + _EPSILON))
    changes[entity] = lambda present: {
        **{key: text for key, text in present.items() if key not in limits},
        **metadata_tree.quota_config({key: limit for key, limit in limits.items() if limit is not None}),
    }
    return entity


def _entity(parts: Any) -> Entity | Problem:
    names: dict[str, Name] = {}
    for part in parts:
        kind = part.entity_type
        if kind not in (USER, CLIENT_ID, IP):
            return Problem(ErrorCode.invalid_request, f"Unhandled client quota entity type: {kind}.")
        if kind in names:
            return Problem(ErrorCode.invalid_request, f"Duplicate {kind} in the entity.")
        if part.entity_name == "":
            return Problem(ErrorCode.invalid_request, f"Empty {kind} not supported.")
        names[kind] = DEFAULT if part.entity_name is None else part.entity_name
    if IP in names and len(names) > 1:
        return Problem(ErrorCode.invalid_request, "Invalid client quota entity: ip goes with no other.")
    if not names:
        return Problem(ErrorCode.invalid_request, "Invalid empty client quota entity.")
    ip = names.get(IP)
    if isinstance(ip, str):
        try:
            ip = plain_ip(ip)
        except ValueError:
            return Problem(ErrorCode.invalid_request, f"{ip} is not an IP address.")
    return Entity(names.get(USER), names.get(CLIENT_ID), ip)
