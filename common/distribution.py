"""The name of what pip installs. The package is imported as `highwater`, a name that another project has on PyPI."""

from __future__ import annotations

from importlib import metadata
from typing import Final

NAME: Final = "highwater-kafka"


def version() -> str:
    return metadata.version(NAME)
