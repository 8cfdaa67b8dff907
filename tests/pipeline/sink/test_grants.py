"""Permission to write: once for each task, and for nobody without the token."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from highwater.pipeline.errors import ClientError, SettingsError
from highwater.pipeline.sink import grants as grants_module
from highwater.pipeline.sink.errors import SinkError, TaskLostError, of_job
from highwater.pipeline.sink.grants import CHOICE, Grants

DEADLINE_S = 2.0


def test_each_task_may_write_once() -> None:
    with Grants("127.0.0.1", "127.0.0.1") as grants:
        assert [grants.address.ask(task) for task in (0, 1, 0, 2, 1)] == [True, True, False, True, False]
    with Grants("127.0.0.1", "127.0.0.1") as grants:
        assert grants.address.ask(0)


def test_of_many_attempts_one_may_write() -> None:
    with Grants("127.0.0.1", "127.0.0.1") as grants, ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(grants.address.ask, [7] * 32)) == 1


def test_nothing_is_computed_again_once_a_task_writes() -> None:
    with Grants("127.0.0.1", "127.0.0.1") as grants:
        assert all(grants.address.ask(CHOICE) for _ in range(3))
        assert grants.address.ask(0)
        assert not grants.address.ask(CHOICE)


def test_a_task_that_was_turned_away_is_lost_and_not_refused() -> None:
    lost = of_job(RuntimeError("x\nhighwater.pipeline.sink.errors.TaskLostError: rows were computed\n\tat"))
    assert isinstance(lost, TaskLostError)
    assert str(lost) == "rows were computed"
    refused = of_job(RuntimeError("x\nhighwater.pipeline.kafka.arrow_columns.UnwritableError: no topic\n\tat"))
    assert isinstance(refused, SinkError)
    assert not isinstance(refused, TaskLostError)


def test_a_stranger_takes_no_permission() -> None:
    with Grants("127.0.0.1", "127.0.0.1") as grants:
        assert not grants.address._replace(token=bytes(16)).ask(0)
        with socket.create_connection((grants.address.host, grants.address.port)) as silent:
            silent.sendall(b"x")
        assert grants.address.ask(0)


def test_a_silent_stranger_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants_module, "TIMEOUT_S", DEADLINE_S)
    with Grants("127.0.0.1", "127.0.0.1") as grants, socket.create_connection(grants.address[:2]), ExitStack() as open_:
        for _ in range(3):
            open_.enter_context(socket.create_connection(grants.address[:2])).sendall(b"x")
        # Each of them would otherwise have the driver's ear for the whole time.
        assert grants.address.ask(0)


def test_a_crowd_of_silent_strangers_takes_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants_module, "MOST_QUESTIONS", 4)
    with Grants("127.0.0.1", "127.0.0.1") as grants, ExitStack() as open_:
        crowd = [open_.enter_context(socket.create_connection(grants.address[:2], DEADLINE_S)) for _ in range(20)]
        assert grants.address.ask(0)
        assert crowd[0].recv(1) == b""
        assert not grants.address.ask(0)


def test_a_driver_that_is_gone() -> None:
    with Grants("127.0.0.1", "127.0.0.1") as grants:
        address = grants.address
    with pytest.raises(ClientError, match=rf"^a task cannot ask the driver at 127.0.0.1:{address.port} whether it may"):
        address.ask(0)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this host has no IPv6")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_a_driver_at_an_address_of_ipv6(host: str) -> None:
    with Grants(host, host) as grants:
        assert grants.address.ask(0)


def test_an_address_that_is_not_of_this_host() -> None:
    with pytest.raises(SettingsError, match=r"^the driver cannot listen at 192\.0\.2\.1 for its tasks: .*bindAddress"):
        Grants("192.0.2.1", "127.0.0.1")


def test_the_token_is_not_shown() -> None:
    with Grants("127.0.0.1", "127.0.0.1") as grants:
        shown = repr(grants.address)
        assert shown == f"GrantAddress(127.0.0.1:{grants.address.port})"
        assert repr(grants.address.token) not in repr({"of a task": grants.address})
