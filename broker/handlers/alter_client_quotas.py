"""AlterClientQuotas: v0-v1 (key 49)

Behaviour (KIP-546):
* Each entity by itself: all that is asked of it happens, or nothing. It is a user, a client id, or both; a null name is
  the default of its kind.
* producer_byte_rate and consumer_byte_rate are whole numbers above 0. Kafka's other quotas are not enforced here, so
  they are refused: INVALID_REQUEST.
* In force from the next request on; what clients moved lately counts against the new limits.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.administration import Problem
from broker.handlers.describe_client_quotas import CLIENT_ID, IP, USER
from broker.handlers.reply import Reply, RequestContext
from broker.node import Node
from broker.quota.entities import DEFAULT, HONOURED, Entity, Name

_logger = logging.getLogger(__name__)

_NOT_ENFORCED: Final = ("request_percentage", "controller_mutation_rate", "connection_creation_rate")
_EPSILON: Final = 1e-6
"""How far a number may be from a whole one, as in ZkAdminManager."""
_MOST: Final = 2**63 - 1


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    changed: dict[Entity, dict[str, float]] = {}
    entries: list[dict[str, Any]] = []
    for entry in request.entries:
        problem = _take(node, entry, changed)
        entries.append(
            {"entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]}
            | ({} if problem is None else {"error_code": problem.error_code, "error_message": problem.message})
        )
    if changed and not request.validate_only:
        try:
            node.store.put_client_quotas(changed)
        except OSError as error:
            _logger.error("cannot change quotas: %s", error)
            for told in entries:
                told.setdefault("error_code", ErrorCode.kafka_storage_error)
                told.setdefault("error_message", f"The broker could not write: {error.strerror}")
        else:
            node.quotas.change(node.store.client_quotas())
    return {"entries": entries}


def _take(node: Node, entry: Any, changed: dict[Entity, dict[str, float]]) -> Problem | None:
    """Add what an entry asks for to `changed`, unless there is something wrong with it."""
    entity = _entity(entry.entity)
    if isinstance(entity, Problem):
        return entity
    if entity in changed:
        return Problem(ErrorCode.invalid_request, "The entity is altered twice in one request.")
    limits = dict(node.store.client_quotas().get(entity, {}))
    for operation in entry.ops:
        key, value = operation.key, operation.value
        if key in _NOT_ENFORCED:
            return Problem(ErrorCode.invalid_request, f"This broker does not enforce {key}.")
        if key not in HONOURED:
            return Problem(ErrorCode.invalid_request, f"Invalid configuration key {key}.")
        if operation.remove:
            limits.pop(key, None)
            continue
        if not 1 <= value <= _MOST:
            return Problem(ErrorCode.invalid_request, f"Quota {key} must be greater than 0 and at most {_MOST}.")
        if abs(value - int(value + _EPSILON)) > _EPSILON:
            return Problem(ErrorCode.invalid_request, f"Configuration {key} must be a whole number.")
        limits[key] = float(int(value + _EPSILON))
    changed[entity] = limits
    return None


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
    if IP in names:
        return Problem(ErrorCode.invalid_request, "This broker has no quotas of addresses.")
    if not names:
        return Problem(ErrorCode.invalid_request, "Invalid empty client quota entity.")
    return Entity(names.get(USER), names.get(CLIENT_ID))
