"""Consumers of Python that brokers do not let in: one line that says why, at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import ScramMechanism  # type: ignore[attr-defined]

from highwater.pipeline.consumer.consumer import Consumer
from highwater.pipeline.errors import ClientError
from highwater.pipeline.messaging.consumer import RetryingConsumer
from highwater.pipeline.messaging.spark import make_topics
from tests.broker.server.secured import PASSWORD, Secured, running_secured

pytestmark = pytest.mark.clients

LOGIN: Final = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "bob", "sasl.password": PASSWORD}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with running_secured(tmp_path_factory.mktemp("secured")) as found:
        found.set_password(ScramMechanism.SCRAM_SHA_512, "bob", PASSWORD.encode())
        yield found


def retrying_consumer(client: dict[str, Any], _: Path) -> None:
    RetryingConsumer(client["bootstrap.servers"], "orders", "billing", print, client=client)


def topics_of_a_sink(client: dict[str, Any], _: Path) -> None:
    make_topics(client, "orders", "billing")


def database_consumer(client: dict[str, Any], folder: Path) -> None:
    Consumer(client, ["orders"], f"sqlite:{folder / 'orders.db'}", name="totals").close()


@pytest.mark.parametrize("made", [retrying_consumer, topics_of_a_sink, database_consumer])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sasl.password": "wrong"}, "refuses the login"),
        ({"ssl.ca.location": None}, "ssl.ca.location must name the authority that signed its certificate"),
        ({"security.protocol": "PLAINTEXT"}, "set security.protocol=SASL_SSL"),
    ],
)
def test_what_is_not_let_in_says_why(
    secured: Secured, tmp_path: Path, made: Callable[[dict[str, Any], Path], None], wrong: dict[str, Any], says: str
) -> None:
    right = {**secured.conf("SASL_SSL"), **LOGIN, "socket.timeout.ms": 10_000}
    client = {name: value for name, value in (right | wrong).items() if value is not None}
    with pytest.raises(ClientError, match=re.escape(says)) as told:
        made(client, tmp_path)
    assert "\n" not in str(told.value)
    assert PASSWORD not in str(told.value)


def test_what_is_let_in(secured: Secured, tmp_path: Path) -> None:
    database_consumer({**secured.conf("SASL_SSL"), **LOGIN}, tmp_path)
