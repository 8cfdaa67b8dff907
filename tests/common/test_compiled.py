"""The hot modules run as Python in tests; which ones run elsewhere, and what machine code passes of the same tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns
from typing import Final

import pytest

from highwater.broker.server import process_metrics
from highwater.broker.server.process_metrics import ProcessMetrics
from highwater.common import compiled
from highwater.common.compiled import MODULES, SUFFIX, build_of, builds, compiled_modules, which_runs
from tests.broker.running import running_broker
from tests.import_graph import reached_from
from tests.test_architecture import TOP_LEVEL
from tools.compile import compile_hot_modules, note_sources

ROOT = Path(__file__).parents[2]
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
NOT_ASKED: Final = (
    "tests/kafka/protocol/test_apis.py::test_every_api_has_a_handler_that_says_what_it_serves",
    "tests/kafka/protocol/test_cold.py::test_answers_are_written_as_kio_writes_them",
    *(
        f"tests/broker/replica/test_settled.py::{name}"
        for name in (
            "test_a_fetch_looks_only_at_what_may_have_something_to_say",
            "test_a_consumer_reads_only_what_may_have_something_to_say",
            "test_answers_and_followers_are_as_if_nothing_were_ever_settled",
        )
    ),
    "tests/broker/handlers/test_broken_disk.py::test_damage_is_answered_to_a_lookup_by_time",
    "tests/kafka/records/test_produced.py::test_a_batch_that_unfolds_to_more_than_anybody_sends",
    "tests/broker/handlers/test_long_requests.py::test_what_one_request_has_opened_is_limited",
    "tests/broker/handlers/test_long_requests.py::test_a_compressed_batch_with_a_doubtful_header_is_opened_in_turns",
    "tests/broker/handlers/test_steps.py::test_no_step_grows_with_the_request",
)
"""The first reads docstrings of modules, which machine code does not have, and the last counts instructions of Python,
which it has not either. The second writes 1,300 messages by a module that is not compiled, which each handler does too.
The others replace names of hot modules, or methods of their classes."""


def run(command: list[str], where: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
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


def test_all_that_they_import_decides_about_a_build() -> None:
    """The compiler takes types and constants from what is imported, so that a build depends on it."""
    names = {name.removeprefix("highwater.") for name in MODULES}
    places = {f"highwater/{name}" if name.startswith("kafka") else name for name in _reached(names)}
    sources = {name.removesuffix(".py").removesuffix("/__init__") for name, _ in compiled._sources(ROOT)}
    assert sorted(places - sources) == []


def _reached(names: set[str]) -> set[str]:
    return {name.replace(".", "/") for name in reached_from(names.__contains__)}


def test_tests_run_as_python() -> None:
    assert compiled_modules() == []
    assert which_runs() == "the hot modules run as Python: COMPILED=0"


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
        assert broker.log_text().count("the hot modules run as Python: COMPILED=0\n") == 1


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
            "make setup compiles what an editable install runs: unset HIGHWATER_COMPILED, or build a wheel",
        ),
    ],
)
def test_a_build_that_cannot_be_is_one_line(
    command: str, environment: dict[str, str], says: str, tmp_path: Path
) -> None:
    done = run([sys.executable, str(ROOT / "setup.py"), command], tmp_path, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"setup.py: {says}\n")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As small as it can be."""
    place = tmp_path / "checkout"
    for name in ("setup.py", "constraints.txt", "broker/log/segment.py", "common/units.py", "highwater/kafka/batch.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"# {name}\n")
    return place


def with_a_build(checkout: Path) -> Path:
    place = build_of(checkout)
    place.mkdir(parents=True)
    note_sources(checkout)
    return place


def test_a_checkout_runs_what_was_built_of_its_sources(checkout: Path) -> None:
    assert compiled._find(checkout) == (
        None,
        "make setup makes machine code, with which a request takes less CPU time",
    )
    place = with_a_build(checkout)
    assert place.parent == builds(checkout)
    assert compiled._find(checkout) == (place, "")


@pytest.mark.parametrize("name", ["broker/log/segment.py", "common/units.py", "highwater/kafka/batch.py", "setup.py"])
def test_whoever_edits_a_file_runs_what_was_edited(name: str, checkout: Path) -> None:
    place, source = with_a_build(checkout), checkout / name
    before, look = source.read_text(), source.stat()
    source.write_text(before.replace("#", "!"))  # as long as before
    os.utime(source, ns=(look.st_atime_ns, look.st_mtime_ns))
    why = "the sources are not those that were compiled; make setup compiles them again"
    assert compiled._find(checkout) == (None, why)
    source.write_text(before)
    assert compiled._find(checkout) == (place, ""), "it is the content that counts"
    note_sources(checkout)
    (checkout / "broker/log/new.py").touch()
    assert compiled._find(checkout) == (None, why)


def test_sources_are_read_only_where_their_times_are_others(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = with_a_build(checkout)
    monkeypatch.setattr(compiled, "build_of", lambda root: pytest.fail("it was read"))
    assert compiled._find(checkout) == (place, "")


def test_two_checkouts_have_builds_of_their_own(checkout: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    place = with_a_build(checkout)
    copytree(checkout, copied)
    assert compiled._find(copied) == (builds(copied) / place.name, "")
    (copied / "broker/log/segment.py").write_text("edited")
    assert compiled._find(checkout) == (place, "")
    assert compiled._find(copied)[0] is None


def test_machine_code_that_cannot_be_loaded_is_a_reason(checkout: Path) -> None:
    place = with_a_build(checkout)
    (place / f"half_written__mypyc{SUFFIX}").write_bytes(b"no machine code")
    found, why = compiled._find(checkout)
    assert found is None
    assert why.startswith("what was compiled cannot be loaded (")
    assert why.endswith(f"; remove {place}, and make setup compiles it again")


def test_a_wheel_has_it_or_says_which_one_has(tmp_path: Path) -> None:
    assert compiled._find(tmp_path) == (
        None,
        "a compiled wheel has machine code, with which a request takes less CPU time (docs/install.md)",
    )
    beside = tmp_path.joinpath(*MODULES[-1].split(".")[1:])
    beside.parent.mkdir(parents=True)
    beside.with_name(f"{beside.name}{SUFFIX}").touch()
    assert compiled._find(tmp_path) == (None, "")


def test_hot_modules_are_found_where_it_was_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = compiled._FINDER
    assert sys.meta_path.count(finder) == 1, "however many packages ask for it"
    assert finder.find_spec("highwater.broker.node", None) is None
    monkeypatch.setattr(compiled, "machine_code", lambda: (tmp_path, ""))
    spec = finder.find_spec(MODULES[0], None)
    assert spec is not None
    assert spec.origin == str(tmp_path / f"highwater/broker/counters{SUFFIX}")


def test_c_by_hand_is_found_like_the_others_and_runs_only_where_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = compiled.NATIVE
    assert (ROOT / f"{name.replace('.', '/')}.c").is_file()
    monkeypatch.setattr(compiled, "machine_code", lambda: (tmp_path, ""))
    spec = compiled._FINDER.find_spec(name, None)
    assert spec is not None
    assert spec.origin == f"{tmp_path / name.replace('.', '/')}{SUFFIX}"
    (tmp_path / f"native_walk{SUFFIX}").touch()
    monkeypatch.setattr(compiled, "machine_code", lambda: (None, ""))
    monkeypatch.setenv("COMPILED", "")
    spec = compiled._FINDER.find_spec(name, [str(tmp_path)])
    assert spec is not None
    assert spec.origin == str(tmp_path / f"native_walk{SUFFIX}")
    monkeypatch.setenv("COMPILED", "0")
    with pytest.raises(ModuleNotFoundError, match="COMPILED=0"):
        compiled._FINDER.find_spec(name, [str(tmp_path)])


@pytest.mark.parametrize(("asked", "ending"), [("0", ".py"), ("", SUFFIX)])
def test_a_compiled_wheel_runs_as_python_where_that_is_asked(
    asked: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (".py", SUFFIX):
        (tmp_path / f"batch{each}").touch()
    monkeypatch.setenv("COMPILED", asked)
    monkeypatch.setattr(compiled, "machine_code", lambda: (None, ""))
    spec = compiled._FINDER.find_spec("highwater.kafka.records.batch", [str(tmp_path)])
    assert spec is not None
    assert spec.origin == str(tmp_path / f"batch{ending}")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("2", "COMPILED is '2': set 0 for Python, 1 for machine code alone, or nothing"),
        (
            "1",
            "COMPILED=1, and there is no machine code to run: a compiled wheel has machine code",
        ),
    ],
)
def test_what_cannot_be_is_one_line(value: str, says: str, tmp_path: Path) -> None:
    copytree(
        ROOT / "highwater", tmp_path / "highwater", ignore=ignore_patterns("__pycache__", *TOP_LEVEL), symlinks=True
    )
    for room in ("broker", "common"):
        copytree(ROOT / room, tmp_path / "highwater" / room, ignore=ignore_patterns("__pycache__"))
    start = ["-P", "-m", "highwater", "broker", "start", "--log-dir", str(tmp_path / "log")]
    done = run([sys.executable, *start], COMPILED=value, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {says}")
    assert not (tmp_path / "log").exists()


@pytest.fixture(scope="module")
def _build() -> None:
    """Machine code of these sources, which `make setup` has made if nobody edited a file since."""
    compile_hot_modules(ROOT)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_build")
def test_a_checkout_runs_compiled_until_a_module_is_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = tmp_path / "checkout"
    for name in ("highwater", *TOP_LEVEL):
        copytree(ROOT / name, copied / name, symlinks=True, ignore=ignore_patterns("__pycache__"))
    for name in ("setup.py", "constraints.txt"):
        copyfile(ROOT / name, copied / name)
    copytree(build_of(ROOT), build_of(copied))
    monkeypatch.setenv("PYTHONPATH", str(copied))
    monkeypatch.setenv("COMPILED", "")
    with running_broker(tmp_path / "log") as broker:
        assert broker.log_text().count(f"the {len(MODULES)} hot modules run compiled\n") == 1
    segment = copied / "broker/log/segment.py"
    segment.write_text(f"{segment.read_text()}\nraise SystemExit('this was edited')\n")
    done = run([sys.executable, "-c", "import highwater.broker.log.segment"], tmp_path)
    assert done.stderr == "this was edited\n"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_build")
def test_the_tests_of_the_hot_modules_pass_with_the_compiled_ones() -> None:
    options = ["-m", "not slow", "-p", "no:cacheprovider", "-p", "tests.forks", "--forks", "2", "-q", "--tb=short"]
    options += [option for test in NOT_ASKED for option in ("--deselect", test)]
    done = run([sys.executable, "-m", "pytest", *options, *PASSED_BY_BOTH], COMPILED="1")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_build")
@pytest.mark.parametrize("kind", [(), ("--processes",)])
def test_histories_of_a_cluster_are_the_same_with_the_compiled_ones(kind: tuple[str, ...]) -> None:
    """A seed decides every event, so one answer that differs makes other numbers of events and of records."""
    command = [sys.executable, "-m", "tests.broker.simulation", *kind, "--seeds", "6", "--jobs", "2"]
    as_python, as_machine_code = (run(command, COMPILED=value) for value in ("0", "1"))
    assert (as_python.returncode, as_machine_code.returncode) == (0, 0), as_machine_code.stdout + as_machine_code.stderr
    speed = re.compile(r", [\d.]+/s")
    assert speed.sub("", as_machine_code.stdout) == speed.sub("", as_python.stdout)
