"""A few rounds of the kill drill; all of them are `make drills`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drills.kill9 import drill

pytestmark = [pytest.mark.clients, pytest.mark.slow]


def test_a_few_kills_break_no_promise(tmp_path: Path) -> None:
    counts = drill(rounds=3, seed=3, directory=tmp_path, tell=lambda line: None)
    assert counts["kills of a running broker"] >= 3
    assert counts["Writer: promises checked"] > 100
    assert list(tmp_path.iterdir()) == []
