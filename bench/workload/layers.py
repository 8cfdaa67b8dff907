"""Layers of settings: a file over its includes, a variant over the file, options over all.

Sections are merged key by key, and so are the mappings of free names in them (client, clusters, config, targets,
settings). Any other value is replaced as a whole: a mixture of two distributions would be a third one. `null` removes
a key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from highwater.bench.user_paths import expanded
from highwater.bench.workload.model import WORKLOAD_SCHEMA
from highwater.bench.workload.yaml_document import read_document
from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import Document, Location

INCLUDE: Final = "include"
_MERGED_WITHIN_SECTIONS: Final = ("client", "clusters", "config", "proxies", "targets", "settings")


def read_with_includes(path: Path, including: tuple[Path, ...] = ()) -> Document:
    """Read a workload file over the files that it includes. Raises UsageError with file and line."""
    document = read_document(path)
    includes = document.data.pop(INCLUDE, [])
    names = includes if isinstance(includes, list) else [includes]
    result = Document(document.name, {})
    for index, name in enumerate(names):
        where = document.origin((INCLUDE, index))
        if not isinstance(name, str) or not name:
            raise UsageError(f"{where}: include: {name!r} is not the name of a file")
        included = path.parent / name
        chain = (*including, path)
        if any(included.resolve() == earlier.resolve() for earlier in chain):
            circle = " → ".join(str(file) for file in (*chain, included))
            raise UsageError(f"{where}: include: {name} includes itself ({circle})")
        if not included.is_file():
            raise UsageError(f"{where}: include: {included} is not a file")
        base = read_with_includes(included, chain)
        if (schema := base.data.get("schema", WORKLOAD_SCHEMA)) != WORKLOAD_SCHEMA:
            raise UsageError(f"{base.origin(('schema',))}: schema: {schema!r} is not {WORKLOAD_SCHEMA!r}")
        rebase_files(base.data, included.parent, path.parent)
        _lay(result, base)
    _lay(result, document)
    return result


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `over` laid over `base`, and changes neither. What comes from one of them alone is shared with it."""
    return _merged(base, over, ())


def put(data: dict[str, Any], location: Location, value: Any) -> None:
    """Set one key; None removes it. A value in the place of a mapping is left to validation.

    Mappings within `data`, which other documents may share, are copied and not changed.
    """
    *parents, last = location
    for part in parents:
        inner = data.get(str(part), {})
        if not isinstance(inner, dict):
            return
        copied = data[str(part)] = dict(inner)
        data = copied
    if value is None:
        data.pop(str(last), None)
    else:
        data[str(last)] = value


def _lay(below: Document, over: Document) -> None:
    below.data = merged(below.data, over.data)
    below.origins |= over.origins


def _merged(base: Mapping[str, Any], over: Mapping[str, Any], location: tuple[str, ...]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if value is None and key in result:
            del result[key]
        elif isinstance(value, dict) and isinstance(below, dict) and _is_merged((*location, key)):
            result[key] = _merged(below, value, (*location, key))
        else:
            result[key] = value
    return result


def _is_merged(location: tuple[str, ...]) -> bool:
    if location[0] == "variants":
        location = location[2:]  # a variant is a document of its own
    return len(location) < 2 or (len(location) == 2 and location[1] in _MERGED_WITHIN_SECTIONS)


def rebase_files(data: Mapping[str, Any], folder: Path, new_folder: Path) -> None:
    """Make the paths of an included file relative to the file that includes it."""
    variants = data.get("variants")
    for document in (data, *(variants.values() if isinstance(variants, dict) else ())):
        for part, key in _naming_files(document):
            if isinstance(part, dict) and isinstance(name := part.get(key), str):
                given = expanded(name)
                part[key] = name if given.is_absolute() else os.path.relpath(folder / given, new_folder)


def _naming_files(document: Any) -> Iterator[tuple[Any, str]]:
    """Each part of a document (not validated yet) that may name a file, with the key that names it."""
    if isinstance(document, dict):
        yield document.get("records"), "payload_file"
        for section in ("load", "records"):
            if isinstance(inner := document.get(section), dict):
                yield (inner, "trace") if isinstance(inner.get("trace"), str) else (inner.get("trace"), "path")
        if isinstance(system := document.get("system"), dict):
            yield system, "command_config"
            clusters = system.get("clusters")
            yield from (
                (cluster, "command_config") for cluster in (clusters.values() if isinstance(clusters, dict) else ())
            )
