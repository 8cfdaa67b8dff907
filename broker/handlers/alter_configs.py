"""AlterConfigs: v0-v2 (key 33)

Behaviour: as IncrementalAlterConfigs, but the settings given replace all that were there: what is not named goes back
to its default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from broker import reconfiguration
from broker.administration import Problem
from broker.handlers.reply import Reply, RequestContext
from broker.node import Node
from broker.protocol.cold import Answer
from broker.reconfiguration import Change, Operation


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return alter_resources(
        node,
        request,
        lambda resource: [Change(entry.name, Operation.SET, entry.value) for entry in resource.configs],
        replace_all=True,
    )


def alter_resources(
    node: Node, request: Any, changes_of: Callable[[Any], Sequence[Change]], *, replace_all: bool
) -> Answer:
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        if named[kind, name] > 1:
            problem: Problem | None = Problem(
                ErrorCode.invalid_request, f"Resource '{name}' of type {kind} is named twice in the request."
            )
        else:
            problem = reconfiguration.alter(
                node, kind, name, changes_of(resource), replace_all=replace_all, validate_only=request.validate_only
            )
        responses.append(
            {
                "error_code": ErrorCode.none if problem is None else problem.error_code,
                "error_message": None if problem is None else problem.message,
                "resource_type": kind,
                "resource_name": name,
            }
        )
    return {"responses": responses}
