"""`highwater broker check-config`: what a start would refuse by itself is told, and nothing is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.admin.calling import call

GOOD = "broker.id=1\nlog.dirs={directory}/log\nzookeeper.connect=127.0.0.1:1/highwater/main\n"


def test_a_configuration_that_can_be_used_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(GOOD.format(directory=tmp_path) + "num.network.threads=3\n")
    result = call("check-config", path)
    assert (result.exit_code, result.output) == (0, "")
    assert "num.network.threads has no effect" in result.errors
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("num.partitons=3", "did you mean num.partitions?"),
        ("zookeeper.connect=a:b:c", "write it as host:port"),
        ("listeners=SSL://127.0.0.1:0\nsecurity.inter.broker.protocol=SSL", "a listener with TLS needs a key"),
        ("security.inter.broker.protocol=SSL", "brokers could not reach each other"),
        ("metrics.listener=9404", "write it as HTTP://host:port"),
        ("broker.id=5000", "reserved.broker.max.id"),
        ("log.dirs=", "no log directory is named"),
    ],
)
def test_what_a_start_would_refuse(tmp_path: Path, line: str, expected: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"{GOOD.format(directory=tmp_path)}{line}\n")
    result = call("check-config", path)
    assert (result.exit_code, result.output) == (2, "")
    (said,) = (text for text in result.errors.splitlines() if not text.startswith("warning: "))
    assert said.startswith("error: ")
    assert expected in said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = call("check-config", tmp_path / "missing")
    assert result.exit_code == 2
    assert f"cannot read the configuration file {tmp_path}/missing" in result.errors
