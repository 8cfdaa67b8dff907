"""Values of a load file with their units: bytes per second, bits per second, days."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from highwater.bench import units
from highwater.common.units import BINARY_BYTES, DECIMAL_BYTES, DURATION_FORM, DURATION_NS, NANOSECONDS, parse_scaled

_BYTES_PER_S: Final = {f"{unit}/s": size for unit, size in (BINARY_BYTES | DECIMAL_BYTES).items()}
_BITS_PER_S: Final = {"Mbit/s": 10**6, "Gbit/s": 10**9}


def _amount(value: object, known: Mapping[str, int], form: str) -> Decimal:
    amount = parse_scaled(value, known) if isinstance(value, str) else None
    if amount is None:
        raise ValueError(f"{value!r} is not {form}")
    return amount


def _bytes_per_s(value: object) -> float:
    return float(_amount(value, _BYTES_PER_S, "bytes per second with their unit, for example 40MB/s or 512KiB/s"))


def _network_bytes_per_s(value: object) -> float:
    return float(_amount(value, _BITS_PER_S, "the speed of a link, for example 10Gbit/s or 500Mbit/s")) / 8


def _span_s(value: object) -> float:
    return float(_amount(value, DURATION_NS, DURATION_FORM) / NANOSECONDS["s"])


def _above_zero(parse: Callable[[object], float]) -> Callable[[object], float]:
    def parsed(value: object) -> float:
        amount = parse(value)
        if amount <= 0:
            raise ValueError(f"{value!r} is not more than 0")
        return amount

    return parsed


BytesPerS = Annotated[float, BeforeValidator(_above_zero(_bytes_per_s))]
BytesPerSOrNone = Annotated[float, BeforeValidator(_bytes_per_s)]
NetworkBytesPerS = Annotated[float, BeforeValidator(_above_zero(_network_bytes_per_s))]
SpanS = Annotated[float, BeforeValidator(_above_zero(_span_s))]
SpanSOrNone = Annotated[float, BeforeValidator(_span_s)]
SizeBytes = Annotated[int, BeforeValidator(units.parse_size_bytes), Field(ge=1)]
Ratio = Annotated[float, BeforeValidator(units.parse_percent)]
Share = Annotated[float, BeforeValidator(_above_zero(units.parse_percent)), Field(le=1)]
