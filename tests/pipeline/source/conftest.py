"""A broker for the tests of the source, and its topics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.running import running_broker
from tests.pipeline.source.topics import Topics

EAGER_CLEANER = ("log.cleaner.backoff.ms=0", "log.cleaner.min.cleanable.ratio=0.01")


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with running_broker(tmp_path_factory.mktemp("broker") / "log", properties=EAGER_CLEANER) as broker:
        yield Topics(broker.address)
