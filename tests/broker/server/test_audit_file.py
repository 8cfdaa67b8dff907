"""The file of the audit log: rotated from outside, and no reason for a broker to fail."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.broker.security.audit import write_to_logger
from highwater.broker.server.audit_file import written
from highwater.broker.server.start_check import audit_file_of
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from tests.broker.running import running_broker


def config(path: Path) -> BrokerConfig:
    return BrokerConfig([Setting("test", "audit.log.file", str(path))])


def test_a_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    assert audit_file_of(BrokerConfig([])) is None
    with pytest.raises(ConfigError, match=r"audit\.log\.file=.*: there is no directory .*; make it"):
        audit_file_of(config(tmp_path / "none" / "audit.log"))
    with pytest.raises(ConfigError, match="is not a file"):
        audit_file_of(config(tmp_path))


def test_it_is_opened_anew_when_it_was_moved_and_lost_lines_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    path = folder / "audit.log"
    with written(path):
        write_to_logger("one")
        path.rename(tmp_path / "audit.log.1")
        write_to_logger("two")
        assert (tmp_path / "audit.log.1").read_text() == "one\n"
        assert path.read_text() == "two\n"
        assert path.stat().st_mode & 0o777 == 0o640
        shutil.rmtree(folder)
        write_to_logger("lost")
        write_to_logger("lost too")
        told = [record.getMessage() for record in caplog.records]
        assert told == [f"lines of the audit log are lost: {path}: No such file or directory"]
        folder.mkdir()
        write_to_logger("three")
        assert path.read_text() == "three\n"
        assert caplog.records[-1].getMessage() == f"the audit log is written again: {path}"
    assert logging.getLogger("highwater.audit").propagate


@pytest.mark.clients
def test_a_broker_writes_who_changed_what(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with running_broker(tmp_path / "log", properties=[f"audit.log.file={path}"]) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address, "client.id": "me"})
        admin.create_topics([NewTopic("t", 1)])["t"].result(30)
        with pytest.raises(KafkaException):
            admin.create_topics([NewTopic("t", 1)])["t"].result(30)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [(line["topic"], line["outcome"]) for line in lines] == [("t", "NONE"), ("t", "TOPIC_ALREADY_EXISTS")]
        assert (lines[0]["principal"], lines[0]["host"], lines[0]["client_id"]) == ("User:ANONYMOUS", "127.0.0.1", "me")
        assert "highwater.audit" not in broker.log_text()
        assert broker.stop() == 0
