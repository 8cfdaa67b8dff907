"""Clients that others wrote log in to the broker with tokens that a server gave, which others wrote too."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from highwater.common.ports import free_ports
from tests.broker.running import RunningBroker, running_broker
from tests.compat.openid.providers import PLAIN_SECRET, token_server

_DEADLINE_S: Final = 60


@contextmanager
def _cluster() -> Iterator[tuple[RunningBroker, str]]:
    """A broker that takes tokens, with `loader` as its only user with rights, and where tokens come from."""
    with tempfile.TemporaryDirectory(prefix="tokens-") as directory:
        (port,) = free_ports(1)
        with token_server(port, Path(directory) / "provider.log") as issuer:
            properties = (
                "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms=OAUTHBEARER",
                f"sasl.oauthbearer.jwks.endpoint.url={issuer}/jwks",
                "sasl.oauthbearer.expected.audience=brokers",
                f"sasl.oauthbearer.expected.issuer={issuer}",
                "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
                "super.users=User:loader",
                "group.initial.rebalance.delay.ms=0",
                "offsets.topic.num.partitions=1",
            )
            with running_broker(Path(directory) / "log", properties=properties) as broker:
                yield broker, f"{issuer}/token"


def _librdkafka(broker: RunningBroker, endpoint: str, client: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": client,
        "sasl.oauthbearer.client.secret": PLAIN_SECRET,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }


def librdkafka_gets_its_own_tokens() -> None:
    with _cluster() as (broker, endpoint):
        conf = _librdkafka(broker, endpoint, "loader")
        producer = Producer(conf)
        told: list[Any] = []
        producer.produce("t", b"1", on_delivery=lambda error, _: told.append(error))
        assert producer.flush(_DEADLINE_S) == 0
        assert told == [None], told
        consumer = Consumer(conf | {"group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        found = [each.value() for each in consumer.consume(1, _DEADLINE_S)]
        consumer.close()
        assert found == [b"1"], found
        stranger = AdminClient(_librdkafka(broker, endpoint, "stranger"))
        assert "t" not in stranger.list_topics(timeout=_DEADLINE_S).topics, "it has no ACL"


class _Tokens(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def token(self) -> str:
        login = b64encode(f"loader:{PLAIN_SECRET}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 - a server of this case
            self._endpoint,
            b"grant_type=client_credentials&scope=kafka",
            {"Authorization": f"Basic {login}"},
        )
        with urllib.request.urlopen(request, timeout=_DEADLINE_S) as answer:  # noqa: S310
            return str(json.load(answer)["access_token"])


def kafka_python_brings_tokens() -> None:
    with _cluster() as (broker, endpoint):
        conf = {
            "bootstrap_servers": broker.address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": _Tokens(endpoint),
        }
        producer = KafkaProducer(**conf)
        producer.send("t", b"1").get(_DEADLINE_S)
        producer.close()
        consumer = KafkaConsumer("t", auto_offset_reset="earliest", group_id="g", **conf)
        found = next(iter(consumer)).value
        consumer.close()
        assert found == b"1", found
