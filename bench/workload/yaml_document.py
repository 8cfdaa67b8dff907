"""Reads YAML and keeps the line of every key, so that each error can name file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from highwater.common.yaml_nodes import Document, parse, read

_EXAMPLE: Final = "schema: bench.workload/1"


def read_document(path: Path) -> Document:
    """Read a YAML mapping. Raises UsageError with file and line."""
    return read(yaml, path, _EXAMPLE)


def parse_document(text: str, name: str) -> Document:
    """Parse a YAML mapping. Raises UsageError with file and line."""
    return parse(yaml, text, name, _EXAMPLE)
