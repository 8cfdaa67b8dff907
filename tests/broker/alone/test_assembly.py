"""What a broker that runs alone is built of."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

from tests.broker.handlers.harness import NodeHarness

_IMPORTS = """
import importlib, sys
import highwater.broker.server.broker
from highwater.kafka.protocol.apis import APIS
for api in APIS.values():
    importlib.import_module(f"highwater.broker.handlers.{api.name}")
print(*sys.modules)
"""


def test_it_imports_nothing_of_a_cluster() -> None:
    """For its memory and the time of its start; every handler that it serves is loaded here."""
    done = subprocess.run([sys.executable, "-c", _IMPORTS], capture_output=True, text=True, timeout=60, check=True)
    imported = set(done.stdout.split())
    of_a_cluster = ("kazoo", "highwater.broker.controller", "highwater.broker.server.kazoo_client")
    assert "highwater.broker.alone.assembly" in imported
    assert [name for name in imported if name.startswith(of_a_cluster)] == []
    assert "highwater.broker.cluster.znodes" not in imported
    assert "highwater.broker.member.assembly" not in imported


def test_nothing_of_a_node_can_be_replaced(node: NodeHarness) -> None:
    with pytest.raises(FrozenInstanceError):
        node.node.member = None  # type: ignore[misc]
