"""Files of ceilings: read as written, and one sentence for what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from highwater.common.ceilings import DISK_WRITE, PRODUCE, Ceiling, Ceilings, CeilingsError, HostClass, parse_ceilings

WHOLE = Ceilings(
    HostClass("A processor", 2, 1 << 34, "6.1", "f" * 64, "KVM"),
    (
        Ceiling(
            PRODUCE, 1e8, True, 1.1e8, "p99 above 20 ms", 65_536, "lz4", "all", "ssd", "ext4", "highwater 0.2.0", "run"
        ),
        Ceiling(DISK_WRITE, 2e8, False),
    ),
    "2026-11-26T00:00:00Z",
)


def changed(**keys: Any) -> str:
    return json.dumps(json.loads(WHOLE.as_json()) | keys)


def test_ceilings_are_read_as_they_were_written() -> None:
    assert parse_ceilings(WHOLE.as_json()) == WHOLE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("[]", "is not a file of capacity.ceilings/1: write one with highwater bench ceilings"),
        (changed(schema="capacity.ceilings/2"), "is not a file of capacity.ceilings/1"),
        (changed(host={}), "is damaged: cpu_model, cpu_count, .* of host missing"),
        (changed(ceilings=[{"resource": "moon", "bytes_per_s": 1, "is_at_least": True}]), "a ceiling of 'moon'"),
        (changed(ceilings=[{"resource": PRODUCE, "bytes_per_s": 0, "is_at_least": True}]), "with 0 bytes/s"),
        (changed(ceilings=[{"resource": PRODUCE, "bytes_per_s": 1, "is_at_least": 1}]), "is_at_least has another type"),
    ],
)
def test_what_is_no_file_of_ceilings(text: str, said: str) -> None:
    with pytest.raises(CeilingsError, match=said):
        parse_ceilings(text)
