"""AlterConfigs: v0-v2 (key 33)

Behaviour: as IncrementalAlterConfigs, but the given settings replace all earlier ones: other settings return to their
defaults. It cannot change loggers: INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.dynamic_settings import altering, loggers
from highwater.broker.dynamic_settings.altering import BROKER_LOGGER, Alteration, AlterConfigOp, Operation
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return alter_resources(
        node,
        request,
        lambda resource: [AlterConfigOp(entry.name, Operation.SET, entry.value) for entry in resource.configs],
        replace_all=True,
    )


def alter_resources(
    node: Node, request: Any, changes_of: Callable[[Any], Sequence[AlterConfigOp]], *, replace_all: bool
) -> Reply:
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    once = [resource for resource in request.resources if named[resource.resource_type, resource.resource_name] == 1]
    wanted = [
        Alteration(resource.resource_type, resource.resource_name, changes_of(resource)) for resource in paced(once)
    ]
    of_loggers = {
        (BROKER_LOGGER, each.name): _alter_loggers(node, each, replace_all, request.validate_only)
        for each in wanted
        if each.resource_type == BROKER_LOGGER
    }
    wanted = [each for each in wanted if each.resource_type != BROKER_LOGGER]
    deferred = Deferred()

    def answered(problems: list[Problem | None]) -> Answer:
        pairs = paced(zip(wanted, problems, strict=True))
        found = of_loggers | {(entry.resource_type, entry.name): problem for entry, problem in pairs}
        return {"responses": [_answer(resource, found) for resource in request.resources]}

    altered = deferred.complete_by(answered)
    altering.alter(
        node, node.store, node.cluster, wanted, altered, replace_all=replace_all, validate_only=request.validate_only
    )
    return deferred.now_or_later()


def _alter_loggers(node: Node, wanted: Alteration, replace_all: bool, validate_only: bool) -> Problem | None:
    if replace_all:
        return Problem(ErrorCode.invalid_request, "AlterConfigs does not change loggers; ask IncrementalAlterConfigs")
    if wanted.name != str(node.broker_id):
        return Problem(
            ErrorCode.invalid_request, f"Unexpected broker id, expected {node.broker_id}, but received {wanted.name}"
        )
    return loggers.alter(wanted.changes, validate_only=validate_only)


def _answer(resource: Any, found: Mapping[tuple[int, str], Problem | None]) -> dict[str, Any]:
    kind, name = resource.resource_type, resource.resource_name
    twice = Problem(ErrorCode.invalid_request, f"Resource '{name}' of type {kind} is named twice in the request.")
    return {"resource_type": kind, "resource_name": name} | error_fields(found.get((kind, name), twice))
