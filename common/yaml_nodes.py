"""The data of a YAML document with the line of every key, from the nodes that PyYAML composes of it.

It is stricter than YAML where YAML misleads: a key given twice, a key that is no text, merge keys, and values that YAML
1.1 (PyYAML) and 1.2 read differently (`010`, `1:30`, `yes`) are errors; dates remain text. PyYAML is not imported
here, because what rooms share needs the standard library alone: the caller passes the module.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .errors import UsageError

Location = tuple[str | int, ...]

# Far deeper than any file of ours. The limit also stops an alias that contains itself.
_MAX_DEPTH: Final = 16
# Aliases of aliases can expand to more than fits into memory.
_MAX_PARTS: Final = 100_000
_SHOWN_MAX: Final = 80
_PLAIN_TAGS: Final = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}
# The core schema of YAML 1.2.2, 10.3.2.
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}


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


def read(yaml: Any, path: Path, example: str) -> Document:
    """Read a file as `parse` does. Raises UsageError, which begins with the file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read it: {getattr(error, 'strerror', None) or error}") from None
    return parse(yaml, text, str(path), example)


def parse(yaml: Any, text: str, name: str, example: str) -> Document:
    """Parse a YAML mapping.

    yaml: the module of PyYAML. name: of the file, for errors. example: a line that such a file could begin with.
    Raises UsageError, which begins with file and line.
    """
    try:
        loader = yaml.SafeLoader(text)
        return _document(name, loader.get_single_node(), loader, example)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise UsageError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        # PyYAML calls itself for each level before this module counts them.
        raise UsageError(f"{name}: nested too deeply") from None


def _document(name: str, root: Any, loader: Any, example: str) -> Document:
    if getattr(root, "id", None) != "mapping":
        raise UsageError(f"{name}: expected a mapping of keys to values, such as '{example}'")
    document = Document(name, {})
    document.data = _mapping(loader, root, (), document)
    return document


def _mapping(loader: Any, node: Any, location: Location, document: Document) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        where = _line(document, key_node)
        if key_node.id != "scalar":
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


def _value(loader: Any, node: Any, location: Location, document: Document) -> Any:
    if len(location) > _MAX_DEPTH:
        raise UsageError(f"{_line(document, node)}: nested too deeply")
    if len(document.origins) > _MAX_PARTS:
        raise UsageError(f"{_line(document, node)}: more than {_MAX_PARTS} keys and values")
    if node.id == "mapping":
        return _mapping(loader, node, location, document)
    if node.id == "sequence":
        for index, item in enumerate(node.value):
            document.origins[(*location, index)] = _line(document, item)
        return [_value(loader, item, (*location, index), document) for index, item in enumerate(node.value)]
    if node.tag not in _PLAIN_TAGS:
        return node.value
    try:
        return _scalar(loader, node)
    except ValueError as error:
        raise UsageError(
            f"{_line(document, node)}: {dotted(location)}: {str(node.value)[:_SHOWN_MAX]!r} is not a value: {error}"
        ) from None


def _scalar(loader: Any, node: Any) -> Any:
    """Raises ValueError."""
    value = loader.construct_object(node)
    is_plain = node.style is None and node.tag == loader.resolve(type(node), node.value, (True, False))
    newer = _value_of_1_2(node.value) if is_plain else value
    if type(newer) is not type(value) or repr(newer) != repr(value):
        raise ValueError(
            f"YAML 1.1 reads {_shown(value)} and YAML 1.2 {_shown(newer)}; write what you mean, in quotes if it is text"
        )
    return value


def _value_of_1_2(text: str) -> str | int | float | bool | None:
    """What a plain scalar is in YAML 1.2. Raises ValueError for more digits than Python takes."""
    if text in _WORDS:
        return _WORDS[text]
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.replace(".", "")) if _NO_NUMBER.fullmatch(text) else text


def _shown(value: Any) -> str:
    return "text" if isinstance(value, str) else json.dumps(value)


def _line(document: Document, node: Any) -> str:
    return f"{document.name}:{node.start_mark.line + 1}"


def dotted(location: Location) -> str:
    """`("exclude", 0, "load.rate")` -> `exclude[0].load.rate`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
