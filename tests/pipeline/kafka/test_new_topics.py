"""Topics that were created a moment ago, and that a broker does not know yet: sources and sinks wait for them."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka import client as client_module
from highwater.pipeline.kafka.arrow_columns import UnwritableError
from highwater.pipeline.sink.targets import partition_count
from highwater.pipeline.source.options import read_options
from highwater.pipeline.source.positions import Positions
from tests.pipeline.kafka.asking import client_of
from tests.pipeline.kafka.fake_broker import FakeBroker, cluster_of, fake_broker

UNKNOWN = ErrorCode.unknown_topic_or_partition


class Hearing:
    """A broker that hears of the topic `t` after some answers."""

    def __init__(self, refusals: int, error: ErrorCode = UNKNOWN) -> None:
        self.broker: FakeBroker
        self._refusals = refusals
        self._error = error

    def __call__(self, api: str, request: Any) -> Any:
        self._refusals -= 1
        if self._refusals >= 0:
            return cluster_of([self.broker.port], {}, error=self._error)
        return cluster_of([self.broker.port], {0: 0, 1: 0})


def positions(servers: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "subscribe": "t"}


@pytest.mark.parametrize("error", [UNKNOWN, ErrorCode.leader_not_available])
def test_a_sink_waits_for_a_topic(error: ErrorCode) -> None:
    hearing = Hearing(3, error)
    with fake_broker(hearing) as hearing.broker, client_of(hearing.broker.port) as client:
        assert partition_count(client, "t") == 2
        assert hearing.broker.asked.count("metadata") == 4


def test_a_source_waits_for_a_topic_at_its_start_alone() -> None:
    hearing = Hearing(3)
    with fake_broker(hearing) as hearing.broker, client_of(hearing.broker.port) as client:
        options = read_options(positions(f"127.0.0.1:{hearing.broker.port}"), is_stream=False)
        assert Positions(client, options).partitions(must_exist=False).next == {}
        assert hearing.broker.asked.count("metadata") == 1
        assert set(Positions(client, options).partitions(must_exist=True).next) == {("t", 0), ("t", 1)}


def test_a_topic_that_never_comes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_NEW_TOPIC_S", 0.3)
    hearing = Hearing(10**6)
    with fake_broker(hearing) as hearing.broker, client_of(hearing.broker.port) as client:
        with pytest.raises(UnwritableError, match=r"topic t: UNKNOWN_TOPIC_OR_PARTITION .*create it first"):
            partition_count(client, "t")
        options = read_options(positions(f"127.0.0.1:{hearing.broker.port}"), is_stream=False)
        with pytest.raises(SettingsError, match="topic t does not exist; create it first"):
            Positions(client, options).partitions(must_exist=True)


def test_what_cannot_pass_is_refused_at_once() -> None:
    hearing = Hearing(10**6, ErrorCode.topic_authorization_failed)
    with fake_broker(hearing) as hearing.broker, client_of(hearing.broker.port) as client:
        with pytest.raises(UnwritableError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
            partition_count(client, "t")
        assert hearing.broker.asked.count("metadata") == 1
