"""OAUTHBEARER of a listener: its properties, its keys, and stock clients that log in with tokens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from joserfc import jwk, jwt

from highwater.broker.server.published_keys import PublishedKeys
from highwater.broker.server.sasl import sasl_of
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from highwater.kafka.client.fetching import FetchError
from tests.broker.running import running_broker
from tests.serving import Answer, http_server
from tests.waiting import wait_until

KEY: Final = jwk.ECKey.generate_key("P-256", {"kid": "one"})
NEXT_KEY: Final = jwk.ECKey.generate_key("P-256", {"kid": "two"})
DEADLINE_S: Final = 60
URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
HANDLER: Final = "listener.name.clients.oauthbearer.sasl.server.callback.handler.class"
JAAS: Final = "listener.name.clients.oauthbearer.sasl.jaas.config"
PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
UNSECURED: Final = PACKAGE + "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"


def key_set(*keys: jwk.ECKey) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


def token(user: str, lifetime_s: float = 300, key: jwk.ECKey = KEY) -> str:
    now_s = time.time()
    claims = {"sub": user, "aud": "brokers", "iss": "us", "iat": now_s, "exp": now_s + lifetime_s}
    return jwt.encode({"alg": "ES256", "kid": key.kid}, claims, key)


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(KEY))
    return path


# Settings


def sasl(*settings: str) -> Any:
    texts = ("sasl.enabled.mechanisms=OAUTHBEARER", *settings)
    return sasl_of(BrokerConfig([Setting("test", *text.split("=", 1)) for text in texts]), "CLIENTS", dict)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], f"OAUTHBEARER needs the keys that tokens are signed with: set {URL}"),
        ([f"{URL}=http://keys.example/"], "must be https"),
        ([f"{URL}=https://ada:secret@keys.example/"], "must not contain a user or a password"),
        ([f"{URL}=ftp://keys.example/"], "is not an https address"),
        ([f"{URL}=/etc/keys.json"], "is not an https address"),
        ([f"{URL}=file://elsewhere/keys.json"], "write a file as file:///PATH"),
        ([f"{URL}=file:///nowhere/keys.json"], "file:///nowhere/keys.json cannot be read: No such file or directory"),
        ([f"{URL}=file:///etc/hostname"], "is not a JSON Web Key Set"),
        ([f"{URL}=https://keys.example/", f"{HANDLER}=com.example.Mine"], "com.example.Mine cannot be loaded"),
        ([f"{URL}=https://keys.example/", f"{HANDLER}={UNSECURED}"], "takes tokens without a signature, and"),
        ([f"{URL}=https://keys.example/", f"{JAAS}=a.PlainLoginModule required;"], "is not OAuthBearerLoginModule"),
        (
            [f"{URL}=https://k.example/", f'{JAAS}=OAuthBearerLoginModule required ssl.truststore.location="/no/ca";'],
            "ssl.truststore.location=/no/ca: No such file",
        ),
        (
            [f"{URL}=https://k.example/", f'{JAAS}=OAuthBearerLoginModule required unsecuredValidatorScope="a";'],
            "unsecuredValidatorScope is not supported",
        ),
    ],
)
def test_settings_that_cannot_be_used(settings: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sasl(*settings)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_limits_of_a_login_are_those_of_the_settings(keys_file: Path) -> None:
    keys = f"{URL}=file://{keys_file}"
    assert (sasl(keys).failure_delay_ms, sasl(keys).max_token_bytes) == (100, 512 << 10)
    own = sasl(keys, "connection.failed.authentication.delay.ms=7", "sasl.server.max.receive.size=4096")
    assert (own.failure_delay_ms, own.max_token_bytes) == (7, 4096)


def first(bearer: str) -> bytes:
    return f"n,,\x01auth=Bearer {bearer}\x01\x01".encode()


def test_a_listener_has_its_own_rules(keys_file: Path) -> None:
    settings = sasl(
        f"{URL}=https://keys.example/",
        f"listener.name.clients.{URL}=file://{keys_file}",
        "listener.name.clients.sasl.oauthbearer.expected.audience=a,brokers",
        "listener.name.clients.sasl.oauthbearer.expected.issuer=us",
    )
    step = settings.mechanisms["OAUTHBEARER"]().step(first(token("ada")))
    assert step.user == "ada"
    assert 290_000 < step.lifetime_ms <= 300_001
    other = sasl(f"{URL}=file://{keys_file}", "sasl.oauthbearer.expected.issuer=others")
    assert other.mechanisms["OAUTHBEARER"]().step(first(token("ada"))).user is None


def test_tokens_without_a_signature_are_taken_by_the_name_of_kafkas_class_only(keys_file: Path) -> None:
    unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEiLCJleHAiOjQwMDAwMDAwMDB9."
    assert sasl(f"{HANDLER}={UNSECURED}").mechanisms["OAUTHBEARER"]().step(first(unsigned)).user == "ada"
    assert sasl(f"{URL}=file://{keys_file}").mechanisms["OAUTHBEARER"]().step(first(unsigned)).user is None


# Keys


class Source:
    """Keys to fetch, or a failure."""

    def __init__(self) -> None:
        self.document: bytes | None = key_set(KEY)
        self.times = 0

    def read(self) -> bytes:
        self.times += 1
        if self.document is None:
            raise FetchError("is away")
        return self.document


def test_keys_that_cannot_be_fetched_stay() -> None:
    source = Source()
    keys = PublishedKeys(source.read, "keys")
    keys.fetch()
    for document in (None, b"nonsense"):
        source.document = document
        with pytest.raises(FetchError):
            keys.fetch()
        assert [each["kid"] for each in keys.keys] == ["one"]


def test_keys_are_fetched_again_after_a_failure_and_from_time_to_time(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    source.document = None
    keys = PublishedKeys(source.read, "keys")
    keys.refresh_s, keys.retry_backoff_s, keys.retry_backoff_max_s = 0.05, 0.01, 0.02
    keys.begin()
    assert source.times >= 1
    wait_until(lambda: source.times > 3, "it is tried again", DEADLINE_S)
    assert "keys: it is away; trying again in 0.01 s" in caplog.text
    source.document = key_set(NEXT_KEY)
    wait_until(lambda: [each["kid"] for each in keys.keys] == ["two"], "keys", DEADLINE_S)
    source.document = key_set(KEY)
    wait_until(lambda: [each["kid"] for each in keys.keys] == ["one"], "new keys", DEADLINE_S)
    keys.refresh_s = 3600.0


def test_strangers_cannot_make_the_broker_ask_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    napped = threading.Event()

    def nap(seconds: float) -> None:
        naps.append(seconds)
        napped.wait()

    source = Source()
    keys = PublishedKeys(source.read, "keys")
    monkeypatch.setattr("highwater.broker.server.published_keys.time.sleep", nap)
    keys.begin()
    for _ in range(1000):
        keys.fetch_soon()
    while not naps:
        napped.wait(0.01)
    assert source.times == 1
    assert 5 < naps[0] <= 10
    napped.set()


@contextmanager
def published(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Iterator[str]:
    with http_server(lambda _: Answer(status, body, headers or {})) as port:
        yield f"http://127.0.0.1:{port}/keys?secret=1"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"no keys", "it is not a JSON Web Key Set"),
        (404, b"", "it answers with status 404"),
        (302, b"", "it answers with status 302"),
        (200, b" " * (2 << 20), "it answers more than 1 MiB"),
    ],
)
def test_an_endpoint_without_keys_is_no_reason_not_to_start(
    status: int, body: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with published(status, body, {"Location": "http://127.0.0.1/"}) as url:
        settings = sasl(f"{URL}={url}", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=3600000")
        for begin in settings.to_begin:
            begin()
    assert said in caplog.text
    assert "secret" not in caplog.text
    assert settings.mechanisms["OAUTHBEARER"]().step(first(token("ada"))).user is None


def test_an_endpoint_with_keys() -> None:
    with published(200, key_set(KEY)) as url:
        settings = sasl(f"{URL}={url}")
        for begin in settings.to_begin:
            begin()
    assert settings.mechanisms["OAUTHBEARER"]().step(first(token("ada"))).user == "ada"


# A broker, and a client that others wrote


def conf(port: str, bearer: str, lifetime_s: float = 300) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": lambda _: (bearer, time.time() + lifetime_s),
        "log.connection.close": False,
        "log_level": 0,
        "reconnect.backoff.max.ms": 100,
    }


@pytest.mark.slow
@pytest.mark.clients
def test_librdkafka_logs_in_under_the_acls_of_its_token(tmp_path: Path, keys_file: Path) -> None:
    properties = (
        "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"{URL}=file://{keys_file}",
        "sasl.oauthbearer.expected.audience=brokers",
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "super.users=User:ada",
        "connection.failed.authentication.delay.ms=1",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms=1000",
    )
    with running_broker(tmp_path / "log", properties=properties) as broker:
        port = str(broker.port)
        producer = Producer(conf(port, token("ada")))
        told: list[Any] = []
        producer.produce("t", b"1", on_delivery=lambda error, _: told.append(error))
        assert producer.flush(DEADLINE_S) == 0
        assert told == [None]
        consumer = Consumer(conf(port, token("ada")) | {"group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        found = consumer.consume(1, DEADLINE_S)
        consumer.close()
        assert [each.value() for each in found] == [b"1"]
        # Another user is let in, and may do nothing.
        other = AdminClient(conf(port, token("eve")))
        assert "t" not in other.list_topics(timeout=DEADLINE_S).topics
        # Nobody else is let in.
        for wrong in (token("ada", -60), token("ada", key=NEXT_KEY), token("ada")[:-6] + "AAAAAA"):
            with pytest.raises(KafkaException):
                AdminClient(conf(port, wrong)).list_topics(timeout=1)
        expired = AdminClient(conf(port, token("ada", -60)))

        def is_told() -> bool:
            with pytest.raises(KafkaException):
                expired.list_topics(timeout=1)
            return "the token has expired" in broker.log_text()

        wait_until(is_told, "the reason", DEADLINE_S)
        assert token("ada")[:60] not in broker.log_text()
        # The provider has a new key.
        keys_file.write_bytes(key_set(KEY, NEXT_KEY))
        admin = AdminClient(conf(port, token("ada", key=NEXT_KEY)))
        assert "t" in admin.list_topics(timeout=DEADLINE_S).topics
        assert broker.stop() == 0
