"""Reads YAML and keeps the line of every key, so that each error can name file and line.

It is stricter than YAML where YAML misleads: a key given twice, a key that is not text, and merge keys are errors;
dates remain text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from highwater.bench.errors import UsageError

Location = tuple[str | int, ...]

# Far deeper than any workload file. The limit also stops an alias that contains itself.
_MAX_DEPTH: Final = 16
# Aliases of aliases can expand to more than fits into memory.
_MAX_PARTS: Final = 100_000
_PLAIN_TAGS: Final = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}


@dataclass(slots=True)
class Document:
    """The data of one file, and the origin of each part (`file:line`, or the option that set it)."""

    name: str
    data: dict[str, Any]
    origins: dict[Location, str] = field(default_factory=dict)

    def origin(self, location: Location) -> str:
        """The place where `location`, or the smallest part around it, was written."""
        for length in range(len(location), 0, -1):
            if (origin := self.origins.get(location[:length])) is not None:
                return origin
        return self.name


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
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise UsageError(f"{name}: expected a mapping of keys to values, such as 'schema: bench.workload/1'")
        document = Document(name, {})
        document.data = _mapping(loader, node, (), document)
        return document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise UsageError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode, location: Location, document: Document) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        where = f"{document.name}:{key_node.start_mark.line + 1}"
        if not isinstance(key_node, yaml.ScalarNode):
            raise UsageError(f"{where}: a key must be text, not a {key_node.id}")
        key = key_node.value
        if key_node.tag != "tag:yaml.org,2002:str":
            raise UsageError(f"{where}: a key must be text; put {key!r} into quotes")
        path = (*location, key)
        if key in result:
            raise UsageError(f"{where}: {dotted(path)} is given twice (first at {document.origins[path]})")
        document.origins[path] = where
        result[key] = _value(loader, value_node, path, document)
    return result


def _value(loader: yaml.SafeLoader, node: yaml.Node, location: Location, document: Document) -> Any:
    if len(location) > _MAX_DEPTH:
        raise UsageError(f"{document.name}:{node.start_mark.line + 1}: nested too deeply")
    if len(document.origins) > _MAX_PARTS:
        raise UsageError(f"{document.name}:{node.start_mark.line + 1}: more than {_MAX_PARTS} keys and values")
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, location, document)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            document.origins[(*location, index)] = f"{document.name}:{item.start_mark.line + 1}"
        return [_value(loader, item, (*location, index), document) for index, item in enumerate(node.value)]
    if node.tag not in _PLAIN_TAGS:
        return node.value
    try:
        return loader.construct_object(node)
    except ValueError as error:
        where = f"{document.name}:{node.start_mark.line + 1}"
        raise UsageError(f"{where}: {dotted(location)}: {node.value!r} is not a value: {error}") from None


def dotted(location: Location) -> str:
    """`("exclude", 0, "load.rate")` -> `exclude[0].load.rate`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
