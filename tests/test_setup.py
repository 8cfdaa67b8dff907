"""setup.sh: which Python it takes for .venv, when it compiles; with programs in its way that only answer and record."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A program that every user may run; the temporary directory of a test is closed to others.
OPEN = "/usr/bin/env"
# Answers what setup.sh asks of a Python. As a .venv it makes a copy of itself.
PYTHON = """#!/bin/sh
case "$*" in
  *realpath*) echo {interpreter} ;;
  --version) echo "Python 3.11.9" ;;
  "-m venv --clear .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo {interpreter} >> made ;;
  *"pip install"*) echo "Successfully installed" ;;
  *"tools.compile --packages") cat packages 2>/dev/null || true ;;
  *tools.compile) echo "compiled" >> made; [ ! -e broken ] ;;
esac
"""
# As root, which a mode does not keep from writing.
BOUND = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


@dataclass(frozen=True, slots=True)
class Clone:
    directory: Path
    programs: Path

    def program(self, name: str, text: str) -> Path:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def python(self, name: str, interpreter: str | Path) -> Path:
        return self.program(name, PYTHON.format(interpreter=interpreter))

    def set_up(
        self, *prefix: str, profile: str = "run", user: int = 0, python: Path | None = None, compiled: str = "0"
    ) -> tuple[int, str]:
        """Exit status, and what was printed to standard error."""
        self.program("id", f"#!/bin/sh\necho {user}\n")
        environment = {"PATH": f"{self.programs}:/usr/bin:/bin", "COMPILED": compiled}
        environment |= {"PYTHON": str(python)} if python else {}
        command = [*prefix, str(self.directory / "setup.sh"), profile]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def made(self) -> list[str]:
        """The interpreter of each .venv that was made, and each call of the compiler, in order."""
        log = self.directory / "made"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    found = Clone(tmp_path / "clone", tmp_path / "programs")
    found.directory.mkdir()
    found.programs.mkdir()
    for name in ("setup.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, found.directory)
    shutil.copytree(ROOT / "requirements", found.directory / "requirements")
    found.program("java", """#!/bin/sh\necho 'openjdk version "17.0.1"' >&2\n""")
    found.program("fio", "#!/bin/sh\n")
    return found


def test_root_takes_a_python_that_others_may_run(clone: Clone, tmp_path: Path) -> None:
    clone.python("python3", tmp_path)
    clone.python("python3.11", OPEN)
    assert clone.set_up() == (0, "")
    assert clone.made() == [OPEN]


def test_other_users_keep_the_python_of_their_path(clone: Clone, tmp_path: Path) -> None:
    clone.python("python3", tmp_path)
    clone.python("python3.11", OPEN)
    assert clone.set_up(user=1000) == (0, "")
    assert clone.made() == [str(tmp_path)]


def test_root_is_told_of_a_python_that_others_may_not_run(clone: Clone, tmp_path: Path) -> None:
    status, error = clone.set_up(python=clone.python("chosen", tmp_path))
    assert status == 0
    (line,) = error.splitlines()
    assert f"other users cannot use this clone, as they may not run {tmp_path}" in line
    assert line.endswith("PYTHON=/usr/bin/python3 ./setup.sh")


def test_what_serves_is_kept_and_what_does_not_is_made_anew(clone: Clone) -> None:
    clone.python("python3", OPEN)
    clone.set_up()
    clone.set_up()
    assert clone.made() == [OPEN]
    (clone.directory / ".venv" / "bin" / "python").unlink()
    clone.set_up()
    assert clone.made() == [OPEN, OPEN]
    clone.set_up(python=clone.python("another", "/usr/bin/dirname"))
    assert clone.made() == [OPEN, OPEN, "/usr/bin/dirname"]


def test_a_python_that_was_named_and_cannot_serve_is_an_error(clone: Clone) -> None:
    status, error = clone.set_up(python=clone.program("none", "#!/bin/sh\nexit 1\n"))
    assert status == 2
    assert error == (
        f"setup.sh: PYTHON={clone.programs / 'none'} is not a Python 3.11 or newer with venv: name another, "
        "or unset PYTHON\n"
    )


def test_a_package_with_another_hash_is_one_line_and_the_set_up_is_not_done(clone: Clone) -> None:
    refusing = PYTHON.replace('echo "Successfully installed"', "cat refusal >&2; exit 1")
    clone.program("python3", refusing.format(interpreter=OPEN))
    (clone.directory / "refusal").write_text(
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated ...\n"
        "    pip==26.3 from https://index/pip-26.3.whl#sha256=ab (from -r requirements/tools.txt (line 2)):\n"
        "        Expected sha256 cd\n             Got        ab\n"
    )
    status, error = clone.set_up()
    said = (
        "setup.sh: requirements/ pins another file than pip==26.3 from https://index/pip-26.3.whl#sha256=ab "
        "(from -r requirements/tools.txt (line 2)): nothing was installed; find out who changed it\n"
    )
    assert (status, error) == (1, said)
    assert not (clone.directory / ".venv" / ".highwater-setup").exists()


def test_a_clone_of_somebody_else_is_one_line(clone: Clone) -> None:
    clone.python("python3", OPEN)
    clone.directory.chmod(0o555)
    status, error = clone.set_up(*BOUND, user=1000)
    assert status == 2
    (line,) = error.splitlines()
    assert line.startswith("setup.sh: .venv has to be made or updated, and only ")
    assert line.endswith(f" may write in {clone.directory}: clone Highwater into a directory of your own")
    assert clone.made() == []


def test_what_runs_is_compiled_and_edits_are_tested_without(clone: Clone) -> None:
    clone.python("python3", OPEN)
    for name in ("udevadm", "mkfs.xfs", "zsh", "fish", "mandoc", "iperf3"):
        clone.program(name, "#!/bin/sh\n")
    compiled = []
    for profile, asked in (("dev", "0"), ("dev", ""), ("run", ""), ("run", "0"), ("dev", "1")):
        before = clone.made().count("compiled")
        assert clone.set_up(profile=profile, compiled=asked) == (0, "")
        compiled.append(clone.made().count("compiled") - before)
    assert compiled == [0, 0, 1, 0, 1]
    (clone.directory / ".venv/.highwater-setup").unlink()
    assert clone.set_up(profile="dev", compiled="") == (0, "")
    assert clone.made().count("compiled") == 3


def test_a_compiler_that_fails_fails_only_who_insists(clone: Clone) -> None:
    clone.python("python3", OPEN)
    (clone.directory / "broken").touch()
    assert clone.set_up(compiled="") == (0, "")
    assert clone.set_up(compiled="1") == (1, "")
    assert clone.set_up(compiled="2") == (
        2,
        "setup.sh: COMPILED is '2': set 0 for Python, 1 for machine code alone, or nothing\n",
    )
    assert clone.made() == [OPEN, "compiled", "compiled"]


@pytest.mark.parametrize(("user", "status"), [(0, 0), (0, 1), (1000, 0)])
def test_root_installs_what_a_compiler_needs(user: int, status: int, clone: Clone) -> None:
    clone.python("python3", OPEN)
    clone.program("apt-get", f'#!/bin/sh\necho "$*" >> apt\nexit {status}\n')
    (clone.directory / "packages").write_text("gcc python3-dev")
    could_not = "setup.sh: gcc python3-dev could not be installed\n" if status else ""
    assert clone.set_up(user=user, compiled="") == (0, could_not)
    asked = (clone.directory / "apt").read_text().splitlines() if user == 0 else []
    assert bool(asked) == (user == 0)
    assert all(line.endswith("gcc python3-dev") for line in asked[1:])
    assert clone.made() == [OPEN, "compiled"]


def test_shellcheck_has_nothing_to_say() -> None:
    checked = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), ROOT / "setup.sh"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout) == (0, "")
