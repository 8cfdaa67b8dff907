"""The build of a checkout's machine code: whole or not at all, once for the same sources; one line if it fails."""

from __future__ import annotations

import fcntl
import sys
import sysconfig
from pathlib import Path

import pytest

from highwater.common.compiled import SUFFIX, build_of, builds
from tools import compile as compiling
from tools.compile import CannotCompileError, Missing, compile_hot_modules

# What stands for setup.py: it writes what the build is to be, or does what a test says.
SETUP = """
import os, sys
from pathlib import Path
assert os.environ["HIGHWATER_COMPILED"] == "1"
place = Path(sys.argv[sys.argv.index("--build-lib") + 1])
place.mkdir(parents=True)
(place / "made").touch()
print("warning: as compilers do")
{does}
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "checkout"
    for name in ("broker", "common", "highwater/kafka"):
        (place / name).mkdir(parents=True)
    (place / "constraints.txt").touch()
    monkeypatch.setattr(compiling, "missing", lambda: None)
    return with_setup(place)


def with_setup(checkout: Path, does: str = "") -> Path:
    (checkout / "setup.py").write_text(SETUP.format(does=does))
    return checkout


def names(checkout: Path) -> set[str]:
    return {path.name for path in builds(checkout).iterdir()}


def test_a_build_is_made_once_for_the_same_sources(checkout: Path) -> None:
    assert compile_hot_modules(checkout)
    assert not compile_hot_modules(checkout)
    place = build_of(checkout)
    assert [path.name for path in place.iterdir()] == ["made"]
    assert names(checkout) == {place.name, "lock", "log", f"seen{SUFFIX}.txt"}


def test_a_build_that_is_killed_leaves_none_and_is_made_anew(checkout: Path) -> None:
    with_setup(checkout, "import signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(CannotCompileError):
        compile_hot_modules(checkout)
    assert not build_of(checkout).exists()
    assert (builds(checkout) / "unfinished/made").is_file()
    with_setup(checkout)
    assert compile_hot_modules(checkout)
    assert (build_of(checkout) / "made").is_file()
    assert not (builds(checkout) / "unfinished").exists()


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("print('cc: fatal error: no room\\n1 warning'); sys.exit(1)", "cc: fatal error: no room (all of it: {log})"),
        ("sys.exit('setup.py: one line')", "setup.py: one line (all of it: {log})"),
        ("sys.exit('error: ' + 'long ' * 100)", "error:" + " long" * 37 + " [...] (all of it: {log})"),
        ("Path('broker/new.py').touch()", "the sources changed meanwhile; try again"),
    ],
)
def test_what_fails_is_one_line(does: str, says: str, checkout: Path) -> None:
    with_setup(checkout, does.replace("\n", "\\n"))
    with pytest.raises(CannotCompileError) as raised:
        compile_hot_modules(checkout)
    assert str(raised.value) == says.format(log=builds(checkout) / "log")
    assert not build_of(checkout).exists()


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setenv("CC", "/nowhere/cc -m64")
    assert str(compiling.missing()) == "there is no compiler /nowhere/cc -m64, which CC names"
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compiling.missing() == Missing("there is no C compiler", ("gcc", "libc6-dev", "python3-dev"))
    (tmp_path / "cc").write_text("#!/bin/sh\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert compiling.missing() == Missing(f"there are no headers of Python in {tmp_path}", ("python3-dev",))
    monkeypatch.setattr(sys, "base_prefix", "/opt/python")
    assert str(compiling.missing()) == f"there are no headers of Python in {tmp_path}"
    (tmp_path / "Python.h").touch()
    assert compiling.missing() is None


def test_a_checkout_of_somebody_else_has_the_build_that_is_there(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(builds(checkout) / "lock"))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(CannotCompileError, match=f"^{builds(checkout)}/lock: Permission denied$"):
        compile_hot_modules(checkout)
    build_of(checkout).mkdir()
    assert not compile_hot_modules(checkout)


def test_builds_of_other_sources_are_kept_for_a_while(checkout: Path) -> None:
    made = []
    for number in range(6):
        (checkout / "constraints.txt").write_text(str(number))
        assert compile_hot_modules(checkout)
        made.append(build_of(checkout).name)
    assert made[-1] in names(checkout)
    assert len(names(checkout).intersection(made)) == 4


def test_the_command_says_one_line_and_names_packages(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiling, "ROOT", checkout)
    monkeypatch.setattr(compiling, "missing", lambda: Missing("there is no C compiler cc", ("gcc", "python3-dev")))
    assert compiling.main(["--packages"]) == 0
    assert compiling.main([]) == 1
    why = "there is no C compiler cc: apt-get install gcc python3-dev"
    line = f"the broker runs as Python, and a request takes more CPU time: {why}\n"
    assert capsys.readouterr() == ("gcc python3-dev", line)
    monkeypatch.setattr(compiling, "missing", lambda: None)
    assert compiling.main([]) == 0
    out, error = capsys.readouterr()
    assert (len(out.splitlines()), error) == (2, "")
    assert compiling.main(["--packages"]) == compiling.main([]) == 0
    assert capsys.readouterr() == ("", ""), "nothing is left to do"
