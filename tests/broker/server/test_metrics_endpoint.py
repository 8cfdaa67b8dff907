"""The metrics of a running broker over HTTP, asked for well and badly."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from highwater.broker.server.listeners import metrics_endpoint_of
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from highwater.common.http_endpoint import LIMITS
from tests.broker.running import running_broker


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log_dir = tmp_path_factory.mktemp("metrics") / "log"
    with running_broker(log_dir, properties=["metrics.listener=HTTP://127.0.0.1:0"]) as broker:
        told = re.search(r"metrics at (http://\S+)", broker.log_text())
        assert told is not None
        yield told[1]
        assert broker.stop() == 0
        assert "a bug made" not in broker.log_text()


def connect(url: str) -> socket.socket:
    port = urlsplit(url).port
    assert port is not None
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def exchange(url: str, request: bytes) -> bytes:
    with closing(connect(url)) as client:
        client.sendall(request)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    return answer


def test_prometheus_can_read_it(url: str) -> None:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - the URL is http on loopback
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        names = {metric.name for metric in text_string_to_metric_families(answer.read().decode())}
    assert {
        "kafka_server_brokertopicmetrics_messagesin",
        "kafka_server_replicamanager_partitioncount",
        "highwater_event_loop_lag_seconds",
        "process_cpu_seconds",
    } <= names


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"421"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"405"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"\x00\x01\x02\xff\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/9.9\r\n\r\n", b"400"),
    ],
)
def test_answers(url: str, request_bytes: bytes, status: bytes) -> None:
    head, _, body = exchange(url, request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    length = re.search(rb"Content-Length: (\d+)", head)
    assert length is not None
    assert int(length[1]) == len(body)


def test_head_has_no_body(url: str) -> None:
    head, _, body = exchange(url, b"HEAD /metrics HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == b""


def test_an_endless_head_is_cut(url: str) -> None:
    with closing(connect(url)) as client, pytest.raises(ConnectionError):
        client.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 50_000_000)
    exchange(url, b"GET /metrics HTTP/1.1\r\n\r\n")


def test_silent_connections_keep_nobody_out(url: str) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(closing(connect(url))) for _ in range(LIMITS.most_per_address + 5)]
        for client in idle[:5]:
            with suppress(ConnectionError):
                assert client.recv(1) == b""
        idle[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            idle[-1].recv(1)
        assert exchange(url, b"GET /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("9404", "write it as HTTP://host:port"),
        ("PLAINTEXT://127.0.0.1:9404", "is not one HTTP endpoint"),
        ("HTTP://127.0.0.1:1,HTTP://127.0.0.1:2", "is not one HTTP endpoint"),
    ],
)
def test_a_listener_that_is_none(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"metrics.listener: .*{said}"):
        metrics_endpoint_of(BrokerConfig([Setting("test", "metrics.listener", text)]))


def test_without_a_listener_there_is_no_endpoint() -> None:
    assert metrics_endpoint_of(BrokerConfig()) is None
