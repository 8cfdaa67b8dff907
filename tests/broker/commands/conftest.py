from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.running import RunningBroker, running_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker") / "log") as broker:
        yield broker
        assert broker.stop() == 0
        for word in ("Traceback", "ERROR", "CRITICAL"):
            assert word not in broker.log_text()
