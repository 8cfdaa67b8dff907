"""The settings of the wire driver: the librdkafka properties that it supports, under their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from highwater.spark_loadgen.compression import CODECS, DEFAULT_LEVEL, Codec
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.records import FixedSize, Keys, Sizes

_ACKS: Final = {"0": 0, "1": 1, "-1": -1, "all": -1}
_BATCH_BYTES_MAX: Final = 1 << 30
# Properties that the driver supports with this value only.
_FIXED: Final = {"security.protocol": "plaintext"}
# A broker remembers this many batches of an idempotent producer to detect duplicates.
_IN_FLIGHT_MAX_IDEMPOTENT: Final = 5


@dataclass(frozen=True, slots=True)
class WireSettings:
    """acks: -1 for all. A batch is sent when it is full, or `linger_ns` after its first record was due.

    Sizes are before compression.
    """

    acks: int = -1
    batch_size_bytes: int = 1_000_000
    message_max_bytes: int = 1_000_000
    batch_records_max: int = 1_000_000
    linger_ns: int = 5_000_000
    in_flight_max: int = 5
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 300_000
    send_buffer_bytes: int = 0
    client_id: str = "highwater-producer"
    codec: Codec = "none"
    compression_level: int = DEFAULT_LEVEL
    idempotence: bool = False

    @property
    def batch_bytes(self) -> int:
        """Largest size of a batch; a batch of one record may be larger."""
        return min(self.batch_size_bytes, self.message_max_bytes)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> WireSettings:
        """Raises LoadSetupError that names the property that is unknown to this driver or invalid."""
        known: dict[str, Any] = {}
        for name, value in properties.items():
            if name in _FIXED:
                if value.lower() != _FIXED[name]:
                    raise LoadSetupError(
                        f"{name} is {value!r}: the wire driver supports only {_FIXED[name]!r}; use the client driver"
                    )
            elif name in _KNOWN:
                field, read = _KNOWN[name]
                known[field] = read(name, value)
            else:
                raise LoadSetupError(
                    f"the wire driver does not support {name}, only {', '.join([*_KNOWN, *_FIXED])}; "
                    "leave it out or use the client driver"
                )
        settings = cls(**known)
        if settings.idempotence and settings.acks != -1:
            raise LoadSetupError("enable.idempotence needs acks: all")
        if settings.idempotence and settings.in_flight_max > _IN_FLIGHT_MAX_IDEMPOTENT:
            raise LoadSetupError(
                f"enable.idempotence needs max.in.flight of at most {_IN_FLIGHT_MAX_IDEMPOTENT}, "
                f"not {settings.in_flight_max}"
            )
        return settings


def check_wire(sizes: Sizes | None, keys: Keys | None, *, transactional: bool) -> None:
    """Raises LoadSetupError for records that the wire driver cannot prepare."""
    if transactional:
        raise LoadSetupError("the wire driver sends no transactions; use the client driver")
    if not isinstance(sizes, FixedSize):
        raise LoadSetupError("the wire driver sends values of one size; name one, or use the client driver")
    if keys is not None:
        raise LoadSetupError("the wire driver sends records without keys; leave the keys out, or use the client driver")


def _whole(least: int, largest: int, scale: int = 1) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not least <= number <= largest:
            raise LoadSetupError(f"{name} is {value!r}; the wire driver accepts {least} to {largest}")
        return int(number * scale)

    return read


def _acks(name: str, value: str) -> int:
    if value not in _ACKS:
        raise LoadSetupError(f"{name} is {value!r}; it must be one of 0, 1, all")
    return _ACKS[value]


def _codec(name: str, value: str) -> Codec:
    if value not in CODECS:
        raise LoadSetupError(f"{name} is {value!r}; it must be one of {', '.join(CODECS)}")
    return value


def _truth(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise LoadSetupError(f"{name} is {value!r}; it must be true or false")
    return value.lower() == "true"


_CODEC: Final = ("codec", _codec)
_IN_FLIGHT: Final = ("in_flight_max", _whole(1, 1_000_000))
_LINGER: Final = ("linger_ns", _whole(0, 900_000, scale=1_000_000))
_DELIVERY: Final = ("delivery_timeout_ms", _whole(1, 1 << 31))
_KNOWN: Final[dict[str, tuple[str, Callable[[str, str], int | str]]]] = {
    "acks": ("acks", _acks),
    "request.required.acks": ("acks", _acks),
    "batch.size": ("batch_size_bytes", _whole(1, _BATCH_BYTES_MAX)),
    "batch.num.messages": ("batch_records_max", _whole(1, 1_000_000)),
    "message.max.bytes": ("message_max_bytes", _whole(1000, _BATCH_BYTES_MAX)),
    "linger.ms": _LINGER,
    "queue.buffering.max.ms": _LINGER,
    "max.in.flight": _IN_FLIGHT,
    "max.in.flight.requests.per.connection": _IN_FLIGHT,
    "request.timeout.ms": ("request_timeout_ms", _whole(1, 900_000)),
    "delivery.timeout.ms": _DELIVERY,
    "message.timeout.ms": _DELIVERY,
    "socket.send.buffer.bytes": ("send_buffer_bytes", _whole(0, 100_000_000)),
    "client.id": ("client_id", lambda _, value: value),
    "compression.type": _CODEC,
    "compression.codec": _CODEC,
    "compression.level": ("compression_level", _whole(-1, 12)),
    "enable.idempotence": ("idempotence", _truth),
}
