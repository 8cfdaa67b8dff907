"""The console command beside another project's package of the same name, in both orders of installation."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest

from highwater.common import distribution
from tests.pythons import LIBRARIES, Pythons

ROOT: Final = Path(__file__).parent.parent
VERSION: Final = f"highwater {distribution.version()}\n"
_PIP: Final = ("-m", "pip", "--disable-pip-version-check")


def test_the_name_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == distribution.NAME
    assert project["scripts"] == dict.fromkeys(("highwater", distribution.NAME), "highwater_kafka:main")


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"__init__.py": "from nowhere import *"}, "{package}/__init__.py belongs to the project 'highwater', which "),
        ({"__init__.py": "highwater-kafka"}, "{package}/__init__.py belongs to "),
        ({"other.py": ""}, "the package highwater is not in {here}; install it again: "),
        ({}, "the package highwater is not in {here}; install it again: "),
    ],
    ids=["of another project", "without commands", "without a beginning", "none"],
)
def test_a_package_that_is_not_ours_is_one_line(files: dict[str, str], says: str, tmp_path: Path) -> None:
    (tmp_path / "highwater_kafka.py").write_bytes((ROOT / "highwater_kafka.py").read_bytes())
    package = tmp_path / "highwater"
    package.mkdir()
    for name, text in files.items():
        (package / name).write_text(text)
    done = run(sys.executable, "-S", "-P", "-c", "from highwater_kafka import main; main()", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {says.format(package=package, here=tmp_path)}")
    assert line.endswith(f"{sys.executable} -m pip install --force-reinstall --no-deps highwater-kafka")


_NOT_INSTALLED: Final = """
import sys
from importlib import metadata
def none(name):
    raise metadata.PackageNotFoundError(name)
metadata.distribution = none
sys.argv[1:] = ["--version"]
from highwater.cli import main
main()
"""


def test_a_checkout_that_is_not_installed_says_how_it_is() -> None:
    done = run(sys.executable, "-c", _NOT_INSTALLED)
    way_out = f"{sys.executable} -m pip install -e {ROOT}"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: highwater --version needs {distribution.NAME}: {way_out}\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Ours, and one that installs what `highwater` 0.0.1 of PyPI does."""
    place = tmp_path_factory.mktemp("wheels")
    built = run(
        sys.executable,
        *_PIP,
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--wheel-dir",
        place,
        ROOT,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    (ours,) = place.glob("highwater_kafka-*.whl")
    theirs = place / "highwater-0.0.1-py3-none-any.whl"
    with zipfile.ZipFile(theirs, "w") as archive:
        archive.writestr("highwater/__init__.py", "from temporal_code import *\n")
        archive.writestr("temporal_code/__init__.py", "import not_installed\n")
        archive.writestr(
            "highwater-0.0.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: highwater\nVersion: 0.0.1\n"
        )
        archive.writestr(
            "highwater-0.0.1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        names = ("highwater/__init__.py", "temporal_code/__init__.py")
        archive.writestr("highwater-0.0.1.dist-info/RECORD", "".join(f"{name},,\n" for name in names))
    return ours, theirs


@pytest.mark.slow
def test_beside_the_other_project_the_command_runs_or_says_why_not(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    ours, theirs = wheels
    python = Path(Pythons(tmp_path).make("both", LIBRARIES)).parent / "both/bin/python"

    def pip(*arguments: str | Path) -> None:
        done = run(sys.executable, *_PIP, "--python", python, *arguments)
        assert done.returncode == 0, done.stderr

    def asked(command: str) -> tuple[int, str, str]:
        done = run(python.with_name(command), "--version")
        return done.returncode, done.stdout, done.stderr

    pip("install", "--no-deps", theirs)
    pip("install", "--no-deps", ours)
    assert asked("highwater") == asked(distribution.NAME) == (0, VERSION, ""), "ours came last and lies over theirs"
    pip("install", "--no-deps", "--force-reinstall", theirs)
    for command in ("highwater", distribution.NAME):
        status, output, said = asked(command)
        assert (status, output) == (2, "")
        assert "/highwater/__init__.py belongs to the project 'highwater', which cannot share an environment" in said
        assert said.count("\n") == 1
    # The way out that it names.
    pip("uninstall", "--yes", "highwater")
    status, _, said = asked("highwater")
    assert status == 2
    assert said.startswith("error: the package highwater is not in ")
    pip("install", "--no-deps", "--force-reinstall", ours)
    assert asked("highwater") == (0, VERSION, "")


def test_usage_has_the_name_of_the_command_however_it_is_started() -> None:
    """The commands of images and packages run the package."""
    done = run(sys.executable, "-m", "highwater", "broker", "--help", PYTHONPATH=str(ROOT), TERM="dumb")
    assert "Usage: highwater broker [OPTIONS]" in done.stdout
