"""The C programs of this folder, compiled into the user's cache on first use."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, Literal

from highwater.bench.user_cache import cached, need, run_step

_SOURCES: Final = Path(__file__).parent


def program(name: Literal["bare_loop", "wire_fetch", "wire_load"]) -> Path:
    """Raises UsageError when this host has no compiler."""
    source = _SOURCES / f"{name}.c"

    def compile_it(directory: Path) -> None:
        compiler = need("gcc", "gcc", f"compiles {source.name}")
        run_step([compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", directory / name, source], directory)

    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    return cached(f"{name}-{digest}", source.name, compile_it) / name
