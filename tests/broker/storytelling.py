"""Stories that are told with the answers of the broker that they are played on, a request on each line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.admin.wire import Node
from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.settings import ClientSettings
from tests.waiting import wait_until

_DEADLINE_S: Final = 60.0

Ask = Callable[..., Any]
"""Takes the API, its version and its fields, and gives the decoded answer."""


def node_at(port: int) -> Node:
    address = ("127.0.0.1", port)
    return Node(0, address, BlockingClient(ClientSettings((address,), request_timeout_s=_DEADLINE_S)))


class Story:
    def __init__(self, ask: Ask, width: int) -> None:
        """`width`: of the longest request."""
        self._ask = ask
        self._width = width
        self.lines: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self.lines).lstrip() + "\n"

    def note(self, text: str) -> None:
        self.lines += ["", f"# {text}"]

    def _tell(self, request: str, outcome: object) -> None:
        self.lines.append(f"{request:<{self._width}} {outcome}")

    def _until(self, is_done: Callable[[], bool]) -> None:
        wait_until(is_done, lambda: "\n".join(self.lines[-5:]), _DEADLINE_S)

    def _has_coordinator(self, key: str, kind: int) -> bool:
        found: ErrorCode = self._ask("find_coordinator", 1, key=key, key_type=kind).error_code
        return found is ErrorCode.none

    def _create_topic(self) -> None:
        """The topic `t` of two partitions; it may be there."""
        topic = {"name": "t", "num_partitions": 2, "replication_factor": 1, "assignments": (), "configs": ()}
        self._ask("create_topics", 2, topics=[topic], timeout=30_000)
