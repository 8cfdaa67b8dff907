"""Plans of these tests draw fewer times than a user's: intervals come from all draws, and take most of the time."""

from __future__ import annotations

from functools import partial

import pytest

from highwater.studies.capacity import plan
from highwater.studies.capacity.draws import draws


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "draws", partial(draws, count=100))
