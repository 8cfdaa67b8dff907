"""Committed offsets in histories that a coordinator once did not survive."""

from __future__ import annotations

import pytest

from tests.broker.simulation.history import History


@pytest.mark.parametrize("seed", [12, 18])
def test_offsets_are_read_back_before_the_cluster_is_known(seed: int) -> None:
    """LeaderAndIsr makes a broker the coordinator before UpdateMetadata has told it of the topic."""
    verdict = History(seed).run()
    assert verdict.failure is None, "\n".join(verdict.history[-40:])
