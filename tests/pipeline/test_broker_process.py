"""The broker of a trial and of a drill as a process: killed, started again, refused, gone with its thread."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from highwater.pipeline.broker_process import BrokerProcess
from highwater.pipeline.errors import ClientError
from tests.waiting import wait_until


def brokers_below(folder: Path) -> list[psutil.Process]:
    """Those that run; not one that has ended and nobody has waited for."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if str(folder / "broker") in child.cmdline():
                found.append(child)
    return found


def test_a_killed_broker_comes_back_at_its_address(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, ["group.initial.rebalance.delay.ms=0"])
    try:
        broker.start()
        address = broker.address
        (process,) = brokers_below(tmp_path)
        broker.kill()
        assert not process.is_running()
        broker.start()
        assert broker.address == address
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=60).close()
    finally:
        broker.stop()
    assert brokers_below(tmp_path) == []


def test_a_refused_setting_is_named_in_one_line(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, ["no.such.property=1"])
    with pytest.raises(ClientError, match=r"^a broker of Highwater does not start on this host: .*no\.such\.property"):
        broker.start()
    assert brokers_below(tmp_path) == []


def test_a_folder_of_the_current_directory_is_no_package_of_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('the wrong typer')")
    monkeypatch.chdir(tmp_path)
    broker = BrokerProcess(tmp_path)
    try:
        broker.start()
    finally:
        broker.stop()


def test_a_broker_ends_with_the_thread_that_has_started_it(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, ends_with_thread=True)
    try:
        thread = threading.Thread(target=broker.start)
        thread.start()
        thread.join()
        wait_until(lambda: not brokers_below(tmp_path), "the broker ends")
    finally:
        broker.stop()
