"""The client against brokers that close, are slow or answer garbage: each is one clear line."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.client import Client
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.client.settings import ClientSettings
from tests.pipeline.kafka.fake_broker import cluster_of, fake_broker
from tests.waiting import wait_until


def metadata() -> Request[str]:
    return cold_request("metadata", 4, 12, {"topics": []}, lambda answer: str(answer.cluster_id))


def settings(*ports: int, **more: Any) -> ClientSettings:
    return ClientSettings(tuple(("127.0.0.1", port) for port in ports), **more)


def run(what: Callable[[Client], Coroutine[Any, Any, Any]], *ports: int, **more: Any) -> Any:
    async def running() -> Any:
        client = Client(settings(*ports, **more))
        try:
            return await what(client)
        finally:
            await client.close()

    return asyncio.run(running())


def refusal(*ports: int, **more: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        run(lambda client: client.ask_any(metadata()), *ports, **more)
    assert "\n" not in str(caught.value)
    return caught.value


@contextmanager
def speaking(answer: bytes) -> Iterator[int]:
    """A server that answers this to the first bytes of each connection, then closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_one_connection_serves_many_requests_at_once() -> None:
    async def asking(client: Client) -> list[str]:
        found = await asyncio.gather(*(client.ask_any(metadata()) for _ in range(20)))
        assert client.traffic.requests == 21  # and ApiVersions
        assert client.traffic.received_bytes > 0
        return list(found)

    with fake_broker(lambda api, request: cluster_of([broker.port], {})) as broker:
        assert run(asking, broker.port) == ["fake"] * 20
        assert broker.asked == ["api_versions"] + ["metadata"] * 20


def test_the_next_broker_is_asked_and_a_lost_connection_is_made_again() -> None:
    async def asking(client: Client) -> None:
        assert await client.ask_any(metadata()) == "fake"
        for connection in broker._open:
            connection.shutdown(socket.SHUT_RDWR)
        while broker.closed == 0:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        assert await client.ask_any(metadata()) == "fake"

    with fake_broker(lambda api, request: None) as gone:
        pass
    with fake_broker(lambda api, request: cluster_of([broker.port], {})) as broker:
        run(asking, gone.port, broker.port)
        assert broker.asked.count("api_versions") == 2


def test_no_broker_listens() -> None:
    with fake_broker(lambda api, request: None) as gone:
        port = gone.port
    text = f"broker 127.0.0.1:{port} cannot be reached: Connection refused"
    assert str(refusal(port)) == text
    with fake_broker(lambda api, request: None) as gone:
        other = gone.port
    assert str(refusal(port, other)).startswith(f"no broker answers: {text}")


def test_brokers_that_close_the_connection() -> None:
    with fake_broker(lambda api, request: None) as broker:
        error = refusal(broker.port)
        assert str(error) == f"broker 127.0.0.1:{broker.port} closed the connection before it answered Metadata"
        assert (error.broker, error.api) == (f"127.0.0.1:{broker.port}", "Metadata")
    with speaking(b"") as port:
        assert str(refusal(port)) == (
            f"broker 127.0.0.1:{port} closes new connections; check security.protocol against that of its listener"
        )


def test_garbage_in_place_of_an_answer() -> None:
    with speaking(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert str(refusal(port)) == (
            f"broker 127.0.0.1:{port}: an answer of 1213486160 bytes; is this the port of a broker, with this protocol?"
        )
    with speaking(b"\0\0\0\4\0\0\0\7") as port:
        assert str(refusal(port)) == f"broker 127.0.0.1:{port}: an answer to request 7, which was not asked"


def test_a_slow_broker_whose_late_answer_is_dropped() -> None:
    is_slow = threading.Event()

    async def asking(client: Client) -> None:
        is_slow.set()
        with pytest.raises(ClientError, match=r"^broker 127\.0\.0\.1:\d+ did not answer Metadata within 0\.05 s$"):
            await client.ask_any(metadata(), timeout_s=0.05)
        is_slow.clear()
        while client.traffic.late_answers == 0:
            await asyncio.sleep(0.01)
        assert await client.ask_any(metadata()) == "fake"

    def answer(api: str, request: Any) -> Any:
        wait_until(lambda: not is_slow.is_set(), "the end of the delay")
        return cluster_of([broker.port], {})

    with fake_broker(answer) as broker:
        run(asking, broker.port)
        assert broker.asked.count("api_versions") == 1


def test_a_broker_that_owes_an_answer_is_asked_on_a_new_connection() -> None:
    goes_on = threading.Event()

    async def asking(client: Client) -> None:
        with pytest.raises(ClientError, match="did not answer Metadata"):
            await client.ask_any(metadata(), timeout_s=0.05)
        assert await client.ask_any(metadata()) == "fake"

    def answer(api: str, request: Any) -> Any:
        if broker.asked.count("metadata") == 1:
            goes_on.wait(60)
        return cluster_of([broker.port], {})

    with fake_broker(answer) as broker:
        run(asking, broker.port)
        goes_on.set()
        assert broker.asked.count("api_versions") == 2


def test_an_answer_that_is_being_read_costs_no_other_request_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.kafka.client.connection._LARGE_ANSWER_BYTES", 0)
    reading, goes_on = threading.Event(), threading.Event()

    def read_slowly(answer: Any) -> str:
        reading.set()
        assert goes_on.wait(60)
        return str(answer.cluster_id)

    async def asking(client: Client) -> None:
        slow = cold_request("metadata", 4, 12, {"topics": []}, read_slowly)
        asked = [asyncio.create_task(client.ask_any(slow))]
        while not reading.is_set():
            await asyncio.sleep(0.01)
        asked.append(asyncio.create_task(client.ask_any(metadata())))
        while broker.asked.count("metadata") < 2:
            await asyncio.sleep(0.01)
        asked.append(asyncio.create_task(client.ask_any(metadata())))
        while client.traffic.requests < 4:  # ApiVersions is one
            await asyncio.sleep(0.01)
        goes_on.set()
        assert await asyncio.gather(*asked) == ["fake"] * 3

    def answer(api: str, request: Any) -> Any:
        if broker.asked.count("metadata") == 2:
            assert goes_on.wait(60)
        return cluster_of([broker.port], {})

    with fake_broker(answer) as broker:
        try:
            run(asking, broker.port)
        finally:
            goes_on.set()
        assert broker.asked.count("api_versions") == 1


def test_a_broker_that_is_silent_from_the_beginning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert str(refusal(port, connect_timeout_s=0.05)) == (
            f"broker 127.0.0.1:{port} did not let this client in within 0.05 s"
        )


def test_an_api_that_the_broker_does_not_serve() -> None:
    quorum = cold_request("describe_quorum", 0, 0, {"topics": []}, lambda answer: answer)
    with fake_broker(lambda api, request: None) as broker, pytest.raises(ClientError) as caught:
        run(lambda client: client.ask_any(quorum), broker.port)
    assert str(caught.value) == f"broker 127.0.0.1:{broker.port} cannot answer: it does not serve DescribeQuorum"
    assert caught.value.is_refusal


def test_the_blocking_face_closes_its_connections_when_it_is_let_go() -> None:
    with fake_broker(lambda api, request: cluster_of([broker.port], {})) as broker:
        client = BlockingClient(settings(broker.port))
        for _ in range(3):
            assert client.ask(("127.0.0.1", broker.port), metadata()) == "fake"
        assert broker.asked.count("api_versions") == 1
        del client
        wait_until(lambda: broker.closed == 1, "the end of the connection")


def test_a_blocking_client_may_be_collected_while_another_loop_runs() -> None:
    async def collecting(client: list[BlockingClient]) -> None:
        client.pop()

    with fake_broker(lambda api, request: cluster_of([broker.port], {})) as broker:
        client = BlockingClient(settings(broker.port))
        assert client.ask(("127.0.0.1", broker.port), metadata()) == "fake"
        held = [client]
        del client
        # An exception here would be an unraisable one, which fails the test.
        asyncio.run(collecting(held))
        wait_until(lambda: broker.closed == 1, "the end of the connection")
