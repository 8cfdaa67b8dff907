from __future__ import annotations

import pytest

from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.wire_settings import WireSettings


def test_properties_are_read_under_librdkafkas_names() -> None:
    settings = WireSettings.of(
        {
            "acks": "1",
            "batch.size": "65536",
            "linger.ms": "0.5",
            "max.in.flight": "3",
            "message.timeout.ms": "1000",
            "client.id": "me",
            "compression.type": "zstd",
            "compression.level": "6",
            "enable.idempotence": "false",
            "security.protocol": "plaintext",
        }
    )
    assert (settings.acks, settings.batch_bytes, settings.linger_ns) == (1, 65536, 500_000)
    assert (settings.in_flight_max, settings.delivery_timeout_ms, settings.client_id) == (3, 1000, "me")
    assert (settings.codec, settings.compression_level, settings.idempotence) == ("zstd", 6, False)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"compression.type": "brotli"}, "compression.type is 'brotli'; it must be one of none, gzip, snappy"),
        ({"compression.level": "13"}, "compression.level is '13'; the wire driver accepts -1 to 12"),
        ({"enable.idempotence": "yes"}, "enable.idempotence is 'yes'; it must be true or false"),
        ({"enable.idempotence": "true", "acks": "1"}, "enable.idempotence needs acks: all"),
        ({"enable.idempotence": "true", "max.in.flight": "6"}, "enable.idempotence needs max.in.flight of at most 5"),
        ({"security.protocol": "ssl"}, "security.protocol is 'ssl': the wire driver supports only 'plaintext'; use"),
        ({"ssl.ca.location": "ca.pem"}, "the wire driver does not support ssl.ca.location"),
    ],
)
def test_what_cannot_be_is_named(properties: dict[str, str], text: str) -> None:
    with pytest.raises(LoadSetupError) as refusal:
        WireSettings.of(properties)
    assert text in str(refusal.value)


def test_a_batch_is_no_larger_than_either_limit() -> None:
    assert WireSettings.of({}).batch_bytes == 1_000_000
    assert WireSettings.of({"message.max.bytes": "10000000"}).batch_bytes == 1_000_000
    assert WireSettings.of({"message.max.bytes": "2000", "batch.size": "5000"}).batch_bytes == 2000
    assert WireSettings.of({"batch.size": "5000000", "message.max.bytes": "10000000"}).batch_bytes == 5_000_000
