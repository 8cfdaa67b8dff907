"""What works without the extras: a host of brokers has neither Spark nor the instrument."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from highwater.cli import EXTRAS
from highwater.common.extras import how_to_install
from tests.test_dependencies import requirements_of

# Whoever imports one of these learns that it is not installed.
WITHOUT_SOME = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""
WITHOUT = f"MISSING = {sorted(frozenset().union(*EXTRAS.values()))}\n{WITHOUT_SOME}"
MAIN = f"{WITHOUT}\nfrom highwater.cli import main; main()"
# Without a broker, it comes as far as its database.
OPEN_ONE = """
with Consumer({"bootstrap.servers": "127.0.0.1:9"}, ["t"], f"sqlite:{sys.argv[1]}", name="n"):
    print("opened")
"""
EVERY_MODULE = """
import importlib, pkgutil
from highwater import broker, tuning
for room in (broker, tuning):
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""


def run(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_broker_and_the_tuner_need_nothing_of_it() -> None:
    done = run(f"{WITHOUT}\n{EVERY_MODULE}")
    assert done.returncode == 0, done.stderr


def test_scripts_of_faults_say_what_they_need(tmp_path: Path) -> None:
    (tmp_path / "faults.yaml").write_text("rules: []")
    start = ("broker", "start", "--log-dir", tmp_path / "log", "--faults", tmp_path / "faults.yaml")
    done = run(MAIN, *start)
    assert done.returncode == 2
    assert done.stderr == f"error: scripts of faults need PyYAML: {how_to_install('faults')}\n"


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("bench", "run", "workloads/quickstart.yaml", "--out", "{out}"), "bench"),
        (("report", "results/none"), "bench"),
        (("plan", "examples/load.yaml", "--ceilings", "results/none"), "bench"),
        (("tune", "prove", "--plan", "vm.swappiness=60:1"), "bench"),
        (("pipeline", "run", "examples/windows.yaml"), "pipeline"),
        (("monitor", "serve", "-b", "127.0.0.1:9"), "monitor"),
    ],
)
def test_what_needs_one_says_so_in_one_line(tmp_path: Path, arguments: tuple[str, ...], extra: str) -> None:
    done = run(MAIN, *(argument.format(out=tmp_path / "out") for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: highwater {arguments[0]} needs ")
    assert line.endswith(f": {how_to_install(extra)}")


def test_top_needs_none_of_them() -> None:
    done = run(MAIN, "top", "-b", "127.0.0.1:9", "--once")
    assert done.returncode == 2
    assert "broker 127.0.0.1:9 cannot be reached" in done.stderr


@pytest.mark.parametrize(
    ("missing", "arguments", "line"),
    [
        (
            "pyarrow",
            ("report", "{out}"),
            (
                "error: {out} is not a result directory: it has no manifest.json "
                "(make one with: highwater bench run FILE --out DIR)"
            ),
        ),
        (
            "pyarrow",
            ("bench", "telemetry", "show", "{out}"),
            f"error: highwater bench needs pyarrow: {how_to_install('pipeline')}",
        ),
        (
            "pyspark",
            ("bench", "telemetry", "live", "--control", "127.0.0.1:9", "--state", "{out}"),
            f"error: highwater bench needs pyspark: {how_to_install('bench')}",
        ),
    ],
)
def test_live_figures_need_both_and_other_reports_do_not(
    tmp_path: Path, missing: str, arguments: tuple[str, ...], line: str
) -> None:
    code = f"MISSING = {[missing]}\n{WITHOUT_SOME}\nfrom highwater.cli import main; main()"
    done = run(code, *(argument.format(out=tmp_path) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [line.format(out=tmp_path)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("broker", "--help"),
        ("tune", "list"),
        ("bench", "--help"),
        ("pipeline", "run", "--help"),
        ("monitor", "serve", "--help"),
    ],
)
def test_help_and_the_other_rooms_come_without_them(arguments: tuple[str, ...]) -> None:
    done = run(MAIN, *arguments)
    assert done.returncode == 0, done.stderr


def test_a_package_that_is_missing_of_the_core_is_no_matter_of_the_extra() -> None:
    done = run("import sys; sys.modules['kio'] = None; from highwater.cli import main; main()", "broker", "start")
    assert "pip install" not in done.stderr
    assert done.returncode == 1


def test_a_consumer_without_spark_needs_the_extra_database_alone(tmp_path: Path) -> None:
    brought = {canonicalize_name(each.name) for each in requirements_of("database")}
    missing = sorted((EXTRAS["bench"] | EXTRAS["pipeline"]) - brought)
    assert "pyspark" in missing
    code = f"MISSING = {missing}\n{WITHOUT_SOME}\nfrom highwater.pipeline.consumer import Consumer\n{OPEN_ONE}"
    done = run(code, tmp_path / "offsets.db")
    assert (done.returncode, done.stdout) == (0, "opened\n"), done.stderr


@pytest.mark.parametrize("extras", [("bench", "gate", "observe"), ("pipeline",), ("monitor",)])
def test_an_extra_is_known_by_the_names_it_is_imported_by(extras: tuple[str, ...]) -> None:
    wanted = {canonicalize_name(each.name) for extra in extras for each in requirements_of(extra)}
    imported = {
        name
        for name, distributions in packages_distributions().items()
        if name.isidentifier() and not name.startswith("_")
        if wanted & {canonicalize_name(distribution) for distribution in distributions}
    }
    # A second name that nobody uses; what the command line brings as well; what jinja2 brings.
    assert imported - {"pyhdrh", "pydantic"} == EXTRAS[extras[0]] - {"markupsafe"}
