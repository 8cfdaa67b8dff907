"""Reads YAML and keeps the line of every key, so that each error can name file and line."""

from __future__ import annotations

from pathlib import Path

import yaml

from highwater.bench.errors import UsageError
from highwater.common.yaml_nodes import Document, DocumentError, Location, dotted, read_nodes

__all__ = ["Document", "Location", "dotted", "parse_document", "read_document"]


def read_document(path: Path) -> Document:
    """Read a YAML mapping. Raises UsageError with file and line."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read it: {getattr(error, 'strerror', None) or error}") from None
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Document:
    """Parse a YAML mapping. Raises UsageError with file and line."""
    try:
        loader = yaml.SafeLoader(text)
        return read_nodes(name, loader.get_single_node(), loader.construct_object, "schema: bench.workload/1")
    except DocumentError as error:
        raise UsageError(str(error)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise UsageError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None
