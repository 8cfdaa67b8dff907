"""`.ci/commit-subjects`: which commits it checks, and what it accepts, in a repository of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import modules_page

SCRIPT = Path(__file__).parents[1] / ".ci" / "commit-subjects"
IDENTITY = {f"GIT_{who}_{what}": "ci@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
SEVENTY_TWO = "broker: " + "é" * 64


class Repository:
    """A commit from before the rule, then one that brings the script; `commit` adds more on the current branch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("What was written before anybody thought of a rule.")
        (path / ".ci").mkdir()
        shutil.copy(SCRIPT, path / ".ci/commit-subjects")
        self.commit("ci: check the subjects of commits", body="Everybody reads them.")

    def commit(self, subject: str, body: str = "", lines: int = 1) -> None:
        (self.path / "file").write_text("".join(f"{subject}{line}\n" for line in range(lines)))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"{subject}\n\n{body}")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.path, check=True, env=os.environ | IDENTITY, timeout=60)

    def check(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [".ci/commit-subjects", *arguments], cwd=self.path, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("broker: shrink the in-sync replicas", None),
        (SEVENTY_TWO, None),
        (SEVENTY_TWO + "é", "has 73 characters, at most 72 are allowed"),
        ("broker: shrink the in-sync replicas.", "ends with a period"),
        ("Shrink the in-sync replicas", "begins with none of the rooms"),
        ("kitchen: shrink the in-sync replicas", "begins with none of the rooms"),
        ("broker:shrink the in-sync replicas", "begins with none of the rooms"),
        ("brokers: shrink the in-sync replicas", "begins with none of the rooms"),
    ],
)
def test_a_subject_is_a_room_and_a_short_line(subject: str, fault: str | None, repository: Repository) -> None:
    repository.commit(subject)
    done = repository.check()
    assert done.returncode == (1 if fault else 0), done.stderr
    assert (fault or "1 commits after") in done.stdout
    if fault:
        assert f"'{subject}': {fault}" in done.stdout


@pytest.mark.parametrize(("lines", "body", "status"), [(50, "", 0), (51, "", 1), (51, "The reason.", 0)])
def test_a_large_change_says_why(lines: int, body: str, status: int, repository: Repository) -> None:
    repository.commit("broker: start", body="The file is empty before the next commit.", lines=0)
    repository.commit("broker: rewrite the log", body, lines)
    done = repository.check()
    assert done.returncode == status, done.stderr
    assert ("changes 51 lines without a body" in done.stdout) == (status == 1)


def grow(repository: Repository, message: str, **lines: int) -> subprocess.CompletedProcess[str]:
    for room, count in lines.items():
        (repository.path / room).mkdir(exist_ok=True)
        (repository.path / room / "log.py").write_text("".join(f"line = {line}\n" for line in range(count)))
    repository.commit("broker: change the log", message)
    return repository.check()


def test_a_room_that_grows_says_why(repository: Repository) -> None:
    done = grow(repository, "", broker=3, tests=9, common=1)
    assert done.returncode == 1
    grown = "(broker by 3, common by 1|common by 1, broker by 3)"
    assert re.search(f"grows {grown} lines: take as many away", done.stdout)
    assert "lines of Python: broker 3, common 1, product 4\n" in done.stdout
    repository.git("reset", "--quiet", "--soft", "HEAD~1")
    assert grow(repository, "Grows: it has a log now.", broker=3).returncode == 0
    assert grow(repository, "", broker=2).returncode == 0


def test_a_file_that_moves_grows_no_room(repository: Repository) -> None:
    assert grow(repository, "Grows: there was nothing.", broker=40).returncode == 0
    (repository.path / "highwater/kafka").mkdir(parents=True)
    repository.git("mv", "broker/log.py", "highwater/kafka/log.py")
    repository.commit("house: move the log")
    done = repository.check()
    assert done.returncode == 0, done.stdout
    assert "lines of Python: kafka 40, product 40\n" in done.stdout


def test_a_merge_commit_is_exempt_and_the_commits_that_it_brings_are_not(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.commit("what I did today")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "--message", "Merge branch 'topic'", "topic")
    faults = [line for line in repository.check().stdout.splitlines() if "begins with none" in line]
    assert len(faults) == 1
    assert "'what I did today'" in faults[0]


def test_main_is_checked_from_the_commit_that_brought_the_rule(repository: Repository) -> None:
    repository.commit("too old to be mended")
    assert repository.check().returncode == 1
    clone = repository.path / "clone"
    repository.git("clone", "--quiet", str(repository.path), str(clone))
    done = subprocess.run([".ci/commit-subjects"], cwd=clone, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "'too old to be mended'" in done.stdout
    assert "before anybody thought" not in done.stdout


def test_a_branch_is_checked_from_where_it_left_main(repository: Repository) -> None:
    repository.commit("too old to be mended")
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    repository.commit("docs: explain the rule")
    done = repository.check()
    assert done.returncode == 0, done.stdout
    assert "1 commits after" in done.stdout


def test_a_base_can_be_given(repository: Repository) -> None:
    repository.commit("too old to be mended")
    repository.commit("docs: explain the rule")
    assert repository.check("HEAD~1").returncode == 0
    assert repository.check("HEAD~2").returncode == 1


def test_outside_of_a_repository_nothing_is_checked(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci/commit-subjects")
    done = subprocess.run(
        [tmp_path / ".ci/commit-subjects"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
    )
    assert done.returncode == 0
    assert "nothing to check" in done.stdout


def test_every_room_and_folder_with_code_may_be_named_and_lines_of_each_room_of_the_product_are_counted() -> None:
    may_be = {
        name: set(words.split("|")) for name, words in re.findall(r"^(rooms|sized)='(.*)'$", SCRIPT.read_text(), re.M)
    }
    product = {room.name for room in modules_page.rooms()} - {modules_page.PACKAGE}
    folders = {place.parent.name for place in SCRIPT.parents[1].glob("*/__init__.py")} - {modules_page.PACKAGE}
    assert product | folders <= may_be["rooms"]
    assert product <= may_be["sized"]
