from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.handlers.harness import NodeHarness


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., NodeHarness]]:
    made: list[NodeHarness] = []

    def make(**properties: str) -> NodeHarness:
        made.append(NodeHarness(tmp_path / f"log{len(made)}", **properties))
        return made[-1]

    yield make
    for node in made:
        node.close(clean=False)


@pytest.fixture
def node(make_node: Callable[..., NodeHarness]) -> NodeHarness:
    return make_node()
