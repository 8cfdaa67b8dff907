"""Guards of requests about consumer groups and their offsets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.features import GROUP_VERSION
from highwater.broker.handlers.authorization.access import (
    GROUP_DENIED,
    MESSAGES,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Access,
    Guard,
    Handle,
    after,
    divided,
    refusal,
)
from highwater.broker.handlers.authorization.topics import each_topic, to_topic
from highwater.broker.handlers.shared.committed_offsets import outcomes_by_topic
from highwater.broker.handlers.shared.reply import Reply
from highwater.broker.handlers.shared.topics_by_id import is_unknown_id, key_of, with_names
from highwater.kafka.acl import Operation, ResourceType
from highwater.kafka.arrays import array
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer

_NOBODY: Final[Answer] = {"generation_id": -1, "protocol_type": None, "leader": "", "member_id": "", "members": []}


def of_member(answer: Answer) -> Guard:
    """READ on the group; a refusal is an error of the whole answer."""

    def guard(access: Access, request: Any, handle: Handle) -> Reply:
        if access.to_group(Operation.READ, request.group_id):
            return handle(request)
        return {"error_code": GROUP_DENIED} | answer

    return guard


def join_group(access: Access, request: Any, handle: Handle) -> Reply:
    name = {"protocol_name": "" if access.version < 7 else None}
    return of_member(_NOBODY | name)(access, request, handle)


COMMITTED_TOPICS: Final = each_topic(to_topic(Operation.READ), {})
"""READ on each topic whose offsets are committed or deleted."""


def offset_commit(access: Access, request: Any, handle: Handle) -> Reply:
    request = replace(request, topics=with_names(access.node, request.topics))
    if not access.to_group(Operation.READ, request.group_id):
        return {"topics": all_partitions(request, GROUP_DENIED)}
    return COMMITTED_TOPICS(access, request, handle)


def all_partitions(request: Any, error_code: ErrorCode) -> list[Answer]:
    """One error for each partition of a commit."""
    keys = [(topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions]
    return outcomes_by_topic(request, dict.fromkeys(keys, error_code))


def offset_fetch(access: Access, request: Any, handle: Handle) -> Reply:
    """DESCRIBE on the group and on topics. Of all topics, those that the client may not see are left out."""
    if access.version < 8:
        if not access.to_group(Operation.DESCRIBE, request.group_id):
            topics = [_no_offsets(topic, GROUP_DENIED) for topic in request.topics or ()] if access.version < 2 else []
            return {"error_code": GROUP_DENIED, "topics": topics}
        wanted, refused = _described(access, request.topics)
        reply = handle(replace(request, topics=wanted))
        return after(reply, lambda answer: _visible(access, answer, refused, request.topics is None))
    told: dict[int, Answer] = {}
    left: list[tuple[int, Any, list[Answer]]] = []
    for slot, group in enumerate(request.groups):
        if access.to_group(Operation.DESCRIBE, group.group_id):
            wanted, refused = _described(access, with_names(access.node, group.topics))
            left.append((slot, replace(group, topics=wanted), refused))
        else:
            told[slot] = {"group_id": group.group_id, "error_code": GROUP_DENIED, "topics": []}

    def tell(answer: Answer) -> Answer:
        for (slot, _, refused), group in zip(left, answer["groups"], strict=True):
            told[slot] = _visible(access, group, refused, request.groups[slot].topics is None)
        return answer | {"groups": [told[slot] for slot in paced(range(len(told)))]}

    return after(handle(replace(request, groups=tuple(group for _, group, _ in paced(left)))), tell)


def _described(access: Access, topics: Any) -> tuple[Any, list[Answer]]:
    """The topics that may be asked for, and the answers for the others; None asks for all."""
    if topics is None:
        return None, []
    allowed = array(
        topic for topic in topics if is_unknown_id(topic) or access.to_topic(Operation.DESCRIBE, topic.name)
    )
    names = {topic.name for topic in allowed}
    return allowed, [_no_offsets(topic, TOPIC_DENIED) for topic in topics if topic.name not in names]


def _visible(access: Access, answer: Answer, refused: list[Answer], is_of_all: bool) -> Answer:
    if answer.get("error_code"):
        return answer
    topics = [
        topic
        for topic in paced(answer["topics"])
        if not is_of_all or access.to_topic(Operation.DESCRIBE, topic["name"], is_told=False)
    ]
    return answer | {"topics": [*topics, *refused]}


def _no_offsets(topic: Any, error_code: Any) -> Answer:
    partitions = [
        {"partition_index": index, "committed_offset": -1, "metadata": "", "error_code": error_code}
        for index in topic.partition_indexes
    ]
    return key_of(topic) | {"partitions": partitions}


def describe_groups(access: Access, request: Any, handle: Handle) -> Reply:
    allowed, refused = divided(request.groups, partial(access.to_group, Operation.DESCRIBE))
    told = [{"group_id": name, "error_code": GROUP_DENIED} for name in paced(refused)]

    def tell(answer: Answer) -> Answer:
        groups = [
            group | {"authorized_operations": access.client.operations(ResourceType.GROUP, group["group_id"])}
            if "authorized_operations" in group
            else group
            for group in answer["groups"]
        ]
        return answer | {"groups": [*groups, *told]}

    return after(handle(replace(request, groups=allowed)), tell)


def consumer_group_heartbeat(access: Access, request: Any, handle: Handle) -> Reply:
    """READ on the group and DESCRIBE on each topic that is named, where there are consumer groups at all."""
    node, group_id = access.node, request.group_id
    error_code = None
    if not node.features.level(GROUP_VERSION) and not node.groups.has_consumers(group_id):
        return handle(request)
    if not access.to_group(Operation.READ, group_id):
        error_code = GROUP_DENIED
    elif divided(request.subscribed_topic_names or (), partial(access.to_topic, Operation.DESCRIBE))[1]:
        error_code = TOPIC_DENIED
    if error_code is None:
        return handle(request)
    return {
        "error_code": error_code,
        "error_message": MESSAGES[error_code],
        "member_id": request.member_id,
        "member_epoch": request.member_epoch,
    }


def consumer_group_describe(access: Access, request: Any, handle: Handle) -> Reply:
    """DESCRIBE on the group, and on each topic of its members: else the answer has nothing of the group."""
    allowed, refused = divided(request.group_ids, partial(access.to_group, Operation.DESCRIBE))
    told = [_not_described(name, GROUP_DENIED) for name in paced(refused)]

    def tell(answer: Answer) -> Answer:
        return answer | {"groups": [*map(visible, paced(answer["groups"])), *told]}

    def visible(group: Answer) -> Answer:
        topics = {
            topic["topic_name"]
            for member in paced(group["members"])
            for part in ("assignment", "target_assignment")
            for topic in member[part]["topic_partitions"]
        } | {name for member in paced(group["members"]) for name in member["subscribed_topic_names"]}
        if not all(access.to_topic(Operation.DESCRIBE, name, is_told=False) for name in paced(topics)):
            return _not_described(group["group_id"], TOPIC_DENIED)
        if "authorized_operations" in group:
            operations = access.client.operations(ResourceType.GROUP, group["group_id"])
            return group | {"authorized_operations": operations}
        return group

    return after(handle(replace(request, group_ids=allowed)), tell)


def _not_described(group_id: str, error_code: ErrorCode) -> Answer:
    return {
        "error_code": error_code,
        "error_message": MESSAGES[error_code],
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
    }


def list_groups(access: Access, request: Any, handle: Handle) -> Reply:
    """DESCRIBE on the cluster shows all groups, else DESCRIBE on the group shows it.

    So does CLUSTER_ACTION: a broker asks the others before `group.version` goes to 0.
    """
    reply = handle(request)
    if any(access.to_cluster(each, is_told=False) for each in (Operation.DESCRIBE, Operation.CLUSTER_ACTION)):
        return reply

    def tell(answer: Answer) -> Answer:
        groups = [
            group for group in answer["groups"] if access.to_group(Operation.DESCRIBE, group["group_id"], is_told=False)
        ]
        return answer | {"groups": groups}

    return after(reply, tell)


def delete_groups(access: Access, request: Any, handle: Handle) -> Reply:
    allowed, refused = divided(request.groups_names, partial(access.to_group, Operation.DELETE))
    told = [{"group_id": name, "error_code": GROUP_DENIED} for name in paced(dict.fromkeys(refused))]
    return after(
        handle(replace(request, groups_names=allowed)),
        lambda answer: answer | {"results": [*answer["results"], *told]},
    )


def offset_delete(access: Access, request: Any, handle: Handle) -> Reply:
    if not access.to_group(Operation.DELETE, request.group_id):
        return {"error_code": GROUP_DENIED, "topics": []}
    return COMMITTED_TOPICS(access, request, handle)


def find_coordinator(access: Access, request: Any, handle: Handle) -> Reply:
    """DESCRIBE on the group or the transactional id, for each key."""
    key_type = getattr(request, "key_type", 0)

    def is_allowed(key: str) -> bool:
        may = access.to_group if key_type == 0 else access.to_transaction
        return may(Operation.DESCRIBE, key)

    nowhere = refusal(GROUP_DENIED if key_type == 0 else TRANSACTION_DENIED) | {"node_id": -1, "host": "", "port": -1}
    if access.version < 4:
        return handle(request) if is_allowed(request.key) else nowhere
    allowed, refused = divided(request.coordinator_keys, is_allowed)
    told = [{"key": key} | nowhere for key in paced(refused)]
    return after(
        handle(replace(request, coordinator_keys=allowed)),
        lambda answer: answer | {"coordinators": [*answer["coordinators"], *told]},
    )
