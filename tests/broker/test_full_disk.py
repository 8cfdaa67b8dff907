"""A full disk: producers are told, nothing acknowledged is lost, and the broker goes on when there is space again.

The log directory is a small file system in a mount namespace of the broker's own, which goes when the broker does.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tests.broker.running import COMMAND, RunningBroker
from tests.broker.test_log_life import consume_all, create, watermarks
from tests.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

DEADLINE_S = 60.0
# Root mounts by itself; others do within a user namespace of their own.
AS_ROOT = os.geteuid() == 0
NEW_NAMESPACES = ("unshare", "--mount", "--propagation", "private", *(() if AS_ROOT else ("--map-root-user",)))
THEIR_NAMESPACES = ("--mount",) if AS_ROOT else ("--user", "--mount", "--preserve-credentials")


@pytest.fixture(autouse=True)
def _may_mount() -> None:
    tried = subprocess.run(
        [*NEW_NAMESPACES, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no file system can be mounted in a namespace here: {tried.stderr.strip()}")


def start_on_small_disk(log_dir: Path, *options: str) -> RunningBroker:
    script = 'mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"'
    inside = (*NEW_NAMESPACES, "sh", "-c", script, str(log_dir))
    log_dir.mkdir()
    return RunningBroker(log_dir, "--port", "0", *options, command=(*inside, *COMMAND))


def in_broker(broker: RunningBroker, *command: str) -> None:
    enter = ("nsenter", "--target", str(broker.process.pid), *THEIR_NAMESPACES)
    subprocess.run([*enter, *command], check=True, timeout=DEADLINE_S)


def fill(broker: RunningBroker) -> None:
    """Write a little more than its file system takes."""
    in_broker(broker, "sh", "-c", f"head -c 9M /dev/zero > {broker.log_dir}/filler 2>/dev/null || true")


def send(broker: RunningBroker, first: int, count: int) -> tuple[set[bytes], list[KafkaError]]:
    """Values that were acknowledged, and what was said of the others."""
    acknowledged: set[bytes] = set()
    errors: list[KafkaError] = []
    producer = Producer(
        {"log_level": 0, "bootstrap.servers": broker.address, "acks": "all", "retries": 0, "batch.num.messages": 10}
    )
    for i in range(first, first + count):
        value = b"%d " % i + b"x" * 2000

        def note(error: KafkaError | None, _: object, value: bytes = value) -> None:
            if error is None:
                acknowledged.add(value)
            else:
                errors.append(error)

        producer.produce("t", value, partition=0, on_delivery=note)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    return acknowledged, errors


def test_a_full_disk_is_told_and_outlived(tmp_path: Path) -> None:
    often = "replica.high.watermark.checkpoint.interval.ms=250"
    broker = start_on_small_disk(tmp_path / "log", "--property", often)
    try:
        create(broker, "t", segment_bytes="1000000")
        acknowledged, errors = send(broker, 0, 200)
        assert errors == []
        fill(broker)
        later, errors = send(broker, 200, 1500)
        acknowledged |= later
        assert errors
        assert {error.code() for error in errors} <= {KafkaError.KAFKA_STORAGE_ERROR}
        assert "No space left on device" in broker.log_text()
        assert {value for _, _, value in consume_all(broker, "t")} == acknowledged
        wait_until(lambda: "cannot write the checkpoints" in broker.log_text(), "the full disk is told", DEADLINE_S)
        in_broker(broker, "rm", f"{tmp_path}/log/filler")
        later, errors = send(broker, 2000, 300)
        assert errors == []
        assert len(later) == 300
        acknowledged |= later
        assert {value for _, _, value in consume_all(broker, "t")} == acknowledged
        assert watermarks(broker, "t") == (0, len(acknowledged))
        assert broker.process.poll() is None
    finally:
        broker.kill()


def test_a_stop_on_a_full_disk_says_so_and_loses_nothing(tmp_path: Path) -> None:
    broker = start_on_small_disk(tmp_path / "log")
    try:
        create(broker, "t", segment_bytes="1000000")
        acknowledged, errors = send(broker, 0, 50)
        assert errors == []
        fill(broker)
        later, errors = send(broker, 100, 1500)
        assert errors
        assert {value for _, _, value in consume_all(broker, "t")} == acknowledged | later
        assert broker.stop() == 1
        assert "cannot flush the logs to the disk" in broker.log_text()
        assert "Traceback" not in broker.log_text()
        assert broker.log_text().count("cannot append to t-0") <= 3
    finally:
        broker.kill()
