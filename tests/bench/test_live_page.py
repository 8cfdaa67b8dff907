"""`bench run --watch`: the page of a real run, read while it runs, at its end, and after it was killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from highwater.bench.verify import disagreements
from highwater.common.child_process import HIGHWATER
from highwater.results.reader import RunResult
from tests.bench.test_real_broker import TINY
from tests.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.usefixtures("host_settings_stay")]

_WITHIN_S: Final = 120.0


class Watched:
    """A run, and its page as a browser sees it."""

    def __init__(self, run: subprocess.Popen[str], told: Path) -> None:
        self.run = run
        self._told = told
        wait_until(lambda: "live page: " in self._text, "the link", _WITHIN_S)
        found = re.search(r"live page: (http://127\.0\.0\.1:\d+/[\w-]{16}/)", self._text)
        assert found is not None
        self.link = found[1]

    @property
    def _text(self) -> str:
        return self._told.read_text("utf-8")

    def get(self, name: str) -> str:
        with urllib.request.urlopen(self.link + name, timeout=60) as answer:  # noqa: S310 - http on loopback
            return str(answer.read().decode())

    def now(self) -> dict[str, Any]:
        return dict(json.loads(self.get("wide")))

    def page_processes(self) -> list[psutil.Process]:
        children = psutil.Process(self.run.pid).children()
        return [child for child in children if child.cmdline()[-2:-1] == ["watch"]]


@contextmanager
def watched_run(tmp_path: Path, measure: str) -> Iterator[Watched]:
    workload = tmp_path / "tiny.yaml"
    workload.write_text(TINY.replace("measure: 2s", f"measure: {measure}"), "utf-8")
    told = tmp_path / "told"
    command = [*HIGHWATER, "bench", "run", str(workload), "--out", str(tmp_path / "out"), "--launcher", "process"]
    with told.open("w") as output:
        run = subprocess.Popen([*command, "--watch"], stdout=output, stderr=output, text=True, start_new_session=True)
    try:
        yield Watched(run, told)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def test_the_page_follows_a_run_and_ends_as_its_report(tmp_path: Path) -> None:
    with watched_run(tmp_path, "8s") as watched:
        assert "connect-src &#39;self&#39;" in watched.get("")
        wait_until(lambda: "<svg" in watched.now()["html"], "a chart", _WITHIN_S)
        answer = watched.now()
        assert answer["title"].startswith("Trial 1 of ")
        assert (answer["died"], answer["over"], answer["report"]) == (False, False, False)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(re.sub(r"/[\w-]{16}/$", "/", watched.link), timeout=60)  # noqa: S310
        (page,) = watched.page_processes()
        assert page.nice() == 19
        # The page asks on, as a browser does, until it has the report.
        wait_until(lambda: watched.now()["report"], "the report", _WITHIN_S)
        assert "Highwater report" in watched.get("report")
        assert watched.run.wait(_WITHIN_S) == 0
        assert not page.is_running()
    out = tmp_path / "out"
    assert (out / "report.html").is_file()
    assert not (out / "live.jsonl").exists()
    assert (RunResult(out).manifest.live_page_cpu_s or 0) > 0, "the run records what its page cost"
    assert list(disagreements(RunResult(out))) == []


def test_the_page_of_a_run_that_was_killed_says_so(tmp_path: Path) -> None:
    with watched_run(tmp_path, "60s") as watched:
        wait_until(lambda: "<svg" in watched.now()["html"], "a chart", _WITHIN_S)
        (page,) = watched.page_processes()
        os.kill(watched.run.pid, signal.SIGKILL)
        watched.run.wait()
        wait_until(lambda: watched.now()["died"], "the page says that the run died", _WITHIN_S)
        assert re.match(r"The run died .* ago: its process ended after \d\d:\d\d:\d\d UTC", watched.now()["title"])
        page.terminate()
        page.wait(60)
