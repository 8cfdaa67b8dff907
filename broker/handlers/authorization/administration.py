"""Guards of requests about the cluster, its brokers, settings, users and ACLs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.authorization.access import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    Access,
    Guard,
    Handle,
    after,
    refusal,
)
from highwater.broker.handlers.shared.reply import Reply
from highwater.kafka.acl import CLUSTER_NAME, Operation, ResourceType
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer

_TOPIC: Final = 2
_GROUP: Final = 32
_OF_THE_CLUSTER: Final = (4, 8, 16)
"""Types of resources with settings, as requests number them: topics; groups; brokers, loggers, metrics of clients."""


def of_cluster(operation: Operation, refused: Callable[[Any], Answer]) -> Guard:
    """An operation on the cluster; `refused` makes the answer of a request that is refused as a whole."""

    def guard(access: Access, request: Any, handle: Handle) -> Reply:
        return handle(request) if access.to_cluster(operation) else refused(request)

    return guard


def whole(**fields: Any) -> Callable[[Any], Answer]:
    """The error of the whole answer, and empty fields."""
    return lambda request: {"error_code": CLUSTER_DENIED} | fields


def whole_with_message(**fields: Any) -> Callable[[Any], Answer]:
    return lambda request: refusal(CLUSTER_DENIED) | fields


def created_acls(request: Any) -> Answer:
    return {"results": [refusal(CLUSTER_DENIED)] * len(request.creations)}


def deleted_acls(request: Any) -> Answer:
    return {"filter_results": [refusal(CLUSTER_DENIED) | {"matching_acls": []}] * len(request.filters)}


def moved_logs(request: Any) -> Answer:
    topics: dict[str, list[Answer]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            topics.setdefault(topic.name, []).extend(
                {"partition_index": index, "error_code": CLUSTER_DENIED} for index in topic.partitions
            )
    return {"results": [{"topic_name": name, "partitions": told} for name, told in paced(topics.items())]}


def elected_leaders(request: Any) -> Answer:
    return {
        "error_code": CLUSTER_DENIED,
        "replica_election_results": [
            {
                "topic": topic.topic,
                "partition_result": [
                    {"partition_id": index, "error_code": CLUSTER_DENIED} for index in topic.partitions
                ],
            }
            for topic in request.topic_partitions or ()
        ],
    }


def reassigned(request: Any) -> Answer:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": partition.partition_index, **refusal(CLUSTER_DENIED)}
                for partition in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return refusal(CLUSTER_DENIED) | {"responses": topics}


def described_users(request: Any) -> Answer:
    users = [{"user": "", "error_code": CLUSTER_DENIED} for _ in request.users or ()]
    return {"error_code": CLUSTER_DENIED, "results": users}


def altered_quotas(request: Any) -> Answer:
    return {
        "entries": [
            refusal(CLUSTER_DENIED)
            | {"entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]}
            for entry in request.entries
        ]
    }


def altered_users(access: Access, request: Any, handle: Handle) -> Reply:
    if access.to_cluster(Operation.ALTER):
        return handle(request)
    users = dict.fromkeys(entry.name for entry in paced((*request.deletions, *request.upsertions)))
    return {"results": [{"user": user, "error_code": CLUSTER_DENIED} for user in paced(users)]}


def told_partitions(request: Any) -> Answer:
    """LeaderAndIsr below v5 names partitions in one list; later ones by topic id, of which an error needs none."""
    return {"error_code": CLUSTER_DENIED, "partition_errors": [], "topics": []}


def _problem_with_settings(access: Access, operation: Operation, resource: Any) -> ErrorCode | None:
    """Why the client may not touch these settings. What is of another type, the handler refuses."""
    if resource.resource_type == _TOPIC:
        return None if access.to_topic(operation, resource.resource_name) else TOPIC_DENIED
    if resource.resource_type == _GROUP:
        return None if access.to_group(operation, resource.resource_name) else GROUP_DENIED
    return CLUSTER_DENIED if resource.resource_type in _OF_THE_CLUSTER and not access.to_cluster(operation) else None


def of_settings(operation: Operation, field: str, **empty: Any) -> Guard:
    """Guard settings of topics and groups by name, and all others by the cluster. `field`: results in the answer."""

    def guard(access: Access, request: Any, handle: Handle) -> Reply:
        allowed, told = [], []
        for resource in request.resources:
            error_code = _problem_with_settings(access, operation, resource)
            if error_code is None:
                allowed.append(resource)
            else:
                named = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
                told.append({"error_code": error_code} | named | empty)
        return after(
            handle(replace(request, resources=tuple(allowed))),
            lambda answer: answer | {field: [*answer[field], *told]},
        )

    return guard


def describe_cluster(access: Access, request: Any, handle: Handle) -> Reply:
    """Everybody may ask; authorised operations are shown with DESCRIBE on the cluster."""

    def tell(answer: Answer) -> Answer:
        if not request.include_cluster_authorized_operations:
            return answer
        return answer | {"cluster_authorized_operations": cluster_operations(access)}

    return after(handle(request), tell)


def cluster_operations(access: Access) -> int:
    """The bits of what the client may do to the cluster; 0 for who may not describe it."""
    if not access.to_cluster(Operation.DESCRIBE, is_told=False):
        return 0
    return access.client.operations(ResourceType.CLUSTER, CLUSTER_NAME)
