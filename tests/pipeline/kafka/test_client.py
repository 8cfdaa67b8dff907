"""The client against scripted brokers: leaders that move, answers that lack something, connections that are lost."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.kafka.client.security import Sasl
from highwater.kafka.protocol.fetch import PartitionFetched
from highwater.kafka.requests.broker_error import BrokerError
from highwater.kafka.requests.fetch import Fetch, Fetched
from highwater.kafka.requests.find_coordinator import TRANSACTION
from highwater.pipeline.errors import ClientError
from highwater.pipeline.kafka.model import LATEST, CommittedOffset, ListedOffset, Producer
from tests.pipeline.kafka.asking import batch_at, client_of
from tests.pipeline.kafka.fake_broker import cluster_of, fake_broker
from tests.waiting import wait_until


def fetched(error: ErrorCode = ErrorCode.none, records: bytes = b"", **more: Any) -> list[PartitionFetched]:
    return [PartitionFetched(0, error, records=records, high_watermark=10, **more)]


def test_a_fetch_follows_the_leader() -> None:
    leader = 0

    def answers_of(node: int) -> Any:
        def answer(api: str, request: Any) -> Any:
            nonlocal leader
            if api == "metadata":
                return cluster_of(ports, {0: leader})
            if node == leader:
                return fetched(records=batch_at(5))
            return fetched(ErrorCode.not_leader_or_follower)

        return answer

    with fake_broker(answers_of(0)) as one, fake_broker(answers_of(1)) as other:
        ports = [one.port, other.port]
        with client_of(*ports) as client:
            assert isinstance(client.fetch(Fetch("t", 0, 5)), Fetched)
            leader = 1
            assert isinstance(client.fetch(Fetch("t", 0, 5)), Fetched)
            leader = 0
            assert isinstance(client.fetch_ahead(Fetch("t", 0, 5))(), Fetched)


def test_a_fetch_survives_the_loss_of_its_connection_and_of_its_broker() -> None:
    fetches: list[str] = []

    def answers_of(name: str) -> Any:
        def answer(api: str, request: Any) -> Any:
            if api == "metadata":
                return cluster_of([one.port, other.port], {0: int(len(fetches) > 2)})
            fetches.append(name)
            return None if len(fetches) <= 2 else fetched(records=batch_at(5))

        return answer

    with (
        fake_broker(answers_of("one")) as one,
        fake_broker(answers_of("other")) as other,
        client_of(one.port, other.port) as client,
    ):
        # Asked of the first broker, and again; after the third answer the leader is another.
        assert isinstance(client.fetch(Fetch("t", 0, 5)), Fetched)
        assert fetches == ["one", "one", "one"]
        one.close()
        assert isinstance(client.fetch(Fetch("t", 0, 5)), Fetched)
        assert fetches[3:] == ["other"]


def test_a_known_partition_that_an_answer_lacks_is_asked_for_again() -> None:
    lacking: Iterator[dict[str, Any]] = iter(
        [
            {"leaders": {0: 0, 1: 0}},  # known from here on
            {"leaders": {0: 0}},
            {"leaders": {}, "error": ErrorCode.unknown_topic_or_partition},
            {"leaders": {0: 0, 1: 0}},
        ]
    )
    with (
        fake_broker(lambda api, request: cluster_of([broker.port], **next(lacking))) as broker,
        client_of(broker.port) as client,
    ):
        assert len(client.cluster(["t"]).topics["t"].partitions) == 2
        assert len(client.cluster(["t"]).topics["t"].partitions) == 2
    assert next(lacking, None) is None


def test_what_lacks_until_the_time_is_over_is_an_error_and_not_gone() -> None:
    leaders = {0: 0, 1: 0}
    with (
        fake_broker(lambda api, request: cluster_of([broker.port], leaders)) as broker,
        client_of(broker.port, api_timeout_s=0.1) as client,
    ):
        client.cluster(["t"])
        del leaders[1]
        topic = client.cluster().topics["t"]
        assert topic.partitions == {}
        assert str(topic.error) == "UNKNOWN_TOPIC_OR_PARTITION (3): the answer has 1 of 2 known partitions"


def test_a_deleted_topic_is_waited_for_once() -> None:
    leaders: dict[str, Any] = {"leaders": {0: 0}}
    with (
        fake_broker(lambda api, request: cluster_of([broker.port], **leaders)) as broker,
        client_of(broker.port, api_timeout_s=0.1) as client,
    ):
        client.cluster(["t"])
        leaders.update(leaders={}, error=ErrorCode.unknown_topic_or_partition)
        for most in (100, 1):
            asked = broker.asked.count("metadata")
            error = client.cluster(["t"]).topics["t"].error
            assert error is not None
            assert error.name == "UNKNOWN_TOPIC_OR_PARTITION"
            assert broker.asked.count("metadata") - asked <= most
        assert isinstance(client.fetch(Fetch("t", 0, 0)), BrokerError)


def test_the_leader_of_one_topic_leaves_while_another_is_looked_up() -> None:
    def answer(api: str, request: Any) -> Any:
        if api == "list_offsets":
            partitions = [{"partition_index": 0, "offset": 42}]
            return {"topics": [{"name": each.name, "partitions": partitions} for each in request.topics]}
        names = [each.name for each in request.topics]
        cluster = cluster_of([broker.port], {0: 0})
        if names == ["t"] and broker.asked.count("metadata") == 1:
            cluster = cluster_of([broker.port, broker.port], {0: 1})
        return cluster | {"topics": [cluster["topics"][0] | {"name": name} for name in names]}

    with fake_broker(answer) as broker, client_of(broker.port) as client:
        client.cluster(["t"])
        found = client.list_offsets({("t", 0): LATEST, ("u", 0): LATEST})
        assert all(isinstance(each, ListedOffset) for each in found.values())


def test_offsets_of_known_leaders_cost_one_request() -> None:
    def answer(api: str, request: Any) -> Any:
        if api == "metadata":
            return cluster_of([broker.port], {0: 0})
        return {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 42}]}]}

    with fake_broker(answer) as broker, client_of(broker.port) as client:
        for _ in range(3):
            client.list_offsets({("t", 0): LATEST})
        assert (broker.asked.count("list_offsets"), broker.asked.count("metadata")) == (3, 1)


def test_a_topic_that_was_made_anew_has_another_id() -> None:
    made: dict[str, Any] = {"leaders": {0: 0, 1: 0}, "topic_id": UUID(int=1)}
    with (
        fake_broker(lambda api, request: cluster_of([broker.port], **made)) as broker,
        client_of(broker.port) as client,
    ):
        client.cluster(["t"])
        made.update(leaders={0: 0}, topic_id=UUID(int=2))
        topic = client.cluster(["t"]).topics["t"]
        assert (topic.topic_id, topic.error, list(topic.partitions)) == (UUID(int=2), None, [0])


def test_an_answer_to_list_offsets_without_a_partition_is_asked_for_again() -> None:
    answers = iter([[], [(0, ErrorCode.leader_not_available, -1)], [(0, ErrorCode.none, 42)]])

    def answer(api: str, request: Any) -> Any:
        if api == "metadata":
            return cluster_of([broker.port], {0: 0})
        partitions = [{"partition_index": n, "error_code": code, "offset": at} for n, code, at in next(answers)]
        return {"topics": [{"name": "t", "partitions": partitions}]}

    with fake_broker(answer) as broker, client_of(broker.port) as client:
        found = client.list_offsets({("t", 0): LATEST, ("t", 9): LATEST})
        assert isinstance(found["t", 0], ListedOffset)
        assert found["t", 0].offset == 42
        assert isinstance(found["t", 9], BrokerError)
        assert found["t", 9].name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_an_error_that_stays_is_the_answer_when_the_time_is_over() -> None:
    def answer(api: str, request: Any) -> Any:
        return cluster_of([broker.port], {0: 0}) if api == "metadata" else fetched(ErrorCode.offset_not_available)

    with fake_broker(answer) as broker, client_of(broker.port, api_timeout_s=0.1) as client:
        assert client.fetch(Fetch("t", 0, 5)) == BrokerError(ErrorCode.offset_not_available)


def test_an_error_that_cannot_pass_is_the_answer_at_once() -> None:
    def answer(api: str, request: Any) -> Any:
        if api == "metadata":
            return cluster_of([broker.port], {0: 0})
        return fetched(ErrorCode.topic_authorization_failed)

    with fake_broker(answer) as broker, client_of(broker.port) as client:
        error = client.fetch(Fetch("t", 0, 5))
        assert (str(error), broker.asked.count("fetch")) == ("TOPIC_AUTHORIZATION_FAILED (29)", 1)


def test_a_coordinator_that_moves_is_found_again() -> None:
    codes = iter([ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress, ErrorCode.none])

    def answer(api: str, request: Any) -> Any:
        if api == "find_coordinator":
            return {"node_id": 0, "host": "127.0.0.1", "port": broker.port}
        return {"error_code": next(codes), "producer_id": 4, "producer_epoch": 2}

    with fake_broker(answer) as broker, client_of(broker.port) as client:
        assert client.init_producer_id("tx") == Producer(4, 2)
        assert broker.asked.count("find_coordinator") == 2


def test_partitions_whose_commit_failed_are_committed_again_alone() -> None:
    commits: list[list[int]] = []

    def answer(api: str, request: Any) -> Any:
        if api == "find_coordinator":
            return {"node_id": 0, "host": "127.0.0.1", "port": broker.port}
        asked = [each.partition_index for each in request.topics[0].partitions]
        commits.append(asked)
        codes = {2: ErrorCode.invalid_commit_offset_size}
        if len(commits) == 1:
            codes[1] = ErrorCode.not_coordinator
        partitions = [{"partition_index": n, "error_code": codes.get(n, ErrorCode.none)} for n in asked]
        return {"topics": [{"name": "t", "partitions": partitions}]}

    with fake_broker(answer) as broker, client_of(broker.port) as client:
        failed = client.commit_offsets("g", {("t", n): CommittedOffset(5) for n in range(3)})
        assert failed == {("t", 2): BrokerError(ErrorCode.invalid_commit_offset_size)}
        assert commits == [[0, 1, 2], [1]]


def test_a_batch_without_a_producer_id_is_not_sent_twice() -> None:
    def answer(api: str, request: Any) -> Any:
        return cluster_of([broker.port], {0: 0}) if api == "metadata" else None

    with fake_broker(answer) as broker, client_of(broker.port) as client:
        with pytest.raises(ClientError, match=r"^t-0: a batch may have been appended or not, as no answer came"):
            client.produce("t", 0, batch_at(0))
        assert broker.asked.count("produce") == 1


def test_a_session_that_ends_soon_is_not_used_any_more() -> None:
    """KIP-368: the broker closes a connection whose login is too old."""
    lifetime_ms = 3_600_000

    def answer(api: str, request: Any) -> Any:
        if api == "sasl_handshake":
            return {"mechanisms": ["PLAIN"]}
        if api == "sasl_authenticate":
            return {"auth_bytes": b"", "session_lifetime": lifetime_ms}
        return cluster_of([broker.port], {0: 0})

    with fake_broker(answer) as broker, client_of(broker.port, sasl=Sasl("PLAIN", "ann", "x")) as client:
        for _ in range(2):
            client.cluster(["t"])
        assert broker.asked.count("sasl_authenticate") == 1
        client.close()
        lifetime_ms = 1
        client.cluster(["t"])
        wait_until(lambda: not any(each.is_usable for each in client._connections.values()), "the end of the session")
        lifetime_ms = 3_600_000
        client.cluster(["t"])
        assert broker.asked.count("sasl_authenticate") >= 3


def test_no_broker_answers() -> None:
    with fake_broker(lambda api, request: None) as broker:
        port = broker.port
    with (
        client_of(port, api_timeout_s=0.05) as client,
        pytest.raises(
            ClientError, match=rf"^no answer within 50 ms; the last try: broker 127\.0\.0\.1:{port} cannot be reached"
        ),
    ):
        client.cluster()


def test_other_bootstrap_servers_are_tried() -> None:
    with fake_broker(lambda api, request: None) as gone:
        pass
    with fake_broker(lambda api, request: cluster_of([broker.port], {})) as broker:
        for _ in range(4):
            with client_of(gone.port, broker.port) as client:
                assert client.cluster([]).cluster_id == "fake"


def test_a_port_that_is_no_brokers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak_http() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=speak_http)
        thread.start()
        with (
            client_of(server.getsockname()[1], api_timeout_s=0.005, retry_backoff_s=0.01) as client,
            pytest.raises(ClientError, match="is this the port of a broker, with this protocol"),
        ):
            client.cluster()
        thread.join()


def test_partitions_that_were_not_attempted_are_added_with_the_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    new = BrokerError(ErrorCode.unknown_topic_or_partition)
    answers: list[dict[tuple[str, int], BrokerError]] = [
        {("t", 0): BrokerError(ErrorCode.operation_not_attempted), ("t", 1): new},
        {},
    ]
    client = client_of(9092)
    client._coordinators[TRANSACTION, "id"] = "127.0.0.1", 9092
    monkeypatch.setattr(client, "_ask", lambda *_: answers.pop(0))
    assert client.add_partitions_to_transaction("id", Producer(1, 0), [("t", 0), ("t", 1)]) == {}
    assert answers == []


def test_a_broker_that_dribbles_holds_nobody_for_longer_than_the_time_of_a_request() -> None:
    """Without a time-out for the whole answer, the answer would come, after each of its bytes came in time."""

    def dribble(connection: socket.socket, answer: bytes) -> None:
        if not broker.asked or broker.asked[-1] != "metadata":
            connection.sendall(answer)
            return
        for byte in answer:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)

    with fake_broker(lambda *_: cluster_of([broker.port], {0: 0})) as broker:
        broker.send = dribble  # type: ignore[method-assign]
        with (
            client_of(broker.port, request_timeout_s=0.2, api_timeout_s=0.1) as client,
            pytest.raises(ClientError, match="timed out"),
        ):
            client.cluster()
