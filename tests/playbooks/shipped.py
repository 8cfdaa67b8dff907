"""Modules and filters of playbooks/ as Python modules. Ansible finds them by their folder, and no package has them."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import ansible.module_utils

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
# Ansible puts what a module imports there.
ansible.module_utils.__path__.append(str(PLAYBOOKS / "module_utils"))


@cache
def shipped(path: str) -> Any:
    """path: below playbooks/, as "library/highwater_packages.py"."""
    name = f"shipped_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, PLAYBOOKS / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Data classes look their module up by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
