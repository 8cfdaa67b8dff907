"""`.ci/gate`: what it makes of each exit status of `highwater bench gate`, in a repository of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.import_graph import ROOT, place_of
from tests.test_architecture import MAY_IMPORT

SCRIPT = Path(__file__).parents[1] / ".ci" / "gate"
IDENTITY = {f"GIT_{who}_{what}": "ci@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Repository:
    """A broker of two commits, and a `highwater` that ends with `exit_status` and says what it was asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._git("init", "--quiet", "--initial-branch=main")
        for name in ("pyproject.toml", "constraints.txt"):
            (path / name).write_text("")
        (path / ".ci").mkdir()
        shutil.copy(SCRIPT, path / ".ci/gate")
        self.commit("the first broker")

    def commit(self, message: str, where: str = "broker/log.py") -> None:
        file = self.path / where
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(message)
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", message)

    def gate(self, exit_status: int) -> subprocess.CompletedProcess[str]:
        highwater = self.path / ".venv/bin/highwater"
        highwater.parent.mkdir(parents=True, exist_ok=True)
        highwater.write_text(f'#!/bin/sh\necho "asked: $*"\nexit {exit_status}\n')
        highwater.chmod(0o755)
        return subprocess.run([".ci/gate"], cwd=self.path, capture_output=True, text=True, check=False, timeout=60)

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.path, check=True, env=os.environ | IDENTITY, timeout=60)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize(
    ("exit_status", "status", "words"),
    [
        (0, 0, "asked: bench gate git:"),
        (3, 3, "asked: bench gate git:"),
        (4, 0, "no verdict (exit status 4)"),
        (10, 10, "end a commit message with 'Slower: REASON'"),
        (130, 130, "asked: bench gate git:"),
    ],
)
def test_a_confirmed_regression_and_a_broker_that_fails_hold_a_change_back(
    exit_status: int, status: int, words: str, repository: Repository
) -> None:
    repository.commit("the second broker")
    done = repository.gate(exit_status)
    assert done.returncode == status, done.stderr
    assert words in done.stdout


def test_a_regression_that_is_meant_says_why(repository: Repository) -> None:
    repository.commit("the second broker\n\nSlower: it checks every batch now")
    done = repository.gate(10)
    assert done.returncode == 0
    assert "a regression, and meant: it checks every batch now" in done.stdout
    assert repository.gate(3).returncode == 3


def test_the_reason_of_a_change_that_is_in_excuses_no_later_one(repository: Repository) -> None:
    repository.commit("the second broker\n\nSlower: it checks every batch now")
    repository.commit("the third broker")
    assert repository.gate(10).returncode == 10


@pytest.mark.parametrize("room", ["broker", *MAY_IMPORT["broker"]])
def test_a_change_of_what_a_broker_runs_is_measured(room: str, repository: Repository) -> None:
    repository.commit("the second broker", str(place_of(room).relative_to(ROOT) / "new.py"))
    assert repository.gate(10).returncode == 10


def test_a_change_of_nothing_in_the_broker_is_not_measured(repository: Repository) -> None:
    repository.commit("words", "docs.md")
    done = repository.gate(10)
    assert done.returncode == 0
    assert "nothing of the broker changed" in done.stdout
