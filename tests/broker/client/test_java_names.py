"""Files of Kafka's tools, as this client and librdkafka read them."""

from __future__ import annotations

import pytest

from highwater.broker.client.errors import ClientSettingsError
from highwater.broker.client.java_names import as_librdkafka_has_it

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


@pytest.mark.parametrize(
    ("given", "told"),
    [
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
