"""DeleteGroups: v0-v3 (key 42)

Behaviour: each group by itself, with all its offsets; the answer comes when the log has the tombstones. A group with
members: NON_EMPTY_GROUP; an unknown group: GROUP_ID_NOT_FOUND.

Versions: v3 brings a message, which Kafka has for groups of Kafka Streams alone: null here, as the errors say all.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.pacing import paced


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    names = list(dict.fromkeys(request.groups_names))
    outcomes: dict[str, ErrorCode] = {}
    deferred = Deferred()

    def answer(name: str, outcome: ErrorCode) -> None:
        outcomes[name] = outcome
        if len(outcomes) == len(names):
            deferred.complete(
                lambda: {"results": [{"group_id": name, "error_code": outcomes[name]} for name in paced(names)]}
            )

    if not names:
        return {"results": []}
    for name in paced(names):
        node.groups.delete(name, partial(answer, name))
    return deferred.now_or_later()
