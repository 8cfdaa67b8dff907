"""FindCoordinator: the broker that leads a group or a transactional id."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.kafka.client.request import Request, cold_request

GROUP: Final = 0
TRANSACTION: Final = 1


class Coordinator(NamedTuple):
    error_code: ErrorCode
    detail: str
    node_id: int
    host: str
    port: int


def find_coordinator(key: str, kind: int) -> Request[Coordinator]:
    """`kind` is GROUP or TRANSACTION."""

    def read(answer: Any) -> Coordinator:
        return Coordinator(answer.error_code, answer.error_message or "", answer.node_id, answer.host, answer.port)

    return cold_request("find_coordinator", 1, 3, {"key": key, "key_type": kind}, read)
