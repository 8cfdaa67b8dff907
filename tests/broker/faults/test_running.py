"""Faults of a running broker on real sockets, one of each family; its options and its endpoint."""

from __future__ import annotations

import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from kio.schema.errors import ErrorCode

from highwater.broker.faults.client import Faults
from highwater.broker.faults.request import API_NAMES
from highwater.broker.server.faults import read_address
from highwater.common.errors import UsageError
from tests.broker.faults.world import decoded, sample_frame
from tests.broker.handlers.harness import request_frame
from tests.broker.running import COMMAND, RunningBroker
from tests.waiting import wait_until

pytestmark = pytest.mark.clients
DEADLINE_S = 15.0
METADATA = API_NAMES["Metadata"]
PRODUCE = API_NAMES["Produce"]
FETCH = API_NAMES["Fetch"]


def started(directory: Path, *arguments: str) -> tuple[RunningBroker, Faults]:
    broker = RunningBroker(directory / "log", "--port", "0", "--faults-listen", "127.0.0.1:0", *arguments)
    found = re.search(r"faults at http://(\S+)/faults", broker.log_text())
    assert found is not None
    return broker, Faults(found[1])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningBroker, Faults]]:
    broker, faults = started(tmp_path_factory.mktemp("faults"), "--property", "log.flush.interval.messages=1")
    try:
        yield broker, faults
        assert broker.stop() == 0
        assert "Traceback" not in broker.log_text()
    finally:
        broker.kill()


@pytest.fixture
def faults(running: tuple[RunningBroker, Faults]) -> Iterator[Faults]:
    yield running[1]
    running[1].clear()


@pytest.fixture
def broker(running: tuple[RunningBroker, Faults]) -> RunningBroker:
    return running[0]


def connect(broker: RunningBroker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE_S)


def exchange(broker: RunningBroker, *frames: bytes) -> bytes:
    """Send requests on one connection; returns all bytes up to its end, or up to the last answer."""
    with closing(connect(broker)) as client:
        client.sendall(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
        received = b""
        while count_of_answers(received) < len(frames):
            piece = client.recv(65536)
            if not piece:
                break
            received += piece
        return received


def count_of_answers(received: bytes) -> int:
    count = 0
    while len(received) >= 4 and len(received) >= (size := 4 + int.from_bytes(received[:4], "big")):
        received, count = received[size:], count + 1
    return count


def a_rule(kind: str, api: str, **parameters: Any) -> dict[str, Any]:
    return {"rules": [{"when": {"api": api}, "then": {"kind": kind, **parameters}}]}


def produce(broker: RunningBroker) -> ErrorCode:
    answer = decoded(PRODUCE, 9, exchange(broker, sample_frame(PRODUCE, 9)))
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def create_topic(broker: RunningBroker) -> None:
    exchange(broker, request_frame("metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=True))
    wait_until(lambda: produce(broker) is ErrorCode.none, "the topic", DEADLINE_S)


@pytest.fixture
def topic(broker: RunningBroker) -> None:
    create_topic(broker)


def test_an_error_and_its_history(broker: RunningBroker, faults: Faults, topic: None) -> None:
    faults.set("rules: [{when: {api: Produce, topic: t}, then: {kind: error, error: NOT_ENOUGH_REPLICAS}, times: 1}]")
    assert produce(broker) is ErrorCode.not_enough_replicas
    assert produce(broker) is ErrorCode.none
    (injected,) = faults.history()
    assert (injected["kind"], injected["api"], injected["topics"]) == ("error", "Produce", ["t"])
    assert "fault 1: error (rule 1) hits Produce v9 of t by client 'test'" in broker.log_text()


def test_times(broker: RunningBroker, faults: Faults) -> None:
    for kind in ("delay_before", "delay_after"):
        faults.set(a_rule(kind, "Metadata", ms=200))
        began = time.monotonic()
        assert count_of_answers(exchange(broker, sample_frame(METADATA, 12))) == 1
        assert time.monotonic() - began >= 0.2


def test_connections_that_end(broker: RunningBroker, faults: Faults, topic: None) -> None:
    for kind in ("drop_before", "drop_after"):
        faults.set(a_rule(kind, "Produce"))
        assert exchange(broker, sample_frame(PRODUCE, 9)) == b""
    faults.set(a_rule("cut_answer", "Metadata", percent=50))
    cut = exchange(broker, sample_frame(METADATA, 12))
    assert 0 < len(cut) < 4 + int.from_bytes(cut[:4], "big")


def test_connections_that_are_refused(broker: RunningBroker, faults: Faults) -> None:
    faults.set(a_rule("connection_limit", "Connect", most=1))
    with closing(connect(broker)) as first:
        first.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
        assert len(first.recv(4)) == 4
        with closing(connect(broker)) as second:
            assert is_closed(second)
    faults.set(a_rule("refuse_connection", "Connect"))
    with closing(connect(broker)) as refused:
        assert is_closed(refused)
    assert [each["kind"] for each in faults.history()] == ["refuse_connection"]


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_bytes(broker: RunningBroker, faults: Faults) -> None:
    metadata = sample_frame(METADATA, 12)
    faults.set(a_rule("wrong_correlation_id", "Metadata"))
    assert exchange(broker, metadata)[4:8] != b"\x00\x00\x00\x01"
    faults.set(a_rule("duplicate_answer", "Metadata"))
    twice = exchange(broker, metadata)
    assert count_of_answers(twice) >= 1
    faults.set(a_rule("slow_bytes", "Metadata", bytes_per_s=2000))
    assert count_of_answers(exchange(broker, metadata)) == 1
    faults.set(a_rule("swap_answers", "Metadata", wait_ms=60_000))
    # The first answer that comes is that of ApiVersions, which has its correlation id.
    versions = API_NAMES["ApiVersions"]
    second = bytearray(sample_frame(versions, 0))
    second[4:8] = (77).to_bytes(4, "big")
    assert exchange(broker, metadata, bytes(second))[4:8] == (77).to_bytes(4, "big")


def test_silence(broker: RunningBroker, faults: Faults) -> None:
    faults.set(a_rule("black_hole", "Metadata"))
    with closing(connect(broker)) as client:
        frame = sample_frame(METADATA, 12)
        client.sendall(len(frame).to_bytes(4, "big") + frame)
        wait_until(lambda: len(faults.history()) == 1, "the fault", DEADLINE_S)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)


def test_changed_answers(broker: RunningBroker, faults: Faults, topic: None) -> None:
    faults.set(a_rule("throttle", "Metadata", ms=900))
    answer = decoded(METADATA, 12, exchange(broker, sample_frame(METADATA, 12)))
    assert answer.throttle_time.total_seconds() == 0.9
    faults.set(a_rule("wrong_port", "Metadata", port=9))
    answer = decoded(METADATA, 12, exchange(broker, sample_frame(METADATA, 12)))
    assert [each.port for each in answer.brokers] == [9]


def test_a_disk_that_is_full_or_slow(broker: RunningBroker, faults: Faults, topic: None) -> None:
    faults.set(a_rule("disk_full", "Produce") | {"seed": 1})
    assert produce(broker) is not ErrorCode.none
    faults.clear()
    assert produce(broker) is ErrorCode.none
    faults.set(a_rule("slow_fsync", "Produce", ms=300))
    began = time.monotonic()
    assert produce(broker) is ErrorCode.none
    assert time.monotonic() - began >= 0.3


def test_a_log_that_starts_later(broker: RunningBroker, faults: Faults, topic: None) -> None:
    faults.set(a_rule("log_start_moves", "Fetch"))
    answer = decoded(FETCH, 11, exchange(broker, sample_frame(FETCH, 11)))
    assert answer.responses[0].partitions[0].error_code is ErrorCode.offset_out_of_range


def test_a_failing_fsync_stops_the_broker(tmp_path: Path) -> None:
    broker, faults = started(tmp_path, "--property", "log.flush.interval.messages=1")
    try:
        create_topic(broker)
        faults.set(a_rule("failing_fsync", "Produce"))
        exchange(broker, sample_frame(PRODUCE, 9))
        assert broker.process.wait(DEADLINE_S) == 1
        assert "Input/output error" in broker.log_text()
    finally:
        broker.kill()


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    properties = ("--property", "log.message.timestamp.type=LogAppendTime")
    script = tmp_path / "faults.yaml"
    script.write_text("rules: [{when: {api: Produce}, then: {kind: clock_jump, ms: -86400000}, times: 1}]")
    broker, _ = started(tmp_path, "--faults", str(script), *properties)
    try:
        times: list[int] = []
        producer = Producer({"log_level": 0, "bootstrap.servers": broker.address})
        producer.produce("t", b"x", on_delivery=lambda _, message: times.append(message.timestamp()[1]))
        assert producer.flush(DEADLINE_S) == 0
        assert times[0] < time.time() * 1000 - 80_000_000
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_a_login_that_fails(tmp_path: Path) -> None:
    user = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    config = tmp_path / "server.properties"
    config.write_text(
        "listeners=SASL_PLAINTEXT://127.0.0.1:0\nsasl.enabled.mechanisms=PLAIN\n"
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={user}\n"
    )
    broker = RunningBroker(tmp_path / "log", "--config", str(config), "--faults-listen", "127.0.0.1:0")
    try:
        found = re.search(r"faults at http://(\S+)/faults", broker.log_text())
        assert found is not None
        faults = Faults(found[1])
        faults.set(a_rule("sasl_failure", "SaslAuthenticate"))
        errors: list[str] = []
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
        producer = Producer(
            {"log_level": 0, "bootstrap.servers": broker.address, "error_cb": lambda error: errors.append(error.name())}
            | login
            | {"sasl.password": "secret"}
        )
        wait_until(lambda: bool(producer.poll(0.1)) or "_AUTHENTICATION" in errors, "the fault", DEADLINE_S)
        faults.clear()
        wait_until(lambda: bool(topics_of(producer)), "the fault", DEADLINE_S)
    finally:
        broker.kill()


def topics_of(producer: Producer) -> Any:
    try:
        return producer.list_topics(timeout=1).brokers
    except KafkaException:
        return None


def test_the_endpoint_refuses_what_is_no_script(faults: Faults) -> None:
    with pytest.raises(
        UsageError, match=re.escape("script:1: rules[0].when.api: there is no API Fetsch; did you mean")
    ):
        faults.set("rules: [{when: {api: Fetsch}, then: {kind: drop_after}}]")
    with pytest.raises(UsageError, match="not valid YAML"):
        faults.set("rules: [")
    faults.set(f"# {'x' * 100_000}\nrules: []")
    host, _, port = faults.address.rpartition(":")
    for length, status in ((b"1048577", b"413"), (b"-1", b"411"), (b"1\r\nContent-Length: 2", b"411")):
        with closing(socket.create_connection((host, int(port)), timeout=DEADLINE_S)) as client:
            client.sendall(b"PUT /faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n" % length)
            assert client.recv(65536).startswith(b"HTTP/1.1 " + status)
    request = urllib.request.Request(f"http://{faults.address}/faults", b"x", method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)  # noqa: S310 - http on loopback
    assert (refused.value.code, refused.value.headers["Allow"]) == (405, "GET, HEAD, PUT, DELETE")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--faults", "missing.yaml"), "missing.yaml: cannot read it: No such file or directory"),
        (("--faults-listen", "0.0.0.0:0"), "--faults-listen: 0.0.0.0 is not a loopback address"),
        (("--faults-listen", "all:7000:"), "--faults-listen: 'all:7000:' is not HOST:PORT"),
        (("--faults-from-network",), "--faults-from-network: say with --faults-listen where to listen"),
        (("--faults-listen", "127.0.0.1:0", "--processes", "2"), "faults are for a broker of one process"),
    ],
)
def test_wrong_use_is_one_line(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    command = [*COMMAND, "--log-dir", str(tmp_path / "log"), "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"error: {says}")
    assert len(done.stderr.splitlines()) == 1


def test_a_script_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "faults.yaml").write_text("seed: 1\nrules:\n  - then: {kind: dropp_after}\n")
    test_wrong_use_is_one_line(
        tmp_path,
        ("--faults", "faults.yaml"),
        "faults.yaml:3: rules[0].then.kind: there is no kind dropp_after; did you mean drop_after?",
    )


def test_an_address_of_the_network_must_be_wanted() -> None:
    assert read_address("0.0.0.0:7000", anywhere=True).port == 7000
    assert read_address("[::1]:7000", anywhere=False).host == "::1"
    with pytest.raises(UsageError, match="not a loopback address"):
        read_address("192.0.2.1:7000", anywhere=False)


def test_a_broker_without_the_options_has_no_faults(tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path / "log", "--port", "0")
    try:
        assert "fault" not in broker.log_text()
        assert broker.stop() == 0
    finally:
        broker.kill()
