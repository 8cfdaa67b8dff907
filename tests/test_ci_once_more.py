"""`.ci/once-more`: which tests it tries once more, what it says of them, and when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "once-more"
PASSES = "def test_passes(): pass\n"
FAILS_ONCE = """
from pathlib import Path

def test_fails_once():
    seen = Path(__file__).with_name("seen")
    is_seen = seen.exists()
    seen.touch()
    assert is_seen, "the first failure"
"""
FAILS = "def test_fails(): assert False, 'a failure'\n"
SECOND_TIME = "passed only the second time, mend it: test_once.py::test_fails_once (the first failure is above)"


def run(folder: Path, *options: str, **files: str) -> tuple[int, list[str]]:
    """The exit status and the lines of a run in a folder with these tests."""
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci")
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    done = subprocess.run(
        [".ci/once-more", sys.executable, "-m", "pytest", "-p", "tests.forks", *options],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        | {"PYTHONPATH": str(SCRIPT.parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout.splitlines()


def said_at_the_end(folder: Path) -> list[str]:
    kept = folder / "results/ci-once-more/passed-the-second-time"
    return kept.read_text().splitlines() if kept.exists() else []


def test_what_passes_is_run_once(tmp_path: Path) -> None:
    status, lines = run(tmp_path, all=PASSES)
    assert status == 0, lines
    assert len([line for line in lines if "1 passed" in line]) == 1
    assert said_at_the_end(tmp_path) == []


def test_what_passes_only_the_second_time_is_said_last_and_its_failure_is_shown(tmp_path: Path) -> None:
    status, lines = run(tmp_path, "--forks", "2", all=PASSES, once=FAILS_ONCE)
    assert status == 0, lines
    assert any("the first failure" in line for line in lines)
    assert any("1 failed, 1 passed" in line for line in lines)
    assert lines[-1] == SECOND_TIME
    assert said_at_the_end(tmp_path) == [SECOND_TIME]


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    status, lines = run(tmp_path, always=FAILS, once=FAILS_ONCE)
    assert status == 1
    assert lines[-2:] == ["failed twice: test_always.py::test_fails", SECOND_TIME]
    assert said_at_the_end(tmp_path) == [SECOND_TIME]


def test_of_four_that_fail_none_is_tried_again(tmp_path: Path) -> None:
    status, lines = run(tmp_path, a=FAILS, b=FAILS, c=FAILS, once=FAILS_ONCE)
    assert status == 1
    assert lines[-1] == "once-more: 4 failed; up to 3 tests are tried once more"
    assert len([line for line in lines if "4 failed in" in line]) == 1
    assert said_at_the_end(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "text"),
    [((), "import no_such_module\n"), (("--forks", "2"), "import no_such_module\n"), (("-k", "nothing"), PASSES)],
)
def test_a_run_that_does_not_come_to_its_end_fails(tmp_path: Path, options: tuple[str, ...], text: str) -> None:
    """A file that cannot be imported keeps the tests of all others from running."""
    status, lines = run(tmp_path, *options, broken=text, once=PASSES)
    assert status != 0, lines
    assert not any("with nothing beside" in line for line in lines)
