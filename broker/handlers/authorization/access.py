"""Who asks, and what the client may do: what guards and some handlers begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, cast

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Answered, Deferred, Reply, RequestContext, answer_of
from highwater.broker.node import Node
from highwater.broker.security.audit import Origin
from highwater.broker.security.authorizer import Permissions
from highwater.broker.turns import Turns
from highwater.kafka.acl import CLUSTER_NAME, Operation, ResourceType
from highwater.kafka.arrays import array
from highwater.kafka.pacing import current_owner
from highwater.kafka.protocol.cold import Answer

TOPIC_DENIED: Final = ErrorCode.topic_authorization_failed
GROUP_DENIED: Final = ErrorCode.group_authorization_failed
CLUSTER_DENIED: Final = ErrorCode.cluster_authorization_failed
TRANSACTION_DENIED: Final = ErrorCode.transactional_id_authorization_failed

MESSAGES: Final = {
    TOPIC_DENIED: "Topic authorization failed.",
    GROUP_DENIED: "Group authorization failed.",
    CLUSTER_DENIED: "Cluster authorization failed.",
    TRANSACTION_DENIED: "Transactional Id authorization failed.",
}
"""Kafka's messages. They name nothing that the client may not see."""


class Access(NamedTuple):
    """A request of a client, as a guard sees it. `is_told=False`: a refusal only hides something, and is no denial."""

    node: Node
    context: RequestContext
    client: Permissions
    request: str
    """Kafka's name of the request: OffsetFetch."""

    @property
    def version(self) -> int:
        return self.context.version

    def to_cluster(self, operation: Operation, *, is_told: bool = True) -> bool:
        return self._may(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_told)

    def to_topic(self, operation: Operation, name: str, *, is_told: bool = True) -> bool:
        return self._may(operation, ResourceType.TOPIC, name, is_told)

    def to_group(self, operation: Operation, name: str, *, is_told: bool = True) -> bool:
        return self._may(operation, ResourceType.GROUP, name, is_told)

    def to_transaction(self, operation: Operation, name: str, *, is_told: bool = True) -> bool:
        return self._may(operation, ResourceType.TRANSACTIONAL_ID, name, is_told)

    def _may(self, operation: Operation, kind: ResourceType, name: str, is_told: bool) -> bool:
        if self.client.allows(operation, kind, name):
            self.node.counters.authorizations_asked += 1
            return True
        if is_told:
            self.node.counters.authorizations_asked += 1
            self.denied(operation, kind, name)
        return False

    def denied(self, operation: Operation, kind: ResourceType, name: str) -> None:
        tell_denial(self.node, self.context, self.request, (operation, kind, name))


def tell_denial(node: Node, context: RequestContext, request: str, wanted: tuple[Operation, ResourceType, str]) -> None:
    """Count a denial, and report it to the audit log."""
    node.counters.authorizations_denied += 1
    if node.audit is not None:
        node.audit.denied(origin_of(context, request), *wanted)


def origin_of(context: RequestContext, request: str) -> Origin:
    client = context.client
    return Origin(f"User:{client.principal}", client.host, client.listener.name, context.client_id, request)


def access_of(node: Node, context: RequestContext, request: str) -> Access | None:
    """None while every client may do everything."""
    if node.acls is None:
        return None
    return Access(node, context, context.client.permissions(node.acls.authorizer), request)


Handle = Callable[[Any], Reply]
"""The handler of an API, for what is left of a request."""
Guard = Callable[[Access, Any, Handle], Reply]
"""Refuses what the client may not do, and gives the rest to the handler."""


def after(reply: Reply, change: Callable[[Answer], Answer], *, always: Turns | None = None) -> Reply:
    """The answer with a change, now or when it comes; `always`: even if the client has left, in one of these turns.

    Loops over the arrays of the answer that `change` gets give way.
    """
    if not isinstance(reply, Deferred):
        return change(_paced(cast(Answer, reply)))
    changed = Deferred()
    changed.holds_line = reply.holds_line
    owner = current_owner()
    if always is None:
        changed.on_cancel = reply.cancel

    def answered(answer: Answered) -> None:
        def made() -> Answer:
            return change(_paced(cast(Answer, answer_of(answer))))

        def run_change() -> None:
            made()

        if not changed.is_cancelled:
            changed.complete(made)
        elif always is not None:
            always.run(run_change, owner)

    reply.on_ready(answered)
    return changed.now_or_later()


def _paced(answer: Answer) -> Answer:
    return {name: array(value) if isinstance(value, list) else value for name, value in answer.items()}


def divided(names: Iterable[str], may: Callable[[str], bool]) -> tuple[tuple[str, ...], list[str]]:
    """Names that the client may use, and those that it may not, each in their order."""
    allowed: list[str] = []
    refused: list[str] = []
    for name in names:
        (allowed if may(name) else refused).append(name)
    return tuple(allowed), refused


def refusal(error_code: ErrorCode) -> Answer:
    """The fields of an answer that has a message."""
    return {"error_code": error_code, "error_message": MESSAGES[error_code]}
