"""tests/tuning/README.md names tests; all of them exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_test_that_the_page_names_is_there() -> None:
    page = (ROOT / "tests/tuning/README.md").read_text("utf-8")
    folders = (ROOT / "tests/tuning", ROOT / "tests/bench/prove")
    files = [file for folder in folders for file in folder.rglob("test_*.py")]
    functions = (re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE) for file in files)
    there = {*(file.name for file in files), *(name for names in functions for name in names)}
    named = set(re.findall(r"`(test_[\w.]+)`", page))
    assert len(named) > 40
    assert named - there == set()
