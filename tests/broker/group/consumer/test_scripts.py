"""Consumer groups by script: see tests/broker/group/consumer/script.py for how to read and write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.group.consumer.script import Script
from tests.broker.scripted import wanted_and_outcome

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    text, outcome = wanted_and_outcome(path, Script().run)
    assert outcome == text


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 6
