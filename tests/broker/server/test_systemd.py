"""What a broker tells the service manager that started it, over a socket as systemd's."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.broker.server import systemd
from tests.broker.running import running_broker

DEADLINE_S = 60.0


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(DEADLINE_S)
        listening.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


def heard(manager: socket.socket) -> dict[str, str]:
    return dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())


def test_a_broker_says_when_it_is_ready_and_when_it_stops(manager: socket.socket, tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        ready = heard(manager)
        assert ready["READY"] == "1"
        assert broker.address in ready["STATUS"]
        assert broker.stop() == 0
        assert heard(manager) == {"STOPPING": "1"}


def test_more_time_is_asked_for_in_microseconds(manager: socket.socket) -> None:
    systemd.notify(systemd.more_time(60), systemd.status("loading logs"))
    assert heard(manager) == {"EXTEND_TIMEOUT_USEC": "60000000", "STATUS": "loading logs"}


def test_an_abstract_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(DEADLINE_S)
        listening.bind("")  # the kernel chooses one
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + listening.getsockname()[1:].decode())
        systemd.notify(systemd.READY)
        assert heard(listening) == {"READY": "1"}


@pytest.mark.parametrize("address", ["", "/nowhere/notify"])
def test_nobody_to_tell_is_no_failure(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    systemd.notify(systemd.READY)
