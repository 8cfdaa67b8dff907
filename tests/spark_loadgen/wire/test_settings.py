from __future__ import annotations

from spark_loadgen.wire.settings import WireSettings


def test_properties_are_read_under_librdkafkas_names() -> None:
    settings = WireSettings.of(
        {
            "acks": "1",
            "batch.size": "65536",
            "linger.ms": "0.5",
            "max.in.flight": "3",
            "message.timeout.ms": "1000",
            "client.id": "me",
            "compression.type": "none",
        }
    )
    assert (settings.acks, settings.batch_bytes, settings.linger_ns) == (1, 65536, 500_000)
    assert (settings.in_flight_max, settings.delivery_timeout_ms, settings.client_id) == (3, 1000, "me")


def test_a_batch_is_no_larger_than_either_limit() -> None:
    assert WireSettings.of({}).batch_bytes == 1_000_000
    assert WireSettings.of({"message.max.bytes": "10000000"}).batch_bytes == 1_000_000
    assert WireSettings.of({"message.max.bytes": "2000", "batch.size": "5000"}).batch_bytes == 2000
    assert WireSettings.of({"batch.size": "5000000", "message.max.bytes": "10000000"}).batch_bytes == 5_000_000
