"""Which data never leave the monitor, whoever asks and in whichever form."""

from __future__ import annotations

import json

import pytest

from highwater.monitor.zookeeper.hiding import hides_children, shown

SECRET = "tiger-7f2b"  # noqa: S105 - of a test
SCRAM = f"salt={SECRET},stored_key={SECRET},server_key={SECRET},iterations=4096"


def config(**values: str) -> bytes:
    return json.dumps({"version": 1, "config": values}).encode()


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/config/users/carl", config(**{"SCRAM-SHA-256": SCRAM, "SCRAM-SHA-512": SCRAM})),
        ("/config/brokers/1", config(**{"listener.name.a.ssl.keystore.password": SECRET})),
        ("/config/brokers/<default>", config(**{"listener.name.a.plain.sasl.jaas.config": f'X password="{SECRET}";'})),
        ("/config/brokers/1", config(**{"ssl.keystore.key": SECRET, "ssl.key.password": SECRET})),
        ("/config/topics/orders", config(harmless=f"https://user:{SECRET}@host/")),
        ("/config/client-metrics/x", config(api_key=SECRET)),
        ("/config/topics/orders", json.dumps({"config": [{"deep": {"aws.secret": {"list": [SECRET]}}}]}).encode()),
        ("/config/topics/orders", f"no json {SECRET}".encode()),
        ("/config/topics/orders", b"\xff\xfe" + SECRET.encode()),
        ("/config/topics/orders", b"[" * 100_000 + SECRET.encode()),
        *(("/controller", b"[" * deep + f'"{SECRET}"'.encode() + b"]" * deep) for deep in (800, 100_000)),
        ("/config/topics/orders", b'{"secret": "%s", "text": "\\ud800"}' % SECRET.encode()),
        ("/delegation_token/tokens/abc", json.dumps({"tokenId": SECRET, "owner": "User:a"}).encode()),
        ("/delegation_token", SECRET.encode()),
        ("/consumers/old", f"password = {SECRET}".encode()),
        ("/consumers/old", f"-----BEGIN PRIVATE KEY-----\n{SECRET}".encode()),
        ("/consumers/old", json.dumps({"note": f'LoginModule required password="{SECRET}"'}).encode()),
        ("/hbase/master", SECRET.encode()),
        ("/security.json", json.dumps({"anything": SECRET}).encode()),
    ],
)
def test_a_secret_is_hidden_and_the_page_says_so(path: str, data: bytes) -> None:
    found = shown(path, data)
    assert SECRET.encode() not in found.data
    assert SECRET not in found.note
    assert found.note


def test_what_is_no_secret_stays_as_it_is() -> None:
    for path, data in (
        ("/controller_epoch", b"7"),
        ("/brokers/ids/1", b'{"features":{},"host":"a","version":5}'),
        ("/config/topics/orders", config(**{"retention.ms": "1", "min.insync.replicas": "2"})),
        ("/consumers/g/offsets/t/0", b"17"),
        ("/cluster/id", b""),
    ):
        assert shown(path, data) == (data, "")


def test_of_a_scram_credential_the_iterations_are_shown() -> None:
    found = json.loads(shown("/config/users/carl", config(**{"SCRAM-SHA-256": SCRAM, "producer_byte_rate": "9"})).data)
    assert found["config"] == {"SCRAM-SHA-256": "(hidden), iterations=4096", "producer_byte_rate": "9"}


def test_names_of_tokens_are_not_listed() -> None:
    assert hides_children("/delegation_token/tokens")
    assert not hides_children("/delegation_token")
