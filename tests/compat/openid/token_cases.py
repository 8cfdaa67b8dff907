"""Clients that others wrote log in to the broker with tokens that a server gave, which others wrote too."""

from __future__ import annotations

import json
import subprocess
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
from tests.compat.apache_kafka.tools import jars_3_9, jars_4
from tests.compat.openid.providers import PLAIN_SECRET, token_server

_DEADLINE_S: Final = 60


def taking_tokens(issuer: str) -> tuple[str, ...]:
    """Properties of a broker whose only listener takes tokens of this issuer."""
    return (
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


@contextmanager
def taking_broker() -> Iterator[tuple[RunningBroker, str]]:
    """A broker that takes tokens, with `loader` as its only user with rights, and where tokens come from."""
    with tempfile.TemporaryDirectory(prefix="tokens-") as directory:
        (port,) = free_ports(1)
        with (
            token_server(port, Path(directory) / "provider.log") as issuer,
            running_broker(Path(directory) / "log", properties=taking_tokens(issuer)) as broker,
        ):
            yield broker, f"{issuer}/token"


def librdkafka_properties(address: str, endpoint: str, client: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": client,
        "sasl.oauthbearer.client.secret": PLAIN_SECRET,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }


def librdkafka_gets_its_own_tokens() -> None:
    with taking_broker() as (broker, endpoint):
        conf = librdkafka_properties(broker.address, endpoint, "loader")
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
        stranger = AdminClient(librdkafka_properties(broker.address, endpoint, "stranger"))
        assert "t" not in stranger.list_topics(timeout=_DEADLINE_S).topics, "it has no ACL"


def kafkas_properties(endpoint: str, client: str) -> str:
    """As a file for Kafka's own clients."""
    package = "org.apache.kafka.common.security.oauthbearer"
    return (
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={endpoint}\n"
        f"sasl.login.callback.handler.class={package}.secured.OAuthBearerLoginCallbackHandler\n"
        f"sasl.jaas.config={package}.OAuthBearerLoginModule required "
        f'clientId="{client}" clientSecret="{PLAIN_SECRET}" scope="kafka";\n'
    )


def _java(jars: Path, endpoint: str, main_class: str, *arguments: str, stdin: str = "") -> str:
    """What a tool of Kafka's prints. Later versions ask only addresses that they were told to trust."""
    trusted = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint}"
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", trusted, "-cp", f"{jars}/*", main_class, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def apache_kafkas_clients_get_their_own_tokens() -> None:
    """Of 3.9, and of the newest that can be had."""
    with taking_broker() as (broker, endpoint), tempfile.TemporaryDirectory(prefix="tokens-") as directory:
        files = {client: Path(directory) / client for client in ("loader", "stranger")}
        for client, file in files.items():
            text = kafkas_properties(endpoint, client)
            file.write_text(text)
            # Kafka 4 has one class of the name, elsewhere.
            file.with_suffix(".4").write_text(text.replace(".secured.", "."))
        for jars, suffix in ((jars_3_9(), ""), (jars_4(), ".4")):
            topic = f"t{suffix}"
            files_of = {client: str(file.with_suffix(suffix)) for client, file in files.items()}
            asked = ("--bootstrap-server", broker.address, "--topic", topic)
            producer = "kafka.tools.ConsoleProducer" if not suffix else "org.apache.kafka.tools.ConsoleProducer"
            _java(jars, endpoint, producer, *asked, "--producer.config", files_of["loader"], stdin="1\n2\n")
            consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
            reading = (*asked, "--from-beginning", "--max-messages", "2", "--timeout-ms", "60000", "--consumer.config")
            told = _java(jars, endpoint, consumer, *reading, files_of["loader"])
            assert "1\n2\n" in told, told or f"{jars}: nothing is printed"
            told = _java(jars, endpoint, consumer, *reading, files_of["stranger"])
            assert "Processed a total of 0 messages" in told, told or f"{jars}: nothing is printed"


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
    with taking_broker() as (broker, endpoint):
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
