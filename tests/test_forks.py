"""`tests/forks.py`: each test runs once and is told, in forks that clean up behind themselves, whatever ends a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
TAKEN_DOWN = """
import os, time
from pathlib import Path

import pytest

HERE = Path(__file__).parent

@pytest.fixture(scope="session", autouse=True)
def prepared():
    yield
    (HERE / f"taken-down-{os.getpid()}").touch()

@pytest.fixture
def broken():
    raise ValueError("a broken fixture")

@pytest.fixture
def both_run(request, tmp_path):
    \"\"\"The first test of each of two files waits for the other one, so that two forks run them.\"\"\"
    (HERE / f"{request.path.stem}.seen").write_text(f"{os.getpid()} {tmp_path.parent}")
    until = time.monotonic() + 60
    while len(list(HERE.glob("*.seen"))) < 2 and time.monotonic() < until:
        time.sleep(0.01)
"""
PASSES = "def test_passes(both_run): pass\n"


def begin(folder: Path, *options: str, **files: str) -> subprocess.Popen[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(TAKEN_DOWN)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.forks", "--forks", "2", *options]
    # What a shell starts in the background ignores SIGINT, and so does all that it starts.
    return subprocess.Popen(
        ["env", "--default-signal=INT", *command],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, *options: str, **files: str) -> tuple[int, str]:
    with begin(folder, *options, **files) as tests:
        printed, _ = tests.communicate(timeout=120)
        return tests.returncode, printed


def test_each_outcome_is_told_once(tmp_path: Path) -> None:
    other = f"""import pytest
{PASSES}
def test_fails(capsys): assert not print("what it printed")
def test_is_wrong(): assert not print("what it printed") and False
@pytest.mark.skip
def test_is_skipped(): pass
@pytest.mark.xfail
def test_is_expected(): assert False
def test_has_no_fixture(broken): pass
"""
    status, printed = run(tmp_path, "--junitxml=told.xml", one=PASSES, two=other)
    assert status == 1, printed
    # The file is pytest's own, not something that came over a network.
    cases = ElementTree.parse(tmp_path / "told.xml").iter("testcase")  # noqa: S314
    told = sorted((case.get("classname"), case.get("name"), *(part.tag for part in case)) for case in cases)
    assert told == [
        ("test_one", "test_passes"),
        ("test_two", "test_fails"),
        ("test_two", "test_has_no_fixture", "error"),
        ("test_two", "test_is_expected", "skipped"),
        ("test_two", "test_is_skipped", "skipped"),
        ("test_two", "test_is_wrong", "failure"),
        ("test_two", "test_passes"),
    ]
    assert printed.count("what it printed\n") == 1
    assert "1 failed, 3 passed, 1 skipped, 1 xfailed, 1 error in" in printed
    seen = {path.read_text() for path in tmp_path.glob("*.seen")}
    assert len({text.split()[0] for text in seen}) == len({text.split()[1] for text in seen}) == 2
    assert {path.name for path in tmp_path.glob("taken-down-*")} == {f"taken-down-{text.split()[0]}" for text in seen}


def test_a_process_that_dies_is_a_test_that_failed(tmp_path: Path) -> None:
    dies = "import os\ndef test_dies(): os.kill(os.getpid(), 9)\ndef test_behind(): pass\n"
    status, printed = run(tmp_path, dead=dies, one="def test_passes(): pass\n", two="def test_passes(): pass\n")
    assert status == 1, printed
    assert "The process of this test ended (-9); tests behind it in its file were not run." in printed
    assert "1 failed, 2 passed in" in printed


def test_after_an_interruption_nothing_is_left(tmp_path: Path) -> None:
    waits = "import time\ndef test_waits(both_run): time.sleep(0.5)\n" + "".join(
        f"def test_more_{number}(): time.sleep(0.5)\n" for number in range(100)
    )
    with begin(tmp_path, one=waits, two=waits) as tests:
        while len(list(tmp_path.glob("*.seen"))) < 2:
            assert tests.poll() is None
        tests.send_signal(signal.SIGINT)
        printed, _ = tests.communicate(timeout=60)
    assert tests.returncode == 2, printed
    assert len(list(tmp_path.glob("taken-down-*"))) == 2
