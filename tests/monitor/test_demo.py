"""The demo: what cannot work is said before its cluster starts."""

from __future__ import annotations

import socket

import pytest

from highwater.common.errors import UsageError
from highwater.monitor import demo


def test_a_taken_port_is_told_before_the_cluster_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_cluster", lambda *_: pytest.fail("the cluster was started"))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="--listen"):
        demo.run(1, f"127.0.0.1:{taken.getsockname()[1]}", opens_browser=False)
