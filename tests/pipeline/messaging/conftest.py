"""A broker for the tests of messaging."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.running import RunningBroker, running_broker
from tests.pipeline.source.topics import Topics


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    log_dir = tmp_path_factory.mktemp("broker") / "log"
    quick = ("group.initial.rebalance.delay.ms=0", "auto.create.topics.enable=false")
    with running_broker(log_dir, properties=quick) as broker:
        yield broker


@pytest.fixture(scope="module")
def topics(broker: RunningBroker) -> Topics:
    return Topics(broker.address)
