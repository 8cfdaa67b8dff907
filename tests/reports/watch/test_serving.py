"""What pages of a run get: a new picture, or, where the host is busy with the run, the one before and its age."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from highwater.common.live_figures import LiveFigures
from highwater.drawing.plot import Size
from highwater.reports.watch.picture import NARROW, WIDE
from highwater.reports.watch.serving import Pictures, WatchedRun

NOON_S = 1_800_000_000.0


class SlowRun(WatchedRun):
    """Draws only when it may."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.may_draw = threading.Event()
        self.may_draw.set()

    def answer(self, size: Size) -> dict[str, Any]:
        assert self.may_draw.wait(60)
        return super().answer(size)


@pytest.fixture
def live(tmp_path: Path) -> LiveFigures:
    figures = LiveFigures(tmp_path, "orders", [], "highwater bench run a.yaml")
    figures.say("Trial 1 of 2.")
    return figures


def test_a_picture_that_takes_long_is_the_one_before_with_its_age(tmp_path: Path, live: LiveFigures) -> None:
    clock = [NOON_S]

    async def asked() -> None:
        run = SlowRun(tmp_path)
        pictures = Pictures(run, patience_s=0.05, now_s=lambda: clock[0])
        run.may_draw.clear()
        live.say("Trial 2 of 2.")
        clock[0] += 20
        answer = json.loads(await pictures.newest(WIDE))
        assert (answer["title"], "Trial 1 of 2." in answer["html"]) == ("Trial 1 of 2.", True)
        assert answer["late"] == "This picture is 20 s old: the host is busy, and the run comes before its page."
        clock[0] += 20
        assert "is 40 s old" in json.loads(await pictures.newest(WIDE))["late"], "one drawing at a time"
        run.may_draw.set()
        for _ in range(600):
            answer = json.loads(await pictures.newest(WIDE))
            if answer["title"] == "Trial 2 of 2." and not answer["late"]:
                return
        pytest.fail("the page never got the new picture")

    asyncio.run(asked())
    live.finish("done")


def test_a_page_has_a_picture_before_anybody_asks(tmp_path: Path, live: LiveFigures) -> None:
    run = WatchedRun(tmp_path)
    pictures = Pictures(run)
    assert run.asked_s is None, "at the end nobody is waited for"
    live.finish("All of it is done.")
    answer = json.loads(asyncio.run(pictures.newest(NARROW)))
    assert (answer["title"], answer["late"]) == ("All of it is done.", "")
    assert run.asked_s is not None


def test_a_bug_in_a_picture_is_told(tmp_path: Path, live: LiveFigures, monkeypatch: pytest.MonkeyPatch) -> None:
    run = WatchedRun(tmp_path)
    pictures = Pictures(run)
    monkeypatch.setattr(run, "answer", lambda size: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(pictures.newest(WIDE))
    live.finish("done")
