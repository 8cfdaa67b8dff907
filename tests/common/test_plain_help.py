"""The help of commands in a terminal leaves out what says nothing."""

from __future__ import annotations

import os
import subprocess
import sys


def help_of(*command: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "highwater", *command, "--help"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"COLUMNS": "160", "TERMINAL_WIDTH": "160"},
    )
    assert done.returncode == 0, done.stderr
    return [" ".join(line.strip("│ ").split()) for line in done.stdout.splitlines()]


def test_flags_have_no_type_and_defaults_no_parentheses() -> None:
    lines = help_of("broker", "start")
    assert "--verbose Log more." in lines
    assert "--help Show this message and exit." in lines
    assert any(line.startswith("--port <int> [0<=x<=65535] Port to listen on") for line in lines)
    assert "--host <str> Address to listen on and to advertise to clients. [default: 127.0.0.1]" in lines


def test_an_argument_that_may_be_left_out_has_one_pair_of_brackets() -> None:
    assert "Usage: highwater bench plan [OPTIONS] [FILE]" in help_of("bench", "plan")
