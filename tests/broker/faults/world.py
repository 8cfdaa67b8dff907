"""A node without sockets that fails as a script says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from highwater.broker.clock import Scheduler
from highwater.broker.faults.dispatching import FaultyDispatch
from highwater.broker.faults.injector import Injector
from highwater.broker.faults.machine import FaultyClock, FaultyFiles
from highwater.broker.faults.script import read_script
from highwater.broker.handlers.shared.reply import Client, PendingResponse
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import Api
from highwater.kafka.protocol.frame import Part
from tests.broker.handlers.harness import LISTENER, NodeHarness, decode_answer
from tests.broker.handlers.test_hostile_requests import frame_of, sample

NEVER: Final = None
"""What a request without an answer has."""


class FaultyNode:
    """A node, one connection to it, and what the node sends there."""

    def __init__(self, node: NodeHarness, script: str) -> None:
        self.node = node
        self.injector = Injector()
        self.files = FaultyFiles()
        self.clock = FaultyClock()
        self.scheduler: Scheduler = node.scheduler
        self.moved: list[str] = []
        self.slow: list[int] = []
        self.hung_up: list[str] = []
        self.client = Client(LISTENER, hang_up=self.hung_up.append)
        self.connection = FaultyDispatch(self, node.dispatcher.dispatch, 1, self.slow.append)
        self.injector.set(read_script(script), 0)

    def topic_name(self, topic: object) -> str:
        return str(topic)

    def move_log_start(self, topic: str) -> None:
        self.moved.append(topic)

    def begin(self, frame: bytes) -> Callable[[], bytes | None]:
        """Send a request; the function returns its answer when it is there."""
        answers: list[bytes] = []
        reply = self.connection.dispatch(memoryview(bytearray(frame)), self.client, 0)
        if isinstance(reply, PendingResponse):
            reply.deferred.on_ready(lambda answered: answers.append(joined(reply.frame(answered))))
        elif reply is not None:
            answers.append(joined(reply))
        return lambda: answers[0] if answers else NEVER

    def send(self, frame: bytes, wait_ms: int = 10_000) -> bytes | None:
        answer = self.begin(frame)
        self.node.scheduler.run(wait_ms)
        self.node.scheduler.run()
        return answer()


def joined(parts: list[Part]) -> bytes:
    return b"".join(map(bytes, parts))


def sample_frame(api: Api, version: int, **changes: Any) -> bytes:
    """A small request with a value in each field."""
    entity = sample(cold._entity(api.name, version, EntityType.request))
    if api.name == "produce":
        entity = dataclasses.replace(entity, acks=type(entity.acks)(1))
    if hasattr(entity, "replica_id"):
        entity = dataclasses.replace(entity, replica_id=type(entity.replica_id)(-1))  # a client
    return frame_of(api, version, dataclasses.replace(entity, **changes))


def decoded(api: Api, version: int, answer: bytes | None) -> Any:
    assert answer is not None
    return decode_answer(api.name, version, [answer])


def codes(value: Any) -> Iterator[ErrorCode]:
    """Yield the error codes of an answer."""
    if isinstance(value, tuple):
        for item in value:
            yield from codes(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found = getattr(value, field.name)
            if field.name in ("error_code", "partition_error_code"):
                yield ErrorCode(found)
            else:
                yield from codes(found)
