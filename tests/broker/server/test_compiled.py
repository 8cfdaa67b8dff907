"""The hot modules of the broker run as Python here; a build of them as machine code passes the same tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns
from typing import Final

import pytest

from highwater.broker.server import compiled, process_metrics
from highwater.broker.server.compiled import MODULES, compiled_modules, which_runs
from highwater.broker.server.process_metrics import ProcessMetrics
from tests.broker.running import running_broker
from tests.compiled import environment_of, lay_out
from tests.test_architecture import TOP_LEVEL

ROOT = Path(__file__).parents[3]
_DEADLINE_S: Final = 540.0
PASSED_BY_BOTH: Final = (
    "tests/kafka/protocol",
    "tests/kafka/records",
    "tests/broker/log",
    "tests/broker/replica",
    "tests/broker/handlers",
    "tests/broker/server/test_connection.py",
    "tests/broker/server/test_connection_memory.py",
    "tests/broker/server/test_hostility.py",
    "tests/broker/test_clients.py",
    "tests/broker/test_failing_disks.py",
)
"""Tests of the hot modules, which run here with those that a build has compiled."""
NOT_ASKED: Final = "tests/kafka/protocol/test_apis.py::test_every_api_has_a_handler_that_says_what_it_serves"
"""It reads docstrings of modules, which machine code does not have."""


def run(command: list[str], where: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        command,
        cwd=where,
        env={**ours, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=_DEADLINE_S,
    )


def test_the_list_names_modules_that_exist() -> None:
    assert [name for name in MODULES if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []
    assert list(MODULES) == sorted(set(MODULES))


def test_without_a_build_they_run_as_python() -> None:
    assert compiled_modules() == []
    assert which_runs() == "the hot modules run as Python"


@pytest.mark.parametrize(
    ("count", "line"),
    [
        (len(MODULES), f"the {len(MODULES)} hot modules run compiled"),
        (2, f"2 of the {len(MODULES)} hot modules run compiled, the others as Python"),
    ],
)
def test_a_broker_tells_what_is_compiled(count: int, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "compiled_modules", lambda: list(MODULES[:count]))
    assert which_runs() == line


def test_the_metrics_tell_how_many_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\nhighwater_broker_compiled_modules 0\n" in ProcessMetrics().render()
    monkeypatch.setattr(process_metrics, "compiled_modules", lambda: list(MODULES))
    assert f"\nhighwater_broker_compiled_modules {len(MODULES)}\n" in ProcessMetrics().render()


def test_a_start_tells_which_runs(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        assert broker.log_text().count("the hot modules run as Python\n") == 1


@pytest.mark.parametrize(
    ("command", "environment", "says"),
    [
        ("--version", {"HIGHWATER_COMPILED": "yes"}, "HIGHWATER_COMPILED is 'yes': set 1 to compile, or nothing"),
        (
            "--version",
            {"HIGHWATER_COMPILED": "1", "CC": "/nowhere/cc"},
            "HIGHWATER_COMPILED=1 needs a C compiler: apt-get install gcc python3-dev",
        ),
        (
            "editable_wheel",
            {"HIGHWATER_COMPILED": "1"},
            "an editable install runs Python: unset HIGHWATER_COMPILED, or build a wheel",
        ),
    ],
)
def test_a_build_that_cannot_be_is_one_line(
    command: str, environment: dict[str, str], says: str, tmp_path: Path
) -> None:
    done = run([sys.executable, str(ROOT / "setup.py"), command], tmp_path, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"setup.py: {says}\n")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like this checkout, with the unpacked wheel of compiled modules in it."""
    place = tmp_path_factory.mktemp("compiled")
    source, installed = place / "source", place / "installed"
    source.mkdir()
    copytree(ROOT / "highwater", source / "highwater", symlinks=True, ignore=ignore_patterns("__pycache__"))
    for room in TOP_LEVEL:
        copytree(ROOT / room, source / room, ignore=ignore_patterns("__pycache__"))
    for name in ("highwater_kafka.py", "pyproject.toml", "setup.py", "README.md", "LICENSE"):
        copyfile(ROOT / name, source / name)
    options = ("--no-build-isolation", "--no-deps", "--wheel-dir", str(place))
    command = [sys.executable, "-m", "pip", "wheel", *options, "."]
    # Quick to build; what the compiler optimises are no questions of ours.
    built = run(command, source, HIGHWATER_COMPILED="1", HIGHWATER_COMPILED_OPTIMIZE="0")
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    (wheel,) = place.glob("highwater_kafka-*.whl")
    assert not wheel.name.endswith("-none-any.whl")
    lay_out(wheel, ROOT, installed)
    return installed


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_build_has_each_module_twice(installation: Path) -> None:
    code = "from highwater.broker.server.compiled import *; print(compiled_modules() == list(MODULES), which_runs())"
    done = run([sys.executable, "-c", code], installation)
    assert done.stdout == f"True the {len(MODULES)} hot modules run compiled\n", done.stderr
    for name in MODULES:
        assert (installation / f"{name.replace('.', '/')}.py").is_file(), name


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tests_of_the_hot_modules_pass_with_the_compiled_ones(installation: Path) -> None:
    options = ["-m", "not slow", "-p", "no:cacheprovider", "-n", "2", "-q", "--tb=short"]
    options += ["--deselect", NOT_ASKED]
    done = run([sys.executable, "-m", "pytest", *options, *PASSED_BY_BOTH], installation)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [(), ("--processes",)])
def test_histories_of_a_cluster_are_the_same_with_the_compiled_ones(kind: tuple[str, ...], installation: Path) -> None:
    """A seed decides every event, so one answer that differs makes other numbers of events and of records."""
    command = [sys.executable, "-m", "tests.broker.simulation", *kind, "--seeds", "6", "--jobs", "2"]
    as_python = run(command, ROOT)
    as_machine_code = run(command, installation, **environment_of(installation))
    assert (as_python.returncode, as_machine_code.returncode) == (0, 0), as_machine_code.stdout + as_machine_code.stderr
    speed = re.compile(r", [\d.]+/s")
    assert speed.sub("", as_machine_code.stdout) == speed.sub("", as_python.stdout)
