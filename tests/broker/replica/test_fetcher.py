"""The follower's side of Fetch against a leader that the tests play: what it asks, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import Endpoint, OnBreak, PeerFailure
from highwater.broker.replica.fetcher import BREAK_OFF_AFTER_MS, FIRST_BACKOFF_MS, THROTTLED_MS
from highwater.broker.replica.fetchers import Fetchers
from highwater.broker.settings.config import BrokerConfig, Setting
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import FETCH, LIST_OFFSETS
from highwater.kafka.protocol.fetch import (
    FOLLOWER_VERSION,
    FetchPartition,
    FetchRequest,
    PartitionFetched,
    decode_request,
    encode_response,
)
from highwater.kafka.protocol.frame import Part, Parts
from highwater.kafka.protocol.primitives import Decoder
from highwater.kafka.records.batch import CorruptBatch
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock

FOLLOWER: Final = 1
LEADER: Final = 2
BACKOFF_MS: Final = 1000
TOPIC_ID: Final = UUID(int=7)
LATER_TOPIC_ID: Final = UUID(int=8)
SESSION: Final = 77

Then = Callable[[memoryview | PeerFailure], None]


class Replica:
    """A log of which each record is one byte: the leader epoch it was written in."""

    def __init__(self, index: int = 0, log: str = "", *, leader_epoch: int = 5, topic_id: UUID = TOPIC_ID) -> None:
        self.topic = "t"
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.high_watermark = 0
        self.log_start_offset = 0
        self.log = bytearray(int(epoch) for epoch in log)
        self.truncations: list[int] = []
        self.fails_with: Exception | None = None
        self.is_kept = True
        self.when_kept: list[Callable[[], None]] = []

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.log)

    @property
    def latest_epoch(self) -> int:
        return self.log[-1] if self.log else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        known = [each for each in self.log if each <= epoch]
        if not known:
            return (epoch, self.log_start_offset) if self.log else (-1, -1)
        return max(known), self.log_start_offset + len(known)

    def append_as_follower(self, records: Part, high_watermark: int, log_start_offset: int, now_ms: int) -> None:
        if self.fails_with is not None:
            raise self.fails_with
        self.log += records
        self.high_watermark = min(high_watermark, self.log_end_offset)
        if log_start_offset > self.log_start_offset:
            del self.log[: log_start_offset - self.log_start_offset]
            self.log_start_offset = log_start_offset

    def call_when_flushed(self, then: Callable[[], None]) -> bool:
        if not self.is_kept:
            self.when_kept.append(then)
        return self.is_kept

    def truncate_to(self, offset: int) -> None:
        self.truncations.append(offset)
        del self.log[offset - self.log_start_offset :]

    def truncate_fully(self, offset: int) -> None:
        self.log.clear()
        self.log_start_offset = offset

    @property
    def text(self) -> str:
        return "".join(map(str, self.log))


class Connection:
    """What a fetcher sends to one endpoint, waiting for the answers of the test."""

    def __init__(self, endpoint: Endpoint, client_id: str, on_break: OnBreak | None) -> None:
        self.endpoint = endpoint
        self.client_id = client_id
        self.on_break = on_break
        self.requests: list[tuple[int, int, bytes, Then]] = []
        self.is_closed = False

    def send(self, api_key: int, version: int, body: Parts, then: Then, *, timeout_ms: int) -> None:
        assert not self.is_closed
        self.requests.append((api_key, version, b"".join(body), then))

    def close(self) -> None:
        self.is_closed = True
        self.requests.clear()


class Throttle:
    """Holds back partition 1, when it is told to."""

    is_active = False
    exceeded = True

    def __init__(self) -> None:
        self.recorded_bytes = 0

    def is_throttled(self, topic: str, index: int) -> bool:
        return index == 1

    def is_exceeded(self, now_ms: int) -> bool:
        return self.exceeded

    def record(self, size_bytes: int, now_ms: int) -> None:
        self.recorded_bytes += size_bytes


class Scene:
    """One follower, and the leader as the test plays it."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.clock = ManualClock()
        self.connections: list[Connection] = []
        self.endpoints: dict[int, Endpoint] = {
            LEADER: Endpoint("A", "PLAINTEXT", "h", 9092),
            3: Endpoint("A", "PLAINTEXT", "h3", 9092),
        }
        self.throttle = Throttle()
        self.told: list[tuple[str, int]] = []
        """Of leaders that closed their connections, and of those that are settled."""
        self.fetchers = Fetchers(
            broker_id=FOLLOWER,
            broker_epoch=lambda: 99,
            config=BrokerConfig([Setting("test", "num.replica.fetchers", "1")]),
            clock=self.clock,
            scheduler=self.scheduler,
            peers=self,
            endpoint_of=self.endpoints.get,
            leaders=self,
            throttle=self.throttle,
        )

    def closed(self, broker_id: int) -> None:
        self.told.append(("closed", broker_id))

    def settled(self, broker_id: int) -> None:
        self.told.append(("settled", broker_id))

    def connect(
        self, endpoint: Endpoint, client_id: str, *, name: str = "", on_break: OnBreak | None = None
    ) -> Connection:
        self.connections.append(Connection(endpoint, client_id, on_break))
        return self.connections[-1]

    def run(self, duration_ms: int = 0) -> None:
        self.clock.advance_ms(duration_ms)
        self.scheduler.run(duration_ms)

    @property
    def connection(self) -> Connection:
        (open_one,) = (connection for connection in self.connections if not connection.is_closed)
        return open_one

    def add(self, *replicas: Replica) -> None:
        self.fetchers.add(LEADER, replicas)
        self.run()

    def fetch(self) -> FetchRequest:
        """What the one request under way asks."""
        ((api_key, version, body, _),) = self.connection.requests
        assert (api_key, version) == (FETCH, FOLLOWER_VERSION)
        return decode_request(Decoder(memoryview(body), flexible=True), version)

    def asked(self) -> dict[int, FetchPartition]:
        return {wanted.partition: wanted for _, partitions in self.fetch().topics for wanted in partitions}

    def asked_values(self) -> dict[int, tuple[int, ...]]:
        return {index: values(wanted) for index, wanted in self.asked().items()}

    def is_asking(self) -> bool:
        return any(connection.requests for connection in self.connections)

    def answer(
        self,
        *entries: PartitionFetched,
        error_code: ErrorCode = ErrorCode.none,
        session_id: int = SESSION,
        topic_id: UUID = TOPIC_ID,
    ) -> None:
        """Answer the request under way, and let what follows from that happen."""
        (_, version, _, then) = self.connection.requests.pop(0)
        topics = [(topic_id, list(entries))] if entries else []
        parts = encode_response(topics, version, error_code=error_code, session_id=session_id)
        then(memoryview(b"".join(bytes(part) for part in parts)))
        self.run()

    def fail(self, failure: PeerFailure = PeerFailure.DISCONNECTED) -> None:
        """Refuse a connection, or break one that stood."""
        connection = self.connection
        requests, connection.requests = connection.requests, []
        for request in requests:
            request[3](failure)
        if failure is not PeerFailure.REFUSED and connection.on_break is not None:
            connection.on_break(failure)
        self.run()


def values(wanted: FetchPartition) -> tuple[int, ...]:
    """Index, leader epoch, fetch offset, last fetched epoch, most bytes, log start offset."""
    return (
        wanted.partition,
        wanted.current_leader_epoch,
        wanted.fetch_offset,
        wanted.last_fetched_epoch,
        wanted.partition_max_bytes,
        wanted.log_start_offset,
    )


@pytest.fixture
def scene() -> Scene:
    return Scene()


def records(epochs: str, index: int = 0, high_watermark: int = 0) -> PartitionFetched:
    return PartitionFetched(
        index, high_watermark=high_watermark, log_start_offset=0, records=bytes(int(epoch) for epoch in epochs)
    )


def refused(error_code: ErrorCode, index: int = 0) -> PartitionFetched:
    return PartitionFetched(index, error_code)


def test_the_first_fetch_names_all_and_tells_who_asks(scene: Scene) -> None:
    scene.add(Replica(0, "445"), Replica(1))
    fetch = scene.fetch()
    assert (fetch.replica_id, fetch.replica_epoch, fetch.isolation_level) == (FOLLOWER, 99, 0)
    assert (fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes) == (500, 1, 10_485_760)
    assert (fetch.session_id, fetch.session_epoch) == (0, 0)
    assert scene.asked_values() == {
        0: (0, 5, 3, 5, 1_048_576, 0),
        1: (1, 5, 0, -1, 1_048_576, 0),
    }
    assert scene.connection.client_id == "broker-1-fetcher-0"


def test_what_comes_is_appended_and_the_next_fetch_names_only_what_moved(scene: Scene) -> None:
    first, second = Replica(0), Replica(1)
    scene.add(first, second)
    scene.answer(records("55", 0, high_watermark=1), records("", 1))
    assert (first.text, first.high_watermark) == ("55", 1)
    fetch = scene.fetch()
    assert (fetch.session_id, fetch.session_epoch) == (SESSION, 1)
    assert scene.asked_values() == {0: (0, 5, 2, 5, 1_048_576, 0)}
    scene.answer()
    assert (scene.fetch().session_epoch, scene.asked()) == (2, {})
    scene.answer(records("", 0, high_watermark=2))
    assert (first.high_watermark, scene.asked()) == (2, {})


def test_the_next_fetch_tells_that_the_log_starts_later(scene: Scene) -> None:
    """Whoever deletes records waits until the leader knows it of all replicas (DeleteRecords)."""
    scene.add(Replica(0, "555"))
    scene.answer(records("", high_watermark=3))
    assert scene.asked() == {}
    scene.answer(PartitionFetched(0, high_watermark=3, log_start_offset=2))
    assert scene.asked_values() == {0: (0, 5, 3, 5, 1_048_576, 2)}
    scene.answer()
    assert scene.asked() == {}


def test_without_a_session_every_fetch_is_full(scene: Scene) -> None:
    scene.add(Replica(0), Replica(1))
    scene.answer(records("5"), session_id=0)
    assert (scene.fetch().session_id, scene.fetch().session_epoch) == (0, 0)
    assert set(scene.asked()) == {0, 1}


@pytest.mark.parametrize(
    ("error_code", "session_id"),
    [(ErrorCode.fetch_session_id_not_found, 0), (ErrorCode.invalid_fetch_session_epoch, SESSION)],
)
def test_a_session_that_is_of_no_use_is_begun_anew(scene: Scene, error_code: ErrorCode, session_id: int) -> None:
    scene.add(Replica(0), Replica(1))
    scene.answer()
    scene.answer(error_code=error_code, session_id=0)
    assert (scene.fetch().session_id, scene.fetch().session_epoch) == (session_id, 0)
    assert set(scene.asked()) == {0, 1}


def test_a_log_that_went_another_way_is_cut_where_the_leader_says(scene: Scene) -> None:
    # The leader has epochs 3 and 5, which began at 2; we wrote in epoch 4 what nobody else has.
    replica = Replica(0, "33444")
    scene.add(replica)
    scene.answer(PartitionFetched(0, diverging_epoch=(3, 2)))
    assert (replica.text, replica.truncations) == ("33", [2])
    wanted = scene.asked()[0]
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (2, 3)


def test_an_epoch_that_is_not_known_here_cuts_to_the_one_below_and_asks_again(scene: Scene) -> None:
    # KIP-279: the leader's largest epoch up to our 4 is 3, and we know only 1 and 4.
    replica = Replica(0, "11444")
    scene.add(replica)
    scene.answer(PartitionFetched(0, diverging_epoch=(3, 4)))
    assert replica.text == "11"
    wanted = scene.asked()[0]
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (2, 1)


def test_a_leader_whose_history_ended_before_ours_began_cuts_all(scene: Scene) -> None:
    replica = Replica(0, "444")
    scene.add(replica)
    scene.answer(PartitionFetched(0, diverging_epoch=(3, 2)))
    assert (replica.text, scene.asked()[0].fetch_offset) == ("", 0)


def test_a_divergence_that_cuts_nothing_is_no_endless_loop(scene: Scene) -> None:
    replica = Replica(0, "33")
    scene.add(replica, Replica(1))
    scene.answer(PartitionFetched(0, diverging_epoch=(3, 9)))
    assert (replica.text, scene.asked()) == ("33", {})
    assert scene.fetch().forgotten == [(TOPIC_ID, 0)]


def test_records_of_unknown_history_are_kept_as_far_as_they_were_committed(scene: Scene) -> None:
    class Old(Replica):
        latest_epoch = -1

    replica = Old(0, "111")
    replica.high_watermark = 2
    scene.add(replica)
    assert (replica.text, scene.asked()[0].fetch_offset) == ("11", 2)


def list_offsets(scene: Scene) -> dict[int, tuple[Any, Then]]:
    """The requests for the ends of the leader's log that are under way, by timestamp."""
    found = {}
    for api_key, version, body, then in scene.connection.requests:
        if api_key == LIST_OFFSETS:
            request = cold.decode_request("list_offsets", version, Decoder(memoryview(body), flexible=version >= 6))
            assert request.replica_id == FOLLOWER
            ((partition,),) = (topic.partitions for topic in request.topics)
            found[partition.timestamp] = partition, then
    return found


def tell_offset(scene: Scene, timestamp: int, offset: int, error_code: ErrorCode = ErrorCode.none) -> None:
    partition = {"partition_index": 0, "error_code": error_code, "offset": offset, "timestamp": -1, "leader_epoch": 5}
    answer = cold.encode_response("list_offsets", 7, {"topics": [{"name": "t", "partitions": [partition]}]})
    list_offsets(scene)[timestamp][1](memoryview(answer))


@pytest.mark.parametrize(
    ("log", "start_offset", "end_offset", "left", "next_offset"),
    [
        ("4444", 0, 2, "44", 2),  # an unclean election: the leader's log is shorter
        ("44", 5, 9, "", 5),  # what we lack is deleted there
        ("44", 1, 2, "44", 2),  # it moved meanwhile
    ],
)
def test_out_of_range_begins_again_where_the_leader_is(
    scene: Scene, log: str, start_offset: int, end_offset: int, left: str, next_offset: int
) -> None:
    replica, other = Replica(0, log), Replica(1)
    scene.add(replica, other)
    scene.answer(refused(ErrorCode.offset_out_of_range), records("5", 1))
    asked = list_offsets(scene)
    assert {timestamp: partition.current_leader_epoch for timestamp, (partition, _) in asked.items()} == {-2: 5, -1: 5}
    tell_offset(scene, -2, start_offset)
    assert replica.text == log
    tell_offset(scene, -1, end_offset)
    scene.run()
    scene.connection.requests = [each for each in scene.connection.requests if each[0] == FETCH]
    # The other one is fetched all the while.
    assert set(scene.asked()) == {1}
    scene.answer()
    assert (replica.text, scene.asked()[0].fetch_offset) == (left, next_offset)


def test_what_was_looked_up_is_asked_again_when_the_connection_breaks(scene: Scene) -> None:
    replica = Replica(0, "4444")
    scene.add(replica)
    scene.answer(refused(ErrorCode.offset_out_of_range))
    scene.fail()
    scene.run(FIRST_BACKOFF_MS)
    assert scene.asked()[0].fetch_offset == 4


@pytest.mark.parametrize("error_code", [ErrorCode.not_leader_or_follower, ErrorCode.unknown_server_error])
def test_an_error_holds_up_nobody_else_and_is_asked_again_later_and_later(scene: Scene, error_code: ErrorCode) -> None:
    scene.add(Replica(0), Replica(1))
    delay_ms = FIRST_BACKOFF_MS
    scene.answer(refused(error_code, 0), records("5", 1))
    for _ in range(8):
        assert scene.fetch().forgotten == [(TOPIC_ID, 0)]
        scene.answer()
        scene.run(delay_ms - 1)
        scene.answer()
        assert scene.asked() == {}
        scene.run(1)
        scene.answer()
        assert set(scene.asked()) == {0}
        scene.answer(refused(error_code, 0))
        delay_ms = min(2 * delay_ms, BACKOFF_MS)
    assert delay_ms == BACKOFF_MS


def test_a_newer_epoch_there_ends_it_until_the_controller_tells_of_it(scene: Scene) -> None:
    replica = Replica(0)
    scene.add(replica, Replica(1))
    scene.answer(refused(ErrorCode.fenced_leader_epoch, 0))
    scene.answer()
    scene.run(10 * BACKOFF_MS)
    assert (scene.asked(), scene.fetchers.failed_count) == ({}, 1)
    replica.leader_epoch = 6
    scene.add(replica)
    scene.answer()
    assert (scene.asked()[0].current_leader_epoch, scene.fetchers.failed_count) == (6, 0)


@pytest.mark.parametrize("failure", [CorruptBatch("its CRC is wrong"), OSError("the disk is full")])
def test_what_cannot_be_appended_is_asked_again_and_holds_up_nobody(scene: Scene, failure: Exception) -> None:
    replica, other = Replica(0), Replica(1)
    replica.fails_with = failure
    scene.add(replica, other)
    scene.answer(records("5", 0), records("5", 1))
    assert (other.text, set(scene.asked())) == ("5", {1})
    replica.fails_with = None
    scene.run(FIRST_BACKOFF_MS)
    scene.answer()
    scene.answer(records("5", 0))
    assert replica.text == "5"


def test_a_fault_of_ours_ends_one_partition_only(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    replica, other = Replica(0), Replica(1)
    replica.fails_with = ZeroDivisionError()
    scene.add(replica, other)
    scene.answer(records("5", 0), records("5", 1))
    scene.run(BACKOFF_MS)
    assert (other.text, scene.fetchers.failed_count) == ("5", 1)
    assert "t-0: stopped following its leader, because of a bug in the broker" in caplog.text


def test_nothing_is_appended_to_what_was_removed(scene: Scene) -> None:
    replica, other = Replica(0), Replica(1)
    scene.add(replica, other)
    scene.answer()
    scene.fetchers.remove([replica])
    scene.answer(records("5", 0), records("5", 1))
    assert (replica.text, other.text) == ("", "5")
    assert scene.fetch().forgotten == [(TOPIC_ID, 0)]


def test_what_is_removed_while_a_session_begins_is_forgotten_with_the_next_fetch(scene: Scene) -> None:
    """Or the leader of a topic that was deleted meanwhile answers every fetch at once, with an error, for ever."""
    replica = Replica(0)
    scene.add(replica, Replica(1))
    assert set(scene.asked()) == {0, 1}
    scene.fetchers.remove([replica])
    scene.answer(refused(ErrorCode.unknown_topic_id, 0), records("5", 1))
    assert (scene.fetch().session_epoch, scene.fetch().forgotten) == (1, [(TOPIC_ID, 0)])
    scene.answer()
    assert scene.fetch().forgotten == []


@pytest.mark.parametrize("session_id", [0, SESSION])
def test_what_is_added_again_while_a_session_begins_is_not_forgotten(scene: Scene, session_id: int) -> None:
    replica = Replica(0)
    scene.add(replica, Replica(1))
    scene.fetchers.remove([replica])
    scene.add(replica)
    scene.answer(session_id=session_id)
    assert 0 in scene.asked()
    assert scene.fetch().forgotten == []


def test_an_answer_to_the_epoch_before_is_not_taken_for_one_to_this(scene: Scene) -> None:
    replica = Replica(0)
    scene.add(replica, Replica(1))
    scene.answer()
    replica.leader_epoch = 6
    scene.add(replica)
    scene.answer(records("5", 0))
    assert replica.text == ""
    assert (scene.asked()[0].current_leader_epoch, scene.fetch().forgotten) == (6, [])


def test_a_fetch_that_waits_is_broken_off_for_a_new_partition(scene: Scene) -> None:
    scene.add(Replica(0))
    scene.answer()
    before = scene.connection
    scene.add(Replica(1))
    assert scene.connection is before
    scene.run(BREAK_OFF_AFTER_MS)
    assert scene.connection is not before
    assert (scene.fetch().session_id, scene.fetch().session_epoch, set(scene.asked())) == (SESSION, 0, {0, 1})


def test_a_fetch_that_is_answered_soon_is_not_broken_off(scene: Scene) -> None:
    scene.add(Replica(0))
    scene.answer()
    scene.add(Replica(1))
    scene.answer()
    scene.run(BREAK_OFF_AFTER_MS)
    assert len(scene.connections) == 1
    assert (scene.fetch().session_epoch, set(scene.asked())) == (2, {1})


def test_a_leader_that_does_not_answer_is_tried_again_later_and_later(scene: Scene) -> None:
    scene.add(Replica(0))
    scene.answer()
    delay_ms = FIRST_BACKOFF_MS
    for failure in [*PeerFailure] * 3:
        scene.fail(failure)
        scene.run(delay_ms - 1)
        assert not scene.is_asking()
        scene.run(1)
        assert (scene.fetch().session_id, scene.fetch().session_epoch, set(scene.asked())) == (SESSION, 0, {0})
        delay_ms = min(2 * delay_ms, BACKOFF_MS)


def test_a_leader_that_is_away_is_followed_to_where_it_comes_back(scene: Scene) -> None:
    endpoint = scene.endpoints.pop(LEADER)
    scene.add(Replica(0))
    assert not scene.is_asking()
    scene.endpoints[LEADER] = endpoint._replace(port=1234)
    scene.run(BACKOFF_MS)
    assert scene.connection.endpoint.port == 1234
    scene.endpoints[LEADER] = endpoint
    scene.answer()
    assert scene.connection.endpoint == endpoint


def test_who_follows_another_leader_leaves_the_first(scene: Scene) -> None:
    replica = Replica(0)
    scene.add(replica)
    scene.fetchers.add(3, [replica])
    scene.run()
    assert scene.connection.endpoint.host == "h3"
    scene.fetchers.remove([replica])
    assert all(connection.is_closed for connection in scene.connections)


def test_a_topic_made_anew_is_another_one(scene: Scene) -> None:
    old, new = Replica(0), Replica(0, topic_id=LATER_TOPIC_ID)
    scene.add(old)
    scene.answer()
    scene.fetchers.remove([old])
    scene.add(new)
    assert [topic for topic, _ in scene.fetch().topics] == [LATER_TOPIC_ID]


def test_the_leader_is_told_of_no_record_before_it_is_flushed(scene: Scene) -> None:
    replica = Replica(0)
    scene.add(replica)
    replica.is_kept = False
    scene.answer(records("55"))
    assert not scene.is_asking()
    replica.is_kept = True
    replica.when_kept.pop()()
    assert scene.asked()[0].fetch_offset == 2


def test_a_leader_of_a_new_epoch_is_told_of_no_record_before_it_is_flushed(scene: Scene) -> None:
    """The slow disk of the follower is still at the records that it has of the epoch before."""
    replica = Replica(0)
    scene.add(replica)
    replica.is_kept = False
    scene.answer(records("55"))
    scene.fetchers.remove([replica])
    replica.leader_epoch += 1
    scene.add(replica)
    assert not scene.is_asking()
    replica.is_kept = True
    for flushed in replica.when_kept:
        flushed()
    assert scene.asked()[0].fetch_offset == 2


def test_a_partition_that_goes_before_it_is_flushed_holds_up_nobody(scene: Scene) -> None:
    replica = Replica(0)
    scene.add(replica, Replica(1))
    replica.is_kept = False
    scene.answer(records("55"))
    scene.fetchers.remove([replica])
    assert scene.is_asking()
    replica.when_kept.pop()()
    assert scene.fetch().forgotten == [(TOPIC_ID, 0)]


def test_a_throttled_partition_that_lags_is_left_out_until_there_is_room(scene: Scene) -> None:
    scene.add(Replica(0), Replica(1))
    scene.throttle.is_active = True
    scene.answer(records("5", 0), records("55", 1, high_watermark=10))
    assert scene.throttle.recorded_bytes == 2
    assert (set(scene.asked()), scene.fetch().forgotten) == ({0}, [(TOPIC_ID, 1)])
    scene.throttle.exceeded = False
    scene.run(THROTTLED_MS)
    scene.answer()
    assert scene.asked()[1].fetch_offset == 2
    scene.throttle.exceeded = True
    scene.answer(records("55555555", 1, high_watermark=10))
    assert set(scene.asked()) == {1}, "what is in sync is not throttled"


def test_how_far_behind(scene: Scene) -> None:
    replica = Replica(0)
    scene.add(replica)
    scene.answer(records("55", 0, high_watermark=10))
    assert list(scene.fetchers.lags()) == [(LEADER, replica, 8)]


def test_what_is_no_answer_is_told_and_tried_again(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.add(Replica(0))
    (_, _, _, then) = scene.connection.requests.pop(0)
    then(memoryview(b"\x00\x01"))
    assert "broker 2 answers a fetch with what is not an answer" in caplog.text
    scene.run(FIRST_BACKOFF_MS)
    assert scene.asked()


def test_after_the_end_nothing_is_asked(scene: Scene) -> None:
    scene.add(Replica(0))
    scene.fail()
    scene.fetchers.close()
    scene.run(10 * BACKOFF_MS)
    scene.add(Replica(1))
    assert not scene.is_asking()


def test_a_fetcher_that_has_nothing_left_is_closed_once(scene: Scene) -> None:
    first, second = Replica(0), Replica(1)
    scene.add(first, second)
    scene.answer(refused(ErrorCode.fenced_leader_epoch, 0))
    scene.fetchers.remove([second])
    scene.fetchers.remove([first])
    assert all(connection.is_closed for connection in scene.connections)
    scene.add(first)
    assert set(scene.asked()) == {0}


@pytest.mark.parametrize("failure", [PeerFailure.CLOSED, PeerFailure.DISCONNECTED])
def test_a_leader_that_closes_its_connection_is_told_of_until_it_answers(scene: Scene, failure: PeerFailure) -> None:
    scene.add(Replica(0))
    scene.answer()
    scene.told.clear()
    for _ in range(2):  # The second time it closes a connection on which it has not answered.
        scene.fail(failure)
        assert scene.told == [("closed", LEADER)]
        scene.run(BACKOFF_MS)
    scene.answer()
    assert scene.told == [("closed", LEADER), ("settled", LEADER)]
    scene.answer()
    assert len(scene.told) == 2


def test_a_leader_that_closes_its_connection_while_a_log_is_flushed_is_told_of(scene: Scene) -> None:
    replica = Replica(0)
    scene.add(replica)
    replica.is_kept = False
    scene.answer(records("5"))
    scene.told.clear()
    assert not scene.is_asking()
    scene.fail(PeerFailure.CLOSED)
    assert scene.told == [("closed", LEADER)]
    replica.is_kept = True
    replica.when_kept.pop()()
    assert scene.is_asking()


@pytest.mark.parametrize("failure", [PeerFailure.REFUSED, PeerFailure.TIMED_OUT])
def test_a_leader_that_does_not_answer_has_closed_nothing(scene: Scene, failure: PeerFailure) -> None:
    scene.add(Replica(0))
    scene.answer()
    scene.told.clear()
    scene.fail(failure)
    assert scene.told == []
