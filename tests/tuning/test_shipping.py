"""What Ansible ships to hosts runs there: Python's own library, imported from wherever the room is put."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.import_graph import import_graph, import_nodes, place_of, reached_from

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "tuning"
STAYS_HERE = ("cli", "schemas")


def shipped() -> list[Path]:
    """The modules of the room that run on hosts, and all that these import."""
    names = reached_from(lambda name: name.split(".")[0] == "tuning" and name.split(".")[1:2] != ["cli"])
    places = (place_of(name.replace(".", "/")) for name in names)
    return [place / "__init__.py" if place.is_dir() else place.with_suffix(".py") for place in places]


SHIPPED = shipped()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_needs_nothing_that_a_host_may_lack(path: Path) -> None:
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        else:
            continue
        for module in modules:
            assert module.partition(".")[0] in sys.stdlib_module_names, f"{path.name} imports {module}"


def test_the_room_imports_nothing_of_another_but_what_all_share() -> None:
    graph = import_graph()
    rooms = {imported.partition(".")[0] for file, of in graph.items() if file.startswith("tuning.") for imported in of}
    assert rooms == {"tuning", "common"}


def test_no_data_file_is_needed_on_a_host() -> None:
    """AnsiballZ carries modules and nothing else."""
    others = [
        path
        for path in ROOM.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and path.relative_to(ROOM).parts[0] not in STAYS_HERE
    ]
    assert others == []
