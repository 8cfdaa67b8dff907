"""Values for the network stack and its interfaces."""

from __future__ import annotations

from typing import Final

from ..facts import Facts
from ..model import Target
from ..quantities import format_bit_rate, format_bytes
from ..workload import Workload
from .common import MIB

# RFC 7323, section 2.3: a window cannot be scaled beyond it.
_LARGEST_TCP_WINDOW_BYTES: Final = 2**30


def socket_buffer_max(_facts: Facts, workload: Workload, _name: str) -> Target:
    value, text = _twice_bandwidth_delay(workload)
    return Target(max(value, 2 * MIB), f"{text}, 2 MiB")


def tcp_buffer_max(_facts: Facts, workload: Workload, _name: str) -> Target:
    value, text = _twice_bandwidth_delay(workload)
    return Target(value, text)


def _twice_bandwidth_delay(workload: Workload) -> tuple[int, str]:
    wanted = 2 * workload.bandwidth_delay_bytes
    value = min(wanted, _LARGEST_TCP_WINDOW_BYTES)
    text = f"2 × {format_bit_rate(workload.link_bits_per_s)} × {workload.rtt_ms:g} ms / 8 = {format_bytes(wanted)}"
    return value, text if value == wanted else f"{text}, cut to TCP's largest window of {format_bytes(value)}"
