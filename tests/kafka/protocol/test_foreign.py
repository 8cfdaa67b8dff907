"""The first bytes of TLS and HTTP are told from those of Kafka, also when few of them came."""

from __future__ import annotations

import struct

import pytest

from highwater.kafka.protocol.foreign import HEAD_BYTES, Foreign, foreign_protocol


@pytest.mark.parametrize(
    ("sent", "is_"),
    [
        (bytes.fromhex("1603010200010001"), Foreign.TLS),
        (bytes.fromhex("16030300"), Foreign.TLS),
        (b"GET /metrics HTTP/1.1\r\n", Foreign.HTTP),
        (b"POST", Foreign.HTTP),
        (b"PRI * HTTP/2.0\r\n", Foreign.HTTP),
        (b"OPTIONS * HTTP/1.1", Foreign.HTTP),
        (b"SSH-2.0-OpenSSH_9.2", None),
        (b"GETX/", None),
        (b"GET", None),
        (b"", None),
        (struct.pack(">ihhi", 100_000_000, 18, 3, 1), None),
    ],
)
def test_what_a_client_speaks(sent: bytes, is_: Foreign | None) -> None:
    assert foreign_protocol(sent[:HEAD_BYTES]) is is_


def test_no_frame_that_is_allowed_by_default_looks_like_another_protocol() -> None:
    for length in range(0, 104_857_601, 4_099):
        assert foreign_protocol(struct.pack(">ihh", length, 18, 3)) is None
