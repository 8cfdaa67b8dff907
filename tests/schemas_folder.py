"""Writes schemas/, the JSON Schemas of files that people write: `make docs`, or `python -m tests.schemas_folder`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from highwater.broker.faults.kinds import ALL, KINDS, FaultKind, Parameter
from highwater.broker.faults.request import CONNECT
from highwater.studies.json_schemas import json_schema

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "schemas"
# Of those that `highwater bench schema` prints: the others are of files that programs write.
WRITTEN: Final = ("workload", "question", "gate-policy", "load")
FAULTS: Final = "faults"
# The first line of a file by which an editor finds its schema.
LINE: Final = re.compile(r"# yaml-language-server: \$schema=(\S+)")


def documents() -> dict[str, dict[str, Any]]:
    """Schemas by name."""
    return {name: json_schema(name) for name in WRITTEN} | {FAULTS: faults()}


def text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def faults() -> dict[str, Any]:
    """Of the file of `broker start --faults`, with the kinds that the broker has."""
    several = {"type": "array", "items": {"enum": [CONNECT, *ALL]}, "minItems": 1}
    pattern = {"type": "string", "description": "a pattern with * and ?"}
    counted = {"type": "integer", "minimum": 1}
    when = {
        "api": {"anyOf": [{"enum": [CONNECT, *ALL]}, several]},
        "version": {"type": ["integer", "string"], "pattern": r"^\d{1,5}(-\d{1,5})?$", "description": "9, or 3-9"},
        "topic": pattern,
        "client_id": pattern,
        "principal": pattern,
        "listener": pattern,
        "connection": counted | {"description": "of the connections since the start, this one"},
        "nth": counted | {"description": "of the requests that fit, this one"},
        "after_ms": {"type": "integer", "minimum": 0, "description": "since the start"},
        "probability": {"type": "number", "minimum": 0, "maximum": 1},
    }
    rule = {
        "type": "object",
        "properties": {
            "when": {"type": "object", "properties": when, "additionalProperties": False},
            "then": {"oneOf": [_then(kind) for kind in KINDS.values()]},
            "times": counted | {"description": "how many times at most"},
        },
        "required": ["then"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a script of faults",
        "type": "object",
        "properties": {"seed": {"type": "integer", "minimum": 0}, "rules": {"type": "array", "items": rule}},
        "additionalProperties": False,
    }


def _then(kind: FaultKind) -> dict[str, Any]:
    return {
        "description": kind.says,
        "type": "object",
        "properties": {"kind": {"const": kind.name}} | {name: _value(each) for name, each in kind.parameters.items()},
        "required": ["kind", *(name for name, each in kind.parameters.items() if each.default == "required")],
        "additionalProperties": False,
    }


def _value(parameter: Parameter) -> dict[str, Any]:
    """The types of values are known to what reads them alone."""
    return {"description": parameter.says}


def pointed() -> Iterator[tuple[Path, Path]]:
    """Files of the repository whose first line names a schema, with the schema."""
    for folder in ("examples", "workloads"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            if match := LINE.match(path.read_text("utf-8")):
                yield path, (path.parent / match[1]).resolve()


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, document in documents().items():
        (FOLDER / f"{name}.schema.json").write_text(text(document), "utf-8")


if __name__ == "__main__":
    write()
