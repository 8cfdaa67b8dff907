"""Free ports: nobody listens there, and the kernel gives them to nobody else."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from highwater.common import ports
from highwater.common.ports import free_ports


def test_the_kernel_gives_them_to_nobody_else() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split())
    found = free_ports(50)
    assert len(set(found)) == 50
    assert [port for port in found if first <= port <= last] == []


def test_a_port_that_is_taken_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "_quiet_ports", lambda: [port + 1, port])
        assert port not in free_ports(1)


@pytest.mark.parametrize("text", ["", "1024 65535\n"])
def test_where_the_kernel_may_give_every_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    kernel = tmp_path / "range"
    kernel.write_text(text)
    monkeypatch.setattr(ports, "_EPHEMERAL", kernel)
    assert len(set(free_ports(3))) == 3


def test_an_address_that_this_host_has_not_is_an_error() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        free_ports(1, "192.0.2.1")
