from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.running import RunningBroker, running_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    log_dir = tmp_path_factory.mktemp("broker") / "log"
    with running_broker(log_dir, properties=["group.initial.rebalance.delay.ms=0"]) as broker:
        yield broker
        assert broker.stop() == 0
        for word in ("Traceback", "ERROR", "CRITICAL"):
            assert word not in broker.log_text()
