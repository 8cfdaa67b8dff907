"""Consumers and movers that are killed lose nothing and do nothing twice, on our broker and on Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.running import running_broker
from tests.pipeline.kafka.brokers import bootstrap_of
from tests.pipeline.messaging.drill import LedgerError, run

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(600)]


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_kills(ordering: str, tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        outcome = run(broker.address, ordering, 8, tmp_path, seed=3)
    assert outcome.at_work >= 6
    assert outcome.dead > 0


def test_the_drill_notices_when_offsets_are_committed_apart(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker, pytest.raises(LedgerError, match="there twice"):
        run(broker.address, "none", 8, tmp_path, seed=3, in_two_steps=True)


@pytest.mark.compat
def test_kills_with_apache_kafka(tmp_path: Path) -> None:
    with bootstrap_of("4", tmp_path) as bootstrap:
        outcome = run(bootstrap, "key", 5, tmp_path, seed=4)
    assert outcome.at_work >= 3
