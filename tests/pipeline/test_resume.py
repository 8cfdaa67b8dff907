"""`resumeFrom`: a group's marker on a real broker, sources of one query together, and texts that name nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from highwater.pipeline import resume
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import Producer
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.kafka.settings import settings_of
from highwater.pipeline.progress.batch import Progress, ProgressError
from highwater.pipeline.progress.marker import to_marker
from highwater.pipeline.resume import merged, resume_offsets, shown
from tests.broker.running import running_broker
from tests.pipeline.source.topics import Topics

ENDS = Offsets({("orders", 0): 12, ("orders", 1): 0}, {"orders": "8ba709b0-0c67-4d32-9980-57ea444b9619"})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running_broker(tmp_path_factory.mktemp("broker") / "log") as broker:
        Topics(broker.address).create("results")
        with Client(settings_of({"kafka.bootstrap.servers": broker.address})) as client:
            yield client


def test_the_marker_of_a_group(client: Client) -> None:
    progress = Progress("query", 3, (Offsets({}), ENDS), "results")
    assert client.commit_offsets("sink", to_marker(progress, "results", 1)) == {}
    assert resume_offsets("group:sink", client) == ENDS


def test_a_driver_that_died_in_a_transaction_does_not_hold_up_the_next_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "_DECIDED_MS", 200, raising=False)
    monkeypatch.setattr(client, "settings", replace(client.settings, api_timeout_s=3))
    written = Progress("query", 3, (ENDS,), "results")
    assert client.commit_offsets("died", to_marker(written, "results", 1)) == {}
    producer = client.init_producer_id("died", 60_000)
    assert isinstance(producer, Producer)
    assert client.add_offsets_to_transaction("died", producer, "died") is None
    unfinished = Progress("query", 4, (Offsets({("orders", 0): 99}),), "results")
    marker = to_marker(unfinished, "results", 1)
    assert client.commit_offsets_in_transaction("died", producer, "died", marker) == {}
    assert resume_offsets("group:died", client) == ENDS


def test_a_group_without_a_marker(client: Client) -> None:
    with pytest.raises(ProgressError, match="resumeFrom=group:none: nothing is stored there"):
        resume_offsets("group:none", client)


@pytest.mark.parametrize("text", ["group:", "group", "", "gruop:sink", "earliest", "sqlite:progress.db"])
def test_texts_that_name_nothing(client: Client, text: str) -> None:
    with pytest.raises(SettingsError, match="resumeFrom: write group:NAME, parquet:FOLDER, delta:PATH#NAME, iceberg:"):
        resume_offsets(text, client)


def test_the_sources_of_a_query_are_put_together() -> None:
    payments = Offsets({("payments", 0): 5}, {"payments": "id"})
    assert merged([ENDS, payments, ENDS]) == Offsets({**ENDS.next, ("payments", 0): 5}, {**ENDS.ids, "payments": "id"})


def test_two_sources_that_read_the_same_partition_differently() -> None:
    with pytest.raises(ProgressError, match="two sources of the stored query read orders-0, up to 12 and 13"):
        merged([ENDS, Offsets({("orders", 0): 13})])


def test_a_query_without_topics() -> None:
    with pytest.raises(ProgressError, match="read no topic"):
        merged([Offsets({})])


def test_messages_have_no_password() -> None:
    assert shown("mysql://u:s%2Fcret@h/d#sink") == "mysql://u@h/d#sink"
    assert shown("group:sink") == "group:sink"
    assert shown("parquet:/tmp/out") == "parquet:/tmp/out"
    assert shown("delta:/tmp/out#sink") == "delta:/tmp/out#sink"
    assert shown("iceberg:shop.orders?uri=postgresql://u:s3cret@h/d#sink") == "iceberg:shop.orders#sink"
