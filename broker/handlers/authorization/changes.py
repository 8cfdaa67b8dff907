"""What the audit log says of requests with which people change what is not theirs alone.

An outcome is written always, unless it proves that nothing was changed. A client cannot avoid the line of a change by
leaving before the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.authorization.access import after, origin_of
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.security.audit import Audit, Origin
from highwater.common.secret_names import is_secret_name
from highwater.kafka.acl import Operation, PatternType, Permission, ResourceType
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer

Outcomes = Iterator[tuple[Answer, ErrorCode | None]]
"""What was to change, its subject first, and the error with which it was refused."""
Handle = Callable[[Node, RequestContext, Any], Reply]

_NOT_HERE: Final = frozenset((ErrorCode.not_controller, ErrorCode.not_coordinator, ErrorCode.not_leader_or_follower))
"""Answered at once, they prove that nothing was changed, and the client asks another broker next. Later, this broker
was the right one when it began, and may have done something before it was replaced."""
_MAY_BE_MADE: Final = _NOT_HERE | {
    ErrorCode.none,
    # Of a topic that is created on first use: the controller was asked.
    ErrorCode.leader_not_available,
    ErrorCode.request_timed_out,
    # The session with ZooKeeper has ended, and nobody knows whether the last write of it was carried out.
    ErrorCode.unknown_server_error,
    ErrorCode.kafka_storage_error,
    # A record of the coordinator is in its log, but not on enough replicas.
    ErrorCode.coordinator_not_available,
}
_UNREPORTED: Final = frozenset(
    (
        ErrorCode.election_not_needed,
        ErrorCode.security_disabled,
        # The line of the denial says more.
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    )
)
_RESOURCES: Final = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
_OPERATIONS: Final = ("set", "delete", "append", "subtract")
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_HIDDEN: Final = "(hidden)"


def recorded(audit: Audit, api: str, request_name: str, handle: Handle) -> Handle:
    """The handler, after whose answer the audit log has what was changed. Its request is that of a row in CHANGES."""
    outcomes_of = CHANGES[api]

    def recording(node: Node, context: RequestContext, request: Any) -> Reply:
        reply = handle(node, context, request)
        unreported = _UNREPORTED if isinstance(reply, Deferred) else _UNREPORTED | _NOT_HERE

        def tell(answer: Answer) -> Answer:
            if not getattr(request, "validate_only", False):
                for change, error_code in outcomes_of(request, answer):
                    if error_code not in unreported:
                        tell_change(audit, origin_of(context, request_name), change, error_code)
            return answer

        return after(reply, tell, always=node.turns)

    return recording


def tell_change(audit: Audit, origin: Origin, change: Mapping[str, Any], error_code: ErrorCode | None) -> None:
    """Have the audit log say of a change that was made, may have been made, or was refused with `error_code`."""
    outcome = (error_code or ErrorCode.none).name.upper()
    if may_be_made(error_code):
        audit.changed(origin, change, outcome)
    else:
        audit.refused(origin, change, outcome)


def may_be_made(error_code: ErrorCode | None) -> bool:
    """Whether the outcome leaves open that something was changed, or says so."""
    return (error_code or ErrorCode.none) in _MAY_BE_MADE


def _error(answer: Answer) -> ErrorCode | None:
    return cast("ErrorCode | None", answer.get("error_code"))


def _shown(name: str, value: Any) -> Any:
    return _HIDDEN if value is not None and is_secret_name(name) else value


def _created_topics(request: Any, answer: Answer) -> Outcomes:
    wanted = {topic.name: topic for topic in request.topics}
    for told in answer["topics"]:
        topic = wanted[told["name"]]
        error_code = _error(told)
        count = len(topic.assignments) or topic.num_partitions
        yield (
            {
                "topic": topic.name,
                "action": "create",
                "partitions": count if count > 0 else told.get("num_partitions"),
                "configs": {each.name: _shown(each.name, each.value) for each in topic.configs}
                if may_be_made(error_code)
                else {},
            },
            error_code,
        )


def _deleted_topics(request: Any, answer: Answer) -> Outcomes:
    for told in answer["responses"]:
        name = told.get("name")
        yield {"topic": str(told.get("topic_id")) if name is None else name, "action": "delete"}, _error(told)


def _created_partitions(request: Any, answer: Answer) -> Outcomes:
    counts = {topic.name: topic.count for topic in request.topics}
    for told in answer["results"]:
        name = told["name"]
        yield {"topic": name, "action": "add partitions", "partitions": counts.get(name)}, _error(told)


def _altered_configs(request: Any, answer: Answer) -> Outcomes:
    errors = {(told["resource_type"], told["resource_name"]): _error(told) for told in answer["responses"]}
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        error_code = errors.get((kind, name))
        yield (
            {
                "resource_name": name,
                "resource_type": _RESOURCES.get(kind, str(kind)),
                "action": "alter configs",
                # Settings that were refused may have any name and any number: they say nothing of the broker.
                "configs": [_setting(entry) for entry in resource.configs] if may_be_made(error_code) else [],
            },
            error_code,
        )


def _setting(entry: Any) -> Answer:
    number = getattr(entry, "config_operation", 0)
    operation = _OPERATIONS[number] if 0 <= number < len(_OPERATIONS) else str(number)
    return {"name": entry.name, "operation": operation, "value": _shown(entry.name, entry.value)}


def _altered_quotas(request: Any, answer: Answer) -> Outcomes:
    def text(entity: Any) -> str:
        return ", ".join(f"{kind} {name or '(default)'}" for kind, name in entity)

    errors = {
        tuple((part["entity_type"], part["entity_name"]) for part in told["entity"]): _error(told)
        for told in answer["entries"]
    }
    for entry in request.entries:
        entity = tuple((part.entity_type, part.entity_name) for part in entry.entity)
        yield (
            {
                "entity": text(entity),
                "action": "alter quotas",
                "quotas": {op.key: None if op.remove else op.value for op in entry.ops},
            },
            errors.get(entity),
        )


def _altered_users(request: Any, answer: Answer) -> Outcomes:
    changes: dict[str, list[Answer]] = {}
    for gone in request.deletions:
        name = _MECHANISMS.get(gone.mechanism, str(gone.mechanism))
        changes.setdefault(gone.name, []).append({"mechanism": name, "operation": "delete"})
    for set_one in request.upsertions:
        name = _MECHANISMS.get(set_one.mechanism, str(set_one.mechanism))
        made = {"mechanism": name, "operation": "set", "iterations": set_one.iterations}
        changes.setdefault(set_one.name, []).append(made)
    for told in answer["results"]:
        user = told["user"]
        yield {"user": user, "action": "alter credentials", "credentials": changes.get(user, [])}, _error(told)


def _created_acls(request: Any, answer: Answer) -> Outcomes:
    for creation, told in zip(request.creations, answer["results"], strict=True):
        pattern = getattr(creation, "resource_pattern_type", PatternType.LITERAL)
        yield _acl("create ACL", {**_fields(creation), "pattern_type": pattern}), _error(told)


def _deleted_acls(request: Any, answer: Answer) -> Outcomes:
    for wanted, told in zip(request.filters, answer["filter_results"], strict=True):
        if error_code := _error(told):
            yield {"resource_name": wanted.resource_name_filter, "action": "delete ACL"}, error_code
        for gone in told.get("matching_acls", ()):
            yield _acl("delete ACL", gone), _error(gone)


def _fields(creation: Any) -> Answer:
    names = ("resource_type", "resource_name", "principal", "host", "operation", "permission_type")
    return {name: getattr(creation, name) for name in names}


def _acl(action: str, acl: Mapping[str, Any]) -> Answer:
    return {
        "resource_name": acl["resource_name"],
        "resource_type": ResourceType(acl["resource_type"]).text,
        "pattern_type": PatternType(acl["pattern_type"]).text,
        "action": action,
        "acl": {
            "principal": acl["principal"],
            "host": acl["host"],
            "operation": Operation(acl["operation"]).text,
            "permission": Permission(acl["permission_type"]).text,
        },
    }


def _deleted_records(request: Any, answer: Answer) -> Outcomes:
    wanted = {(topic.name, each.partition_index): each.offset for topic in request.topics for each in topic.partitions}
    for told in answer["topics"]:
        name = told["name"]
        ends = {
            each["partition_index"]: max(each["low_watermark"], wanted.get((name, each["partition_index"]), -1))
            for each in paced(told["partitions"])
        }
        for numbers, error_code in _by_error(told["partitions"], "partition_index"):
            before = {str(number): ends[number] for number in paced(numbers)}
            yield {"topic": name, "action": "delete records", "before_offsets": before}, error_code


def _reassigned(request: Any, answer: Answer) -> Outcomes:
    wanted = {topic.name: topic.partitions for topic in request.topics}
    if whole := _error(answer):
        yield from (({"topic": name, "action": "reassign"}, whole) for name in paced(wanted))
    for told in answer["responses"]:
        name = told["name"]
        replicas = {each.partition_index: each.replicas for each in wanted.get(name, ())}
        for numbers, error_code in _by_error(told["partitions"], "partition_index"):
            # null: the move was cancelled
            partitions = {str(number): replicas.get(number) for number in paced(numbers)}
            yield {"topic": name, "action": "reassign", "replicas": partitions}, error_code


def _elected(request: Any, answer: Answer) -> Outcomes:
    action = "elect unclean leaders" if getattr(request, "election_type", 0) == 1 else "elect preferred leaders"
    if whole := _error(answer):
        yield {"topic": "(all)", "action": action}, whole
    for told in answer["replica_election_results"]:
        for numbers, error_code in _by_error(told["partition_result"], "partition_id"):
            yield {"topic": told["topic"], "action": action, "partitions": numbers}, error_code


def _moved_logs(request: Any, answer: Answer) -> Outcomes:
    paths = {
        (topic.name, number): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for number in topic.partitions
    }
    for told in answer["results"]:
        name = told["topic_name"]
        for numbers, error_code in _by_error(told["partitions"], "partition_index"):
            directories = {str(number): paths.get((name, number)) for number in paced(numbers)}
            yield {"topic": name, "action": "move to a log directory", "directories": directories}, error_code


def _deleted_groups(request: Any, answer: Answer) -> Outcomes:
    for told in answer["results"]:
        yield {"group": told["group_id"], "action": "delete group"}, _error(told)


def _deleted_offsets(request: Any, answer: Answer) -> Outcomes:
    change = {"group": request.group_id, "action": "delete offsets"}
    if whole := _error(answer):
        yield change, whole
    for told in answer["topics"]:
        for numbers, error_code in _by_error(told["partitions"], "partition_index"):
            yield {**change, "topic": told["name"], "partitions": numbers}, error_code


def _updated_features(request: Any, answer: Answer) -> Outcomes:
    for update in paced(request.feature_updates):
        yield {"feature": update.feature, "action": "update feature", "level": update.max_version_level}, _error(answer)


def _by_error(partitions: Sequence[Answer], number: str) -> Iterator[tuple[list[int], ErrorCode | None]]:
    """Yield the numbers of the partitions by outcome; none for a refusal, which may name any number of them."""
    found: dict[ErrorCode | None, list[int]] = {}
    for each in paced(partitions):
        found.setdefault(_error(each) or None, []).append(each[number])
    for error_code, numbers in found.items():
        yield numbers if may_be_made(error_code) else [], error_code


CHANGES: Final[Mapping[str, Callable[[Any, Answer], Outcomes]]] = {
    "create_topics": _created_topics,
    "delete_topics": _deleted_topics,
    "create_partitions": _created_partitions,
    "alter_configs": _altered_configs,
    "incremental_alter_configs": _altered_configs,
    "alter_client_quotas": _altered_quotas,
    "alter_user_scram_credentials": _altered_users,
    "create_acls": _created_acls,
    "delete_acls": _deleted_acls,
    "delete_records": _deleted_records,
    "alter_partition_reassignments": _reassigned,
    "elect_leaders": _elected,
    "alter_replica_log_dirs": _moved_logs,
    "delete_groups": _deleted_groups,
    "offset_delete": _deleted_offsets,
    "update_features": _updated_features,
}
"""What was changed, by API."""
