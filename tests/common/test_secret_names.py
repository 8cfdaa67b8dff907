"""What counts as a secret by its name: Kafka's own list, and what nobody should hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.common.secret_names import has_secret_in_url, has_secret_word, is_secret_header, is_secret_name

KAFKAS = Path(__file__).parents[1] / "golden" / "kafka-3.9.1-properties.tsv"


def test_of_kafkas_settings_exactly_those_of_type_password_are_secret() -> None:
    rows = [line.split("\t") for line in KAFKAS.read_text().splitlines() if not line.startswith("#")]
    wrong = [row[1] for row in rows if is_secret_name(row[1]) is not (row[2] == "password")]
    assert len(rows) > 300
    assert sum(row[2] == "password" for row in rows) == 13
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.internal.ssl.keystore.password",
        "listener.name.internal.ssl.keystore.key",
        "listener.name.internal.scram-sha-512.sasl.jaas.config",
        "kafka.sasl.jaas.config",
        "SSL.Key.Password",
        # Of Kafka's clients, since 4.0.
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        # Of librdkafka.
        "sasl.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        # Of Spark and Hadoop.
        "spark.authenticate.secret",
        "spark.ssl.keyPassword",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.azure.account.key.store.blob.core.windows.net",
        # Of a schema registry.
        "schema.registry.basic.auth.user.info",
        "bearer.auth.token",
        # As ZooKeeper keeps the logins of users.
        "SCRAM-SHA-256",
        "stored_key",
        "server_key",
        "api_key",
        "api-key",
        # Not of anybody: what looks like a public name of Kafka, and is not one.
        "my.password.length",
        "password.encoder.iterations.secret",
        "xpassword.encoder.iterations",
    ],
)
def test_secrets_of_others(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.internal.ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.key.location",
        "sasl.oauthbearer.assertion.private.key.file",
        "kafka.sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.credentials.client.id",
        "schema.registry.basic.auth.credentials.source",
        "key.serializer",
        "spark.executor.cores",
        "retention.ms",
        "log.cleaner.dedupe.buffer.size",
    ],
)
def test_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_a_text_has_no_exceptions() -> None:
    assert has_secret_word("password.encoder.iterations=4096")
    assert has_secret_word("-Dkey.storePassword=x")
    assert has_secret_word("a.key.file=x")
    assert not has_secret_word("spark.executor.cores=2")


@pytest.mark.parametrize(
    "name",
    ["Authorization", "Proxy-Authorization", "X-API-Key", "X-Auth-Token", "Cookie", "Private-Token", "X-Password"],
)
def test_headers_of_a_login(name: str) -> None:
    assert is_secret_header(name)


@pytest.mark.parametrize("name", ["Content-Type", "User-Agent", "X-Team"])
def test_other_headers(name: str) -> None:
    assert not is_secret_header(name)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:secret@host/db",
        "postgresql://u:$ecret@host/db",
        "postgresql://u:$${ESCAPED}@host/db",
        "postgresql://u:se${PART}@host/db",
        "postgresql://u@host/db?sslmode=require&password=secret",
        "postgresql://u@host/db?sslpassword=secret",
        "jdbc:postgresql://host/db?user=u&password=secret",
        "jdbc:sqlserver://host;user=u;password=secret",
        "s3a://KEY:SECRET@bucket/path",
        "s3a://KEY:12/ab+c/d@bucket/path",
        "s3a://:SECRET@bucket",
        "https://u:12@host",
        "abfss://c@account.example/path?sv=2024&sig=abc",
        "https://bucket.example/a?X-Amz-Signature=abc",
        "sqlite:a.db,http://u:secret@proxy:8080",
    ],
)
def test_urls_with_a_secret(url: str) -> None:
    assert has_secret_in_url(url)
    assert has_secret_word(f"spark.any.setting={url}")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@host:5432/db?sslmode=require&sslkey=/etc/u.key",
        "postgresql://u:${PASSWORD}@host/db",
        "postgresql://u@host/db?password=${PASSWORD}",
        "s3a://${KEY}:${SECRET}@bucket",
        "http://registry:8081/subjects",
        "spark://host:7077",
        "abfss://container@account.dfs.example/path",
        "sqlite:/tmp/me@home.db",
        "localhost:9092",
        "a=b?c",
    ],
)
def test_urls_without_one(url: str) -> None:
    assert not has_secret_in_url(url)
