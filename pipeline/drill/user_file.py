"""Loads a Python file of the user: a query, or a sink."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from highwater.pipeline.drill.errors import DrillSetupError


class UserFileError(DrillSetupError):
    """The file cannot be used. The text names it, and says what it lacks."""


def load(path: Path, functions: Sequence[str]) -> ModuleType:
    """Run the file as a module. Raises UserFileError if it fails or has not these functions."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserFileError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserFileError(f"{path} cannot be run: {type(error).__name__}: {error}") from None
    if missing := [name for name in functions if not callable(getattr(module, name, None))]:
        raise UserFileError(f"{path} has no function {' and no function '.join(missing)}")
    return module
