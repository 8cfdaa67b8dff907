"""A running broker whose disks fail to sync one by one: its partitions go with each, the broker with the last.

The disks are folders; a module that Python loads at the start makes syncs below them fail while a marker is there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tests.broker.running import RunningBroker, start_broker
from tests.broker.test_stopping import create_topic, read_all
from tests.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

DEADLINE_S = 60.0
PROPERTIES = ("log.flush.interval.messages=1",)
FAILING_SYNCS = """
import errno, os
from pathlib import Path

fdatasync = os.fdatasync

def failing(descriptor):
    path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    if any((parent / "broken").exists() for parent in path.parents):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    fdatasync(descriptor)

os.fdatasync = failing
"""


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    (tmp_path / "injected").mkdir()
    (tmp_path / "injected" / "sitecustomize.py").write_text(FAILING_SYNCS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "injected"), os.environ.get("PYTHONPATH", "")]))
    for name in "ab":
        (tmp_path / name).mkdir()
    return tmp_path / "a", tmp_path / "b"


def start(disks: tuple[Path, Path]) -> RunningBroker:
    return RunningBroker(disks[0], "--port", "0", "--property", PROPERTIES[0], more_log_dirs=[disks[1]])


def send(broker: RunningBroker, value: str, partition: int) -> int | None:
    """The error of the delivery."""
    errors: list[KafkaError | None] = []
    producer = Producer(
        {"log_level": 0, "bootstrap.servers": broker.address, "acks": "all", "retries": 0, "message.timeout.ms": 30_000}
    )
    producer.produce("t", value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    (error,) = errors
    return None if error is None else error.code()


def test_disks_fail_one_by_one(disks: tuple[Path, Path]) -> None:
    broker = start(disks)
    try:
        create_topic(broker, "t")
        for partition in range(3):
            assert send(broker, "before", partition) is None
        on_b = next(partition for partition in range(3) if (disks[1] / f"t-{partition}").exists())
        on_a = next(partition for partition in range(3) if (disks[0] / f"t-{partition}").exists())

        (disks[1] / "broken").touch()
        assert send(broker, "lost with its disk", on_b) is not None
        assert send(broker, "after", on_a) is None
        said = f"the log directory {disks[1]} failed: [Errno 5] Input/output error"
        wait_until(lambda: said in broker.log_text(), said)

        (disks[0] / "broken").touch()
        assert send(broker, "lost with the last disk", on_a) is not None
        assert broker.process.wait(DEADLINE_S) == 1
        assert "Traceback" not in broker.log_text()
    finally:
        broker.kill()
    for disk in disks:
        (disk / "broken").unlink()
        assert not (disk / ".kafka_cleanshutdown").exists()
    broker = start(disks)
    try:
        found = {partition: [value for _, value in records] for partition, records in read_all(broker, "t").items()}
        assert found[on_a][:2] == [b"before", b"after"]
        assert found[on_b][0] == b"before"
        assert send(broker, "again", on_b) is None
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_the_only_disk_fails(disks: tuple[Path, Path]) -> None:
    broker = start_broker(disks[0], properties=PROPERTIES)
    try:
        create_topic(broker, "t")
        assert send(broker, "kept", 0) is None
        (disks[0] / "broken").touch()
        assert send(broker, "perhaps", 0) is not None
        assert broker.process.wait(DEADLINE_S) == 1
        assert f"the log directory {disks[0]} failed" in broker.log_text()
        assert "Traceback" not in broker.log_text()
    finally:
        broker.kill()
    (disks[0] / "broken").unlink()
    broker = start_broker(disks[0], properties=PROPERTIES)
    try:
        assert read_all(broker, "t")[0][0] == (0, b"kept")
    finally:
        broker.kill()
