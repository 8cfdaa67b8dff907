"""Files of Kafka's tools, as this client and librdkafka read them."""

from __future__ import annotations

import pytest

from highwater.kafka.client.errors import ClientSettingsError
from highwater.kafka.client.java_names import as_librdkafka_has_it

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def test_what_librdkafka_knows_stays() -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.username": "a", "ssl.ca.location": "/ca.pem", "linger.ms": "5"}
    assert as_librdkafka_has_it(given) == given
    pkcs12 = {"ssl.keystore.location": "/a.p12", "ssl.keystore.password": "p"}
    assert as_librdkafka_has_it(pkcs12 | {"ssl.keystore.type": "PKCS12"}) == pkcs12


def test_a_login_and_stores_of_kafkas_tools() -> None:
    found = as_librdkafka_has_it(
        {
            "security.protocol": "SASL_SSL",
            "sasl.jaas.config": f'{SCRAM} username="a\\"b" password="c;=d";',
            "ssl.truststore.location": "/ca",
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": "/me.pem",
            "ssl.keystore.type": "pem",
            "ssl.key.password": "p",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.username": 'a"b',
        "sasl.password": "c;=d",
        "ssl.ca.location": "/ca",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "p",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert as_librdkafka_has_it({"ssl.truststore.certificates": "x", "ssl.keystore.key": "k"}) == {
        "ssl.ca.pem": "x",
        "ssl.key.pem": "k",
    }


def test_where_tokens_come_from() -> None:
    package = "org.apache.kafka.common.security.oauthbearer."
    url = {"sasl.oauthbearer.token.endpoint.url": "https://idp/token"}
    wanted = url | {
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hidden",
        "sasl.oauthbearer.scope": "kafka",
    }
    login = f'{package}OAuthBearerLoginModule required clientId="me" clientSecret="hidden" scope="kafka"'
    more = ' ssl.truststore.location="/ca.pem" extension_a="1" extension_b="2"'
    for handler in ("OAuthBearerLoginCallbackHandler", "secured.OAuthBearerLoginCallbackHandler"):
        named = url | {"sasl.login.callback.handler.class": package + handler}
        assert as_librdkafka_has_it(named | {"sasl.jaas.config": f"{login};"}) == wanted
    assert as_librdkafka_has_it(url | {"sasl.jaas.config": f"{login}{more};"}) == wanted | {
        "https.ca.location": "/ca.pem",
        "sasl.oauthbearer.extensions": "a=1,b=2",
    }
    kafka_4 = {
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": "hidden",
        "sasl.oauthbearer.scope": "kafka",
    }
    assert as_librdkafka_has_it(url | kafka_4) == wanted


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"sasl.jaas.config": 'x.OAuthBearerLoginModule required clientId="a" hidden="b";'}, "clientSecret, scope,"),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, "com.example.Mine is of Java: remove it"),
        ({"ssl.truststore.location": "/a.jks", "ssl.truststore.password": "hidden"}, "/a.jks is of type JKS"),
        ({"ssl.truststore.location": "/a.p12", "ssl.truststore.type": "pkcs12"}, "/a.p12 is of type PKCS12"),
        ({"ssl.keystore.location": "/a", "ssl.keystore.type": "JKS"}, "ssl.keystore.type=PEM"),
        ({"sasl.jaas.config": f'{SCRAM} username="a" password="hidden"'}, "required username="),
        ({"sasl.jaas.config": f'{SCRAM} username="a" pass="hidden";'}, "required username="),
        ({"sasl.jaas.config": 'x.Krb5LoginModule required username="a" password="hidden";'}, "PlainLoginModule or"),
    ],
)
def test_what_only_java_can_read_is_refused_without_its_secret(given: dict[str, str], told: str) -> None:
    with pytest.raises(ClientSettingsError) as caught:
        as_librdkafka_has_it(given)
    assert told in str(caught.value)
    assert "hidden" not in str(caught.value)
