"""Changes of in-sync sets on their way to a controller that the tests play, who may move, be away or refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.controller_channel import RETRY_BACKOFF_MS, ControllerChannel
from highwater.broker.cluster.peers import Endpoint, OnBreak, PeerFailure
from highwater.broker.cluster.state import LeaderAndIsr
from highwater.broker.replica.in_sync_changes import RETRY_MS, VERSION, InSyncChange, InSyncChanges
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import ALTER_PARTITION, CONTROLLED_SHUTDOWN
from highwater.kafka.protocol.frame import Parts
from highwater.kafka.protocol.primitives import Decoder
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock

TOPIC_ID: Final = UUID(int=7)
FIRST: Final = Endpoint("A", "PLAINTEXT", "h1", 9092)
SECOND: Final = Endpoint("A", "PLAINTEXT", "h2", 9092)

Then = Callable[[memoryview | PeerFailure], None]


class Connection:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.requests: list[tuple[int, int, bytes, Then, int]] = []
        self.is_closed = False

    def send(self, api_key: int, version: int, body: Parts, then: Then, *, timeout_ms: int) -> None:
        self.requests.append((api_key, version, b"".join(body), then, timeout_ms))

    def close(self) -> None:
        self.is_closed = True


class Scene:
    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.clock = ManualClock()
        self.connections: list[Connection] = []
        self.controller: Endpoint | None = FIRST
        self.broker_epoch = 99
        self.channel = ControllerChannel(
            self,
            lambda: self.controller,
            self.clock,
            self.scheduler,
            client_id="1",
            request_timeout_ms=30_000,
        )
        self.changes = InSyncChanges(self.channel, self.scheduler, broker_id=1, broker_epoch=lambda: self.broker_epoch)
        self.outcomes: list[Any] = []

    def connect(
        self, endpoint: Endpoint, client_id: str, *, name: str = "", on_break: OnBreak | None = None
    ) -> Connection:
        self.connections.append(Connection(endpoint))
        return self.connections[-1]

    def run(self, duration_ms: int = 0) -> None:
        self.clock.advance_ms(duration_ms)
        self.scheduler.run(duration_ms)

    def submit(self, partition: int, in_sync_replicas: tuple[int, ...] = (1, 2), partition_epoch: int = 4) -> bool:
        change = InSyncChange("t", TOPIC_ID, partition, 9, in_sync_replicas, partition_epoch)
        return self.changes.submit(change, lambda outcome: self.outcomes.append((partition, outcome)))

    @property
    def waiting(self) -> int:
        return sum(len(connection.requests) for connection in self.connections)

    def asked(self) -> Any:
        """What the one request under way asks."""
        (request,) = (request for connection in self.connections for request in connection.requests)
        api_key, version, body, _, _ = request
        assert (api_key, version) == (ALTER_PARTITION, VERSION)
        return cold.decode_request("alter_partition", version, Decoder(memoryview(body), flexible=True))

    def partitions(self) -> list[int]:
        return [partition.partition_index for topic in self.asked().topics for partition in topic.partitions]

    def give(self, outcome: bytes | PeerFailure) -> None:
        connection = next(connection for connection in self.connections if connection.requests)
        _, _, _, then, _ = connection.requests.pop(0)
        then(memoryview(outcome) if isinstance(outcome, bytes) else outcome)
        self.run()

    def answer(self, *partitions: dict[str, Any], error_code: ErrorCode = ErrorCode.none) -> None:
        topics = [{"topic_id": TOPIC_ID, "partitions": partitions}] if partitions else []
        fields = {"error_code": error_code, "topics": topics}
        self.give(cold.encode_response("alter_partition", VERSION, fields))


def changed(index: int, in_sync_replicas: tuple[int, ...] = (1, 2)) -> dict[str, Any]:
    return {
        "partition_index": index,
        "leader_id": 1,
        "leader_epoch": 9,
        "isr": in_sync_replicas,
        "partition_epoch": 5,
    }


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_what_is_submitted_together_is_asked_together(scene: Scene) -> None:
    assert scene.submit(0)
    assert scene.submit(1, (1,))
    assert scene.waiting == 0
    scene.run()
    asked = scene.asked()
    assert (asked.broker_id, asked.broker_epoch) == (1, 99)
    ((topic_id, partitions),) = ((topic.topic_id, topic.partitions) for topic in asked.topics)
    assert topic_id == TOPIC_ID
    assert [(each.partition_index, each.leader_epoch, each.partition_epoch) for each in partitions] == [
        (0, 9, 4),
        (1, 9, 4),
    ]
    assert [[(one.broker_id, one.broker_epoch) for one in each.new_isr_with_epochs] for each in partitions] == [
        [(1, -1), (2, -1)],
        [(1, -1)],
    ]
    scene.answer(changed(0), {"partition_index": 1, "error_code": ErrorCode.fenced_leader_epoch})
    assert scene.outcomes == [
        (0, LeaderAndIsr(1, 9, (1, 2), -1, 5)),
        (1, ErrorCode.fenced_leader_epoch),
    ]
    assert scene.waiting == 0


def test_one_request_at_a_time_and_one_change_of_a_partition(scene: Scene) -> None:
    scene.submit(0)
    scene.run()
    assert not scene.submit(0, (1,))
    assert scene.submit(1)
    scene.run()
    assert scene.partitions() == [0]
    scene.answer(changed(0))
    assert scene.partitions() == [1]
    assert scene.submit(0, (1,))
    scene.answer(changed(1))
    assert scene.partitions() == [0]


def test_a_callback_may_submit_the_next(scene: Scene) -> None:
    change = InSyncChange("t", TOPIC_ID, 0, 9, (1, 2), 4)

    def again(_: Any) -> None:
        scene.submit(0, (1,), partition_epoch=5)

    scene.changes.submit(change, again)
    scene.run()
    scene.answer(changed(0))
    assert [each.partition_epoch for each in scene.asked().topics[0].partitions] == [5]
    scene.answer(changed(0, (1,)))
    assert [partition for partition, _ in scene.outcomes] == [0]


@pytest.mark.parametrize("failure", PeerFailure)
def test_a_controller_that_does_not_answer_is_asked_again(scene: Scene, failure: PeerFailure) -> None:
    scene.submit(0)
    scene.run()
    scene.give(failure)
    assert scene.waiting == 0
    scene.broker_epoch = 100  # registered anew meanwhile
    scene.run(RETRY_BACKOFF_MS)
    assert scene.asked().broker_epoch == 100
    scene.answer(changed(0))
    assert len(scene.outcomes) == 1


def test_who_is_the_controller_no_longer_is_left(scene: Scene) -> None:
    scene.submit(0)
    scene.run()
    scene.controller = None
    scene.answer(error_code=ErrorCode.not_controller)
    scene.run(RETRY_BACKOFF_MS)
    assert scene.waiting == 0
    scene.controller = SECOND
    scene.run(RETRY_BACKOFF_MS)
    (connection,) = (connection for connection in scene.connections if connection.requests)
    assert connection.endpoint == SECOND
    scene.answer(changed(0))
    assert scene.outcomes == [(0, LeaderAndIsr(1, 9, (1, 2), -1, 5))]


def test_a_refusal_of_all_is_told_and_asked_again(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.submit(0)
    scene.run()
    scene.answer(error_code=ErrorCode.stale_broker_epoch)
    assert "the controller refuses changes of in-sync replicas: stale_broker_epoch" in caplog.text
    scene.run(RETRY_MS)
    assert scene.partitions() == [0]


def test_what_an_answer_leaves_out_is_asked_again(scene: Scene) -> None:
    scene.submit(0)
    scene.submit(1)
    scene.run()
    scene.answer(changed(1))
    assert [partition for partition, _ in scene.outcomes] == [1]
    scene.run(RETRY_MS)
    assert scene.partitions() == [0]


def test_after_the_end_nobody_is_called_back(scene: Scene) -> None:
    scene.submit(0)
    scene.run()
    scene.changes.close()
    scene.answer(changed(0))
    assert scene.outcomes == []
    scene.channel.close()
    scene.run(RETRY_BACKOFF_MS)
    assert scene.waiting == 0
    assert all(connection.is_closed for connection in scene.connections)


def test_a_question_ends_when_its_time_is_up(scene: Scene) -> None:
    def ask(timeout_ms: int) -> None:
        scene.channel.ask(
            CONTROLLED_SHUTDOWN,
            3,
            {"broker_id": 1},
            scene.outcomes.append,
            is_refused=lambda answer: answer.error_code is ErrorCode.not_controller,
            timeout_ms=timeout_ms,
        )

    ask(250)
    scene.run()
    for left_ms in (250, 150, 50):
        ((_, _, _, _, timeout_ms),) = scene.connections[0].requests
        assert timeout_ms == left_ms
        scene.give(PeerFailure.REFUSED)
        scene.run(RETRY_BACKOFF_MS)
    assert (scene.waiting, scene.outcomes) == (0, [None])
    # Also when there is nobody to ask.
    scene.controller = None
    ask(250)
    scene.run()
    for _ in range(3):
        scene.run(RETRY_BACKOFF_MS)
    assert scene.outcomes == [None, None]
