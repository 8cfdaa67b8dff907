"""Client properties of librdkafka as options of the source: accepted by the source itself, secrets included."""

from __future__ import annotations

import pytest

from highwater.kafka.client.security import Sasl
from highwater.kafka.login.token_request import TokenSettings
from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.reaching import source_options
from highwater.pipeline.kafka.settings import settings_of


def test_a_plain_cluster() -> None:
    assert source_options({"bootstrap.servers": "a:1"}) == {"kafka.bootstrap.servers": "a:1"}


def test_a_login_with_every_character_over_tls() -> None:
    settings = settings_of(
        source_options(
            {
                "bootstrap.servers": "a:1",
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "SCRAM-SHA-256",
                "sasl.username": "me",
                "sasl.password": 'a"b\\c;=',
                "ssl.ca.location": "/etc/ca.crt",
            }
        )
    )
    assert settings.sasl == Sasl("SCRAM-SHA-256", "me", 'a"b\\c;=')
    assert settings.tls is not None
    assert settings.tls.ca_file == "/etc/ca.crt"


def test_tokens() -> None:
    settings = settings_of(
        source_options(
            {
                "bootstrap.servers": "a:1",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "hush",
                "https.ca.location": "/etc/ca.crt",
            }
        )
    )
    assert settings.sasl == TokenSettings("https://idp.example/token", "me", "hush", ca_file="/etc/ca.crt")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"bootstrap.servers": "a:1", "linger.ms": "5"}, "the client property linger.ms has no counterpart"),
        ({"sasl.mechanism": "GSSAPI", "sasl.username": "a", "sasl.password": "b"}, "sasl.mechanism=GSSAPI: give PLAIN"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "with sasl.username and sasl.password"),
    ],
)
def test_what_has_no_counterpart_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(DrillSetupError, match=message):
        source_options(properties)
