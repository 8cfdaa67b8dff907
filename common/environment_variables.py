"""Sets variables of this process's environment for the time of a with statement."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def environment_variables(changes: Mapping[str, str]) -> Iterator[None]:
    """Afterwards each of them has its earlier value, or is not set if it was not."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
