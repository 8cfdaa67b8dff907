"""CRC-32C by the package crc32c without its command line, whose import takes a start 12 ms."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Final


def _native() -> Any:
    package = find_spec("crc32c")
    spec = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if not spec or spec.loader is None:
        import crc32c  # of a release with other modules; or it raises, with the name of what to install

        return crc32c
    native = module_from_spec(spec)
    spec.loader.exec_module(native)
    return native


crc32c: Final[Callable[..., int]] = _native().crc32c
"""crc32c(data, crc of what is before it = 0)."""
