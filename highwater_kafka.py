"""The console commands `highwater` and `highwater-kafka`.

The distribution `highwater` on PyPI belongs to another project and installs a package `highwater` too: of two in
one environment, one overwrites the other. This module is outside of the package, so it is there in any case.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Run the command. Ends with one line and exit status 2 if the package is not ours."""
    found = find_spec("highwater")
    origin = Path(found.origin) if found is not None and found.origin else None
    # Read, not imported: the package of the other project imports what may not be installed.
    if origin is None or "highwater-kafka" not in origin.read_text("utf-8") or not origin.with_name("cli.py").is_file():
        again = f"{sys.executable} -m pip install --force-reinstall --no-deps highwater-kafka"
        if origin is None:
            why = f"the package highwater is not in {Path(__file__).parent}; install it again: {again}"
        else:
            why = (
                f"{origin} belongs to the project 'highwater', which cannot share an environment with highwater-kafka; "
                f"use another environment, or remove it: {sys.executable} -m pip uninstall highwater && {again}"
            )
        sys.stderr.write(f"error: {why}\n")
        sys.exit(2)
    from highwater.cli import main as run_command  # the package may be ours only from here on

    run_command()
