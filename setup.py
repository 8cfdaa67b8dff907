"""Builds the package; with HIGHWATER_COMPILED=1 the hot modules of the broker as machine code (docs/compiled.md).

pyproject.toml has everything else. An ordinary build needs no compiler, and makes a wheel for every machine.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
BUILT = "build/mypyc"


def compiled() -> list[Extension]:
    """The hot modules. Ends with one line if a tool is missing, or the types do not hold."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        sys.exit("setup.py: HIGHWATER_COMPILED=1 needs a C compiler: apt-get install gcc python3-dev")
    try:
        from mypyc.build import mypycify
    except ImportError:
        sys.exit("setup.py: HIGHWATER_COMPILED=1 needs mypy beside the dependencies: make setup installs both")
    listed = runpy.run_path(str(HERE / "common/compiled.py"))
    names = listed["MODULES"]
    # Not pyproject.toml's settings: those name a plug-in, and a cache that belongs to another set of options.
    options = ["--config-file=", "--strict", "--ignore-missing-imports", f"--cache-dir={BUILT}/types"]
    paths = [f"{name.replace('.', '/')}.py" for name in names]
    level = os.environ.get("HIGHWATER_COMPILED_OPTIMIZE", "3")
    found = mypycify([*options, *paths], opt_level=level, debug_level="0", target_dir=BUILT)
    for each in found:
        # What another compiler than mypyc's authors have warns of is no reason to run Python.
        each.extra_compile_args = [option for option in each.extra_compile_args if option != "-Werror"]
    # As setuptools wants it, the source's name is relative.
    native = (Extension(name, [f"{name.replace('.', '/')}.c"]) for name in listed["NATIVE"])
    return [*found, *native]


asked = os.environ.get("HIGHWATER_COMPILED", "")
if asked not in ("", "0", "1"):
    sys.exit(f"setup.py: HIGHWATER_COMPILED is {asked!r}: set 1 to compile, or nothing")
if asked == "1" and "editable_wheel" in sys.argv:
    # Machine code beside the sources would go on to run after somebody has edited them.
    sys.exit("setup.py: make setup compiles what an editable install runs: unset HIGHWATER_COMPILED, or build a wheel")
# pip asks for the metadata first, which is the same for both.
is_built = asked == "1" and not {"egg_info", "dist_info"}.intersection(sys.argv)
setup(ext_modules=compiled() if is_built else [])
