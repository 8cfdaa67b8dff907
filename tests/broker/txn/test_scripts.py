"""Transactional ids by script: see tests/broker/txn/script.py for how to read and write them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.broker.txn.script import outcome_of

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    text = path.read_text("utf-8")
    outcome = outcome_of(text)
    if os.environ.get("REWRITE_SCRIPTS"):
        path.write_text(outcome, "utf-8")
    else:
        assert outcome == text


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 6
