"""librdkafka's properties as settings: what is taken, what is refused, and no secret in any text."""

from __future__ import annotations

import pickle

import pytest

from highwater.kafka.client.errors import ClientError, ClientSettingsError
from highwater.kafka.client.security import Sasl, Tls
from highwater.kafka.client.settings import ClientSettings, settings_of
from highwater.kafka.login.token_request import TokenSettings

SECRET = "geheim"  # noqa: S105
URL = "sasl.oauthbearer.token.endpoint.url"
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    URL: "https://idp.example/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": SECRET,
}


def test_every_property() -> None:
    settings = settings_of(
        {
            "bootstrap.servers": "one:9092, SASL_SSL://[::1]:9093",
            "client.id": "me",
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": "ca.pem",
            "ssl.certificate.location": "me.pem",
            "ssl.key.location": "me.key",
            "ssl.key.password": SECRET,
            "ssl.endpoint.identification.algorithm": "none",
            "enable.ssl.certificate.verification": "false",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "ann",
            "sasl.password": SECRET,
            "socket.timeout.ms": "1500",
            "socket.connection.setup.timeout.ms": "2500",
            "linger.ms": "5",
            "log_level": "0",
        }
    )
    assert settings == ClientSettings(
        (("one", 9092), ("::1", 9093)),
        "me",
        Tls("ca.pem", "", "me.pem", key_password=SECRET, checks_host_name=False, key_file="me.key", verifies=False),
        Sasl("SCRAM-SHA-512", "ann", SECRET),
        2.5,
        1.5,
    )
    assert SECRET not in repr(settings)


def test_what_is_not_needed_is_not_read() -> None:
    assert settings_of({"metadata.broker.list": "a:1", "ssl.ca.location": "ca.pem", "sasl.username": "ann"}) == (
        ClientSettings((("a", 1),))
    )


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"ssl.ca.lokation": "x"}, "property ssl.ca.lokation is not one that this client knows; did you mean ssl.ca.l"),
        ({"securty.protocol": "SSL"}, "did you mean security.protocol?"),
        ({"sasl.jaas.config": SECRET}, "property sasl.jaas.config is not one that this client knows"),
        ({"ssl.keystore.location": "x"}, "ssl.keystore.location=x is read as PKCS12 by librdkafka"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"bootstrap.servers": "a"}, "bootstrap.servers: 'a' is not a broker; write it as HOST:PORT"),
        ({"bootstrap.servers": " ,"}, "bootstrap.servers is missing"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI is not supported; supported are PLAIN, SCRAM-SHA-"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.password": SECRET},
            "sasl.username is missing; PLAIN needs it",
        ),
        ({"security.protocol": "SSL", "ssl.key.pem": SECRET}, "ssl.key.pem needs ssl.certificate.pem"),
        ({"security.protocol": "SSL", "ssl.certificate.pem": "x"}, "ssl.certificate.pem needs ssl.key.pem"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "http"},
            "ssl.endpoint.identification.algorithm=http is neither https nor none",
        ),
        (
            {"security.protocol": "SSL", "enable.ssl.certificate.verification": "no"},
            "enable.ssl.certificate.verification=no is neither true nor false",
        ),
        ({"socket.timeout.ms": "0"}, "socket.timeout.ms=0 is not a positive number of milliseconds"),
        (TOKENS | {URL: ""}, f"{URL} is missing; OAUTHBEARER needs the https address of a token server, or file:///"),
        (TOKENS | {URL: "http://idp.example/token"}, f"{URL} must be https"),
        (TOKENS | {URL: f"https://me:{SECRET}@idp.example/token"}, f"{URL} must not contain a user or a password"),
        (TOKENS | {URL: "file://elsewhere/token"}, f"{URL} cannot be read: write a file as file:///PATH"),
        (TOKENS | {"sasl.oauthbearer.client.id": ""}, "sasl.oauthbearer.client.id is missing"),
        (TOKENS | {"sasl.oauthbearer.client.secret": ""}, "sasl.oauthbearer.client.secret is missing"),
        (TOKENS | {"sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method=default is not supported"),
        (TOKENS | {"sasl.oauthbearer.extensions": "auth=x"}, "sasl.oauthbearer.extensions: write NAME=VALUE"),
        (TOKENS | {"sasl.oauthbearer.extensions": "a=1,b=\x01"}, "sasl.oauthbearer.extensions: write NAME=VALUE"),
    ],
)
def test_what_cannot_work(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ClientSettingsError) as caught:
        settings_of({"bootstrap.servers": "a:1"} | properties)
    assert text in str(caught.value)
    assert SECRET not in str(caught.value)


def test_where_tokens_come_from() -> None:
    given = TOKENS | {"sasl.oauthbearer.scope": "kafka", "sasl.oauthbearer.extensions": "a=1,b=c d"}
    settings = settings_of({"bootstrap.servers": "a:1", **given, "https.ca.location": "/ca.pem"})
    assert settings.sasl == TokenSettings(
        "https://idp.example/token", "me", SECRET, "kafka", {"a": "1", "b": "c d"}, "/ca.pem"
    )
    assert SECRET not in repr(settings)
    assert settings_of(
        {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", **settings.sasl.client_properties}
    ) == (settings)
    of_a_file = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", URL: "file:///run/token"}
    assert settings_of({"bootstrap.servers": "a:1", **of_a_file}).sasl == TokenSettings("file:///run/token")


def test_errors_can_be_sent_to_other_processes() -> None:
    error = ClientError("broker a:1 is away", broker="a:1", api="Metadata", is_refusal=True)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(again), again.broker, again.api, again.is_refusal) == ("broker a:1 is away", "a:1", "Metadata", True)
