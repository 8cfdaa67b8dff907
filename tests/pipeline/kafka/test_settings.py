"""Kafka's client properties: what is understood, what is refused and how, and that no secret is shown."""

from __future__ import annotations

import pickle

import pytest

from highwater.kafka.client.security import Sasl, Tls
from highwater.kafka.login.token_request import TokenSettings
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.settings import Settings, options_of, settings_of

SECRET = "pass'word"  # noqa: S105
PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="{SECRET}";'
SCRAM = PLAIN.replace("plain.Plain", "scram.Scram")
SERVERS = {"bootstrap.servers": "a:9092"}


def test_the_least_that_is_needed() -> None:
    assert settings_of({"kafka.bootstrap.servers": " a:9092 , SSL://[::1]:9093"}) == Settings(
        (("a", 9092), ("::1", 9093))
    )


def test_everything() -> None:
    settings = settings_of(
        {
            "kafka.bootstrap.servers": "a:9092",
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": SCRAM,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca.txt",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": "chain",
            "ssl.keystore.key": "key",
            "ssl.key.password": SECRET,
            "ssl.endpoint.identification.algorithm": "",
            "request.timeout.ms": "1000",
            "default.api.timeout.ms": "2000",
            "socket.connection.setup.timeout.ms": "3000",
            "retry.backoff.ms": "10",
            "client.id": "me",
        }
    )
    assert settings == Settings(
        (("a", 9092),),
        "me",
        Tls("/ca.txt", "", "", "chain", "key", SECRET, checks_host_name=False),
        Sasl("SCRAM-SHA-512", "ann", SECRET),
        connect_timeout_s=3,
        request_timeout_s=1,
        api_timeout_s=2,
        retry_backoff_s=0.01,
    )
    assert SECRET not in repr(settings)
    assert "key_pem" not in repr(settings)
    copy = pickle.loads(pickle.dumps(settings))  # noqa: S301 - of our own making
    assert (copy, hash(copy)) == (settings, hash(settings))


FROM = "sasl.oauthbearer.token.endpoint.url"
BEARER = SERVERS | {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
LOGIN = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'clientId="me" clientSecret="{SECRET}" scope="kafka" extension_a="1";'
)


@pytest.mark.parametrize(
    "login",
    [
        {"sasl.jaas.config": LOGIN},
        {
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "a=1",
        },
        {
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "a=1",
        },
    ],
    ids=["of Kafka", "of librdkafka", "of Kafka 4.1"],
)
def test_where_tokens_come_from(login: dict[str, str]) -> None:
    given = {f"kafka.{name}": value for name, value in {**BEARER, FROM: "https://idp.example/token"}.items()}
    settings = settings_of(given | {f"kafka.{name}": value for name, value in login.items()})
    assert settings.sasl == TokenSettings("https://idp.example/token", "me", SECRET, "kafka", {"a": "1"})
    assert SECRET not in repr(settings)
    copy = pickle.loads(pickle.dumps(settings))  # noqa: S301 - of our own making
    assert (copy, hash(copy)) == (settings, hash(settings))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "bootstrap.servers is missing; write it as HOST:PORT, several with commas between"),
        ({"bootstrap.servers": "a"}, "bootstrap.servers: 'a' is not a broker; write it as HOST:PORT"),
        ({"bootstrap.servers": "a:99999"}, "bootstrap.servers: 'a:99999' is not a broker"),
        ({"bootstrap.server": "a:1"}, "kafka.bootstrap.server is unknown; did you mean bootstrap.servers?"),
        (
            SERVERS | {"security.protocol": "TLS"},
            "security.protocol=TLS is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL",
        ),
        (SERVERS | {"request.timeout.ms": "1s"}, "request.timeout.ms=1s is not a positive number of milliseconds"),
        (SERVERS | {"retry.backoff.ms": "0"}, "retry.backoff.ms=0 is not a positive number"),
        (SERVERS | {"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI is not supported; supported are PLAIN"),
        (
            SERVERS | {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"},
            "sasl.username is missing; SCRAM-SHA-256 needs it",
        ),
        (
            SERVERS | {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN[:-1]},
            "sasl.jaas.config is not understood: write PlainLoginModule or ScramLoginModule with its package",
        ),
        (BEARER, f"{FROM} is missing; OAUTHBEARER needs the https address of a token server, or file:///PATH"),
        (BEARER | {FROM: "http://idp.example/token"}, f"{FROM} must be https"),
        (BEARER | {FROM: "https://idp.example/token"}, "sasl.oauthbearer.client.id is missing"),
        (
            BEARER | {FROM: "https://idp.example/token", "sasl.jaas.config": LOGIN.replace("scope", SECRET)},
            "sasl.jaas.config: the options of OAuthBearerLoginModule are clientId, clientSecret, scope, ",
        ),
        (
            BEARER | {FROM: "https://idp.example/token", "sasl.login.callback.handler.class": "com.example.Mine"},
            "sasl.login.callback.handler.class=com.example.Mine is of Java: remove it",
        ),
        (
            SERVERS | {"sasl.oauthbearer.token.endpoint.uri": "x"},
            "kafka.sasl.oauthbearer.token.endpoint.uri is unknown",
        ),
        (
            SERVERS | {"security.protocol": "SSL", "ssl.truststore.location": "/etc/trust.jks"},
            "ssl.truststore.location=/etc/trust.jks is of type JKS, and only PEM is read: export it (keytool -export",
        ),
        (
            SERVERS | {"security.protocol": "SSL", "ssl.keystore.location": "k.p12", "ssl.keystore.type": "pkcs12"},
            "ssl.keystore.location=k.p12 is read as PKCS12 by librdkafka, and only PEM is read here: export it (op",
        ),
        (
            SERVERS | {"security.protocol": "SSL", "ssl.keystore.key": "x"},
            "ssl.key.pem needs ssl.certificate.pem",
        ),
        (
            SERVERS | {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "no"},
            "ssl.endpoint.identification.algorithm=no is neither https nor none",
        ),
    ],
)
def test_what_cannot_work(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_of(options)
    assert str(caught.value).startswith(message)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_properties_of_librdkafka_as_options() -> None:
    options = options_of(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": "me",
            "sasl.password": 'a"b\\c;=',
            "ssl.ca.location": "/etc/ca.crt",
            "ssl.certificate.location": "/me.pem",
        }
    )
    assert options["kafka.sasl.password"] == 'a"b\\c;='
    settings = settings_of(options)
    assert settings.sasl == Sasl("SCRAM-SHA-256", "me", 'a"b\\c;=')
    assert settings.tls == Tls("/etc/ca.crt", certificate_file="/me.pem")
    with pytest.raises(SettingsError, match=r"kafka\.linger\.ms is unknown"):
        options_of({"bootstrap.servers": "a:1", "linger.ms": "5"})
