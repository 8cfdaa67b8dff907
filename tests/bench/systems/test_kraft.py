"""Who the active controller is, as a KRaft broker tells it, and brokers that know of no quorum."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kio.schema.api_versions.v0.response as api_versions
import kio.schema.describe_quorum.v0.response as quorum
import pytest
from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader, entity_writer

from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.systems.kraft import active_controller
from highwater.common.errors import TrialError
from tests.spark_loadgen.wire.scripted import scripted_broker


def encoded(entity: Any, header: bytes) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    answer = header + buffer.getvalue()
    return len(answer).to_bytes(4, "big") + answer


def frame(connection: socket.socket) -> bytes:
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    return connection.recv(size, socket.MSG_WAITALL)


@contextmanager
def kraft_broker(leader: int) -> Iterator[str]:
    """Its address. It answers one client, whose question it checks."""
    spoken: Any = api_versions.ApiVersion
    versions = tuple(spoken(api_key=key, min_version=0, max_version=2) for key in (18, 55))
    partition: Any = quorum.PartitionData
    topic: Any = quorum.TopicData
    told = partition(
        partition_index=0,
        error_code=ErrorCode.none,
        leader_id=leader,
        leader_epoch=4,
        high_watermark=9,
        current_voters=(),
        observers=(),
    )
    answer = quorum.DescribeQuorumResponse(
        error_code=ErrorCode.none, topics=(topic(topic_name="__cluster_metadata", partitions=(told,)),)
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                frame(connection)
                known = api_versions.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=versions)
                connection.sendall(encoded(known, b"\0\0\0\1"))
                asked = frame(connection)
                header, size = entity_reader(RequestHeader)(asked, 0)
                assert (header.request_api_key, header.request_api_version) == (55, 0)
                request, _ = entity_reader(DescribeQuorumRequest)(asked, size)
                assert [topic.topic_name for topic in request.topics] == ["__cluster_metadata"]
                connection.sendall(encoded(answer, b"\0\0\0\2\0"))

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_the_leader_of_the_quorum_is_the_controller() -> None:
    with kraft_broker(leader=3) as address:
        assert active_controller(f"127.0.0.1:1,{address}") == 3


def test_there_may_be_none_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    with kraft_broker(leader=-1) as address:
        assert active_controller(address) == -1
    monkeypatch.setattr("highwater.bench.systems.broker_client.active_controller", lambda _: -1)
    with pytest.raises(TrialError, match="it has none just now"):
        BrokerClient("127.0.0.1:1").controller()


def test_a_cluster_without_a_quorum_tells_none() -> None:
    with scripted_broker({}) as broker:
        assert active_controller(broker.bootstrap_servers) is None


def test_nobody_answers() -> None:
    with pytest.raises(TrialError, match="does not report its controller: Connection refused"):
        BrokerClient("127.0.0.1:1").controller()
