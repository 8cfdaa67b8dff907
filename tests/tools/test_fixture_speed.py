"""The page of what a broker for a test takes to start."""

from __future__ import annotations

from tools.fixture_speed import Start, page, row


def test_the_page_has_medians_and_its_command() -> None:
    starts = [Start(ready_ms=40.0 + n, acknowledged_ms=60.0 + 10 * n, cpu_ms=20.0) for n in range(3)]
    text = page([row("forked", starts)], "Measured here.")
    assert "| forked | 3 | 70 | 60 to 80 | 41 | 20 |\n\nMeasured here.\n" in text
    assert "python -m tools.fixture_speed --page" in text
