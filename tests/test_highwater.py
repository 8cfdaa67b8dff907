"""The front door: what holds for every command."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from highwater.common import distribution

ROOT = Path(__file__).parent.parent

# Interrupted as late as can be: Python has given up its signal handlers and is clearing the modules.
INTERRUPTED_AT_ITS_END = """
import os, signal, sys
class Last:
    def __del__(self, interrupt=os.kill, process_id=os.getpid(), number=signal.SIGINT):
        interrupt(process_id, number)
last = Last()
from highwater.cli import main
main()
"""


def test_a_ctrl_c_at_the_very_end_leaves_the_status_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_ITS_END, "bench", "no-such-command"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: "), done.stderr


def test_the_version_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "highwater", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"highwater {distribution.version()}\n", "")


def test_the_version_is_the_latest_of_the_change_log() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    releases = re.findall(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert releases[0] == version
