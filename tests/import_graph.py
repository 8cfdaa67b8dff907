"""The graph of imports between the files of this repository, read from their source.

A file of the package is named by its place in it, another by its place in the repository: `broker/node.py` is
`broker.node`, however it is imported. Some rooms stand at the top level, and `highwater/` has links to these.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "highwater"
FOLDERS = (
    "highwater",
    "bench",
    "broker",
    "common",
    "monitor",
    "pipeline",
    "playbooks",
    "reports",
    "spark_loadgen",
    "tests",
    "tools",
    "tuning",
)
# Import names that stand for a folder of the repository; the longest first.
_ROOTS = {
    "ansible.module_utils.highwater": "",
    "ansible.module_utils": "playbooks.module_utils",
    "highwater": "",
}


def place_of(name: str) -> Path:
    """Return where a room, a folder or a file of the package stands: `kafka/records` or `broker/node.py`."""
    return (PACKAGE / name).resolve()


def rooms() -> tuple[str, ...]:
    """The rooms of the package, in the order of their names."""
    return tuple(sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()))


def import_graph(root: Path = ROOT) -> dict[str, set[str]]:
    """Return each file below `root` with the files that it imports, in functions and for annotations too.

    `from package import name` is an import of the file that defines the name: an `__init__.py` that hands it on is
    looked through. Folders that are links are left out: their files are counted where they stand.
    """
    modules = _modules(root)
    return {module: {to for to in _imports(module, path, modules) if to != module} for module, path in modules.items()}


def reached_from(starts: Callable[[str], bool]) -> list[str]:
    """Return the files of this repository whose names `starts` holds for, and all that these import."""
    modules = _modules(ROOT)
    waiting = list(filter(starts, modules))
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imports(name, modules[name], modules)
    return sorted(found)


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of files that import each other, directly or through others (strongly connected components)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_files: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:  # Tarjan's algorithm
        index[module] = lowest[module] = len(index)
        open_files.append(module)
        for imported in sorted(graph[module]):
            if imported not in index:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in open_files:
                lowest[module] = min(lowest[module], index[imported])
        if lowest[module] == index[module]:
            start = open_files.index(module)
            component = set(open_files[start:])
            del open_files[start:]
            if len(component) > 1:
                found.append(component)

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def _modules(root: Path) -> dict[str, Path]:
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            inside = path.relative_to(root)
            if not any((root / parent).is_symlink() for parent in inside.parents):
                parts = inside.with_suffix("").parts
                found[_named_here(".".join(parts[:-1] if parts[-1] == "__init__" else parts))] = path
    return found


@cache
def import_nodes(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return the imports of a file, in functions too.

    Expressions are not walked, which have most of the nodes. No tree is kept: two million objects would make
    collections of garbage take seconds in later tests.
    """
    nodes: list[ast.AST] = [ast.parse(path.read_text("utf-8"), str(path))]
    for node in nodes:
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes.extend(getattr(node, block, ()))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def _imports(module: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            yield from (name for alias in node.names if (name := _named_here(alias.name)) in modules)
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, path, node)
            yield from (to for alias in node.names if (to := _defining(base, alias.name, modules)) is not None)


def _base(module: str, path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return _named_here(node.module or "")
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    above = package[: len(package) - node.level + 1]
    return ".".join([*above, node.module] if node.module else above)


def _named_here(name: str) -> str:
    for root, place in _ROOTS.items():
        if name == root or name.startswith(f"{root}."):
            rest = name[len(root) + 1 :]
            return ".".join(part for part in (place, rest) if part)
    return name


def _defining(base: str, name: str, modules: Mapping[str, Path]) -> str | None:
    """Return the file that defines what `from base import name` brings, None for one of another project."""
    inside = f"{base}.{name}" if base else name
    if inside in modules:
        return inside
    path = modules.get(base)
    if path is None:
        return None
    if path.name == "__init__.py":
        for node in import_nodes(path):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return _defining(_base(base, path, node), alias.name, modules) or base
    return base
