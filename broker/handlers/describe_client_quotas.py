"""DescribeClientQuotas: v0-v1 (key 48)

Behaviour (KIP-546):
* A component matches quotas by their user or client id: one by its name (match type 0), the default (1), or any (2).
* Quotas with a component that the filter does not name are returned too, unless the filter is strict.
* An unknown entity type is UNSUPPORTED_VERSION, as in Kafka. An address (ip) goes with no user and no client id.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.settings.quota_entities import DEFAULT, Entity, Name

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_EXACT, _DEFAULT, _ANY = range(3)


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    filters: dict[str, Any] = {}
    for component in request.components:
        kind = component.entity_type
        if kind not in (USER, CLIENT_ID, IP):
            return _problem(ErrorCode.unsupported_version, f"Custom entity type '{kind}' not supported.")
        if kind in filters:
            return _problem(ErrorCode.invalid_request, f"Duplicate filter component entity type {kind}.")
        if not _EXACT <= component.match_type <= _ANY or (component.match_type == _EXACT) != (
            component.match is not None
        ):
            return _problem(ErrorCode.invalid_request, f"Match type {component.match_type} does not fit its match.")
        filters[kind] = component
    if IP in filters and len(filters) > 1:
        return _problem(
            ErrorCode.invalid_request, "Invalid entity filter component combination: ip goes with no other."
        )
    return {
        "entries": [
            {
                "entity": [
                    {"entity_type": kind, "entity_name": None if name is DEFAULT else name}
                    for kind, name in ((USER, entity.user), (CLIENT_ID, entity.client_id), (IP, entity.ip))
                    if name is not None
                ],
                "values": [{"key": key, "value": limit} for key, limit in sorted(limits.items())],
            }
            for entity, limits in node.store.client_quotas().items()
            if _matches(entity, filters, strict=request.strict)
        ]
    }


def _problem(error_code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": error_code, "error_message": message, "entries": None}


def _matches(entity: Entity, filters: dict[str, Any], *, strict: bool) -> bool:
    sides = (entity.user, USER), (entity.client_id, CLIENT_ID), (entity.ip, IP)
    return all(_side_matches(name, filters.get(kind), strict) for name, kind in sides)


def _side_matches(name: Name, component: Any, strict: bool) -> bool:
    if component is None:
        return name is None or not strict
    if name is None:
        return False
    if component.match_type == _ANY:
        return True
    return name is DEFAULT if component.match_type == _DEFAULT else bool(name == component.match)
