"""ConsumerGroupHeartbeat: v0-v1 (key 68)

Behaviour: refuses each member with UNSUPPORTED_VERSION, as Kafka does where the feature `group.version` is 0. The Java
client and librdkafka end with this error; franz-go goes on with the classic protocol.

Versions: v1 brings regular expressions (KIP-848).
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return {
        "error_code": ErrorCode.unsupported_version,
        "error_message": "the consumer group protocol (KIP-848) is not there yet: set group.protocol=classic",
        "member_id": request.member_id,
        "member_epoch": request.member_epoch,
    }
