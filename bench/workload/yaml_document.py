"""Reads YAML and keeps the line of every key, so that each error can name file and line."""

from __future__ import annotations

from pathlib import Path

import yaml

from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import Document, DocumentError, Location, dotted, parse, read_text

__all__ = ["Document", "Location", "dotted", "parse_document", "read_document"]


def read_document(path: Path) -> Document:
    """Read a YAML mapping. Raises UsageError with file and line."""
    try:
        text = read_text(path)
    except DocumentError as error:
        raise UsageError(str(error)) from None
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Document:
    """Parse a YAML mapping. Raises UsageError with file and line."""
    try:
        return parse(yaml, text, name, "schema: bench.workload/1")
    except DocumentError as error:
        raise UsageError(str(error)) from None
