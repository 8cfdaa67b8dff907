"""Modules and filters of the playbooks for tests: as Python has them, and run as Ansible runs them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

TREE = Path(__file__).parents[2] / "playbooks"


def load(path: str) -> ModuleType:
    """By its path in the tree, as library/NAME.py."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, TREE / path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def call(module: str, /, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
    """What a module that needs no other files answers; with `failed` when it did."""
    given = {**arguments, "_ansible_check_mode": check, "_ansible_diff": True}
    done = subprocess.run(
        [sys.executable, str(TREE / "library" / f"{module}.py")],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": given}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    assert bool(answer.get("failed")) == (done.returncode != 0)
    return answer
