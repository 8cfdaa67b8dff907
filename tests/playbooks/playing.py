"""Ansible's commands as an operator runs them; what they keep of their own is in a directory of the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.playbooks.modules import TREE

_TIMEOUT_S = 150

Played: TypeAlias = subprocess.CompletedProcess[str]


def play(folder: Path, *arguments: str | Path, directory: Path = TREE, **variables: Any) -> Played:
    """`ansible-playbook` with these arguments and extra variables, run in `directory`."""
    extra = ("-e", json.dumps(variables)) if variables else ()
    return run(folder, "ansible-playbook", *arguments, *extra, directory=directory)


def play_part(folder: Path, role: str, part: str, inventory: dict[str, Any], *options: str, **variables: Any) -> Played:
    """A part of a role alone, as tasks/assert.yml, on hosts of an inventory that all are this machine."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    hosts = {"all": {"vars": local, **inventory}}
    tasks = [{"name": "Play it", "ansible.builtin.include_role": {"name": role, "tasks_from": part}}]
    facts = {"gather_facts": True, "gather_subset": ["min", "hardware"]}
    plays = [{"name": "Play a part", "hosts": "all", **facts, "tasks": tasks}]
    for name, content in (("hosts.yml", hosts), ("part.yml", plays)):
        (folder / name).write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
    # Roles, modules and filters are found beside a playbook.
    for path in TREE.iterdir():
        if path.is_dir():
            (folder / path.name).symlink_to(path)
    return play(folder, "-i", "hosts.yml", "part.yml", *options, directory=folder, **variables)


def unpack(packed: Path, folder: Path, prefix: str = "") -> None:
    """The files whose names and texts a play put into one file of JSON: each file that a play writes costs a second."""
    folder.mkdir(exist_ok=True)
    for name, text in json.loads(packed.read_text("utf-8")).items():
        (folder / f"{prefix}{name}").write_text(text, "utf-8")


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
