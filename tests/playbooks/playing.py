"""Ansible's commands as an operator runs them; what they keep of their own is in a directory of the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

from tests.playbooks.modules import TREE

_TIMEOUT_S = 150

Played: TypeAlias = subprocess.CompletedProcess[str]


def play(folder: Path, *arguments: str | Path, directory: Path = TREE, **variables: Any) -> Played:
    """`ansible-playbook` with these arguments and extra variables, run in `directory`."""
    extra = ("-e", json.dumps(variables)) if variables else ()
    return run(folder, "ansible-playbook", *arguments, *extra, directory=directory)


def run(folder: Path, program: str, *arguments: str | Path, directory: Path = TREE) -> Played:
    """Any command of Ansible's."""
    environment = {
        **os.environ,
        "ANSIBLE_HOME": str(folder / "ansible-home"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "ansible-local"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "ansible-remote"),
        "ANSIBLE_NOCOLOR": "1",
    }
    return subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )


def succeeded(played: Played) -> Played:
    assert played.returncode == 0, played.stdout + played.stderr
    return played
