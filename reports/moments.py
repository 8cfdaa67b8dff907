"""Times for people."""

from __future__ import annotations


def minute_text(utc: str) -> str:
    """`2026-11-27T07:10:08.994Z` as `2026-11-27 07:10 UTC`; anything else as it is."""
    return f"{utc[:10]} {utc[11:16]} UTC" if len(utc) > 16 and utc[10] == "T" and utc.endswith("Z") else utc
