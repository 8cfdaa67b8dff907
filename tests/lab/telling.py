"""Lines that the lab prints for whoever runs it."""

from __future__ import annotations


def tell(line: str) -> None:
    print(f"lab: {line}", flush=True)
