"""The front door: what holds for every command."""

from __future__ import annotations

import subprocess
import sys

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
