"""Rules for all tests: which are slow, which are cases, where temporary files are; what each room's tests take."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import psutil
import pytest
from _pytest import runner
from hypothesis import settings

from highwater.common.compiled import SETTING
from tests import spark_jvm
from tests.compat.suite import every_case

# Tests replace methods of hot modules, which machine code does not notice: so those run as Python, unless COMPILED=1.
os.environ.setdefault(SETTING, "0")
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Whoever names one of these in a test or in a fixture starts a JVM with it.
JVM_STARTERS = frozenset(
    {"SparkLauncher", "running_cluster", "running_zookeeper", "secure_zookeeper", "standalone_spark"}
)
# Every JVM reads this variable, and refuses to start with an option that it does not know.
JVM_OPTIONS = "JAVA_TOOL_OPTIONS"
REFUSAL = "-XX:+A_test_that_starts_a_JVM_has_to_be_marked_slow"
OPTIONS_BEFORE = os.environ.get(JVM_OPTIONS)
LONG_RUN_S = 60.0
WAIT_FOR_THE_DISK = os.fsync
"""For tests of what only a disk does; all others do without."""
QUICK_START = pytest.StashKey[str]()
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2 << 30
"""As much has to be free there and in memory. The quick tests of four processes together take a third of it."""
DISK = tempfile.gettempdir()


def pytest_configure(config: pytest.Config) -> None:
    """Keep files of quick tests in memory: to make and remove them on a disk is up to a quarter of what tests cost."""
    if config.option.markexpr != "not slow" or not MEMORY.is_dir():
        return
    for lock in MEMORY.glob("pytest-of-*/pytest-*/.lock"):
        # Of a run that was killed: pytest itself would wait for three days.
        with suppress(OSError):
            if (process_id := lock.read_text()).isdecimal() and not psutil.pid_exists(int(process_id)):
                shutil.rmtree(lock.parent)
    if min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) >= MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """Return a folder on a disk, for a test of what only disks and their file systems do."""
    with tempfile.TemporaryDirectory(dir=DISK, prefix="highwater-test-") as folder:
        yield Path(folder)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the tests themselves, a million objects, out of garbage collection: a full one looks at them for 0.7 s."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _frozen_again() -> None:
    """As `pytest_collection` does, for the tests behind one of what unfreezes all."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test slow that starts a JVM, itself or through a fixture. What a suite is to run has to be its case."""
    cases = every_case()
    for item in items:
        is_case = item.get_closest_marker("compat") is not None
        if is_case or item.get_closest_marker("spark") or (isinstance(item, pytest.Function) and starts_a_jvm(item)):
            item.add_marker("slow")
        if is_case and item.nodeid.partition("[")[0] not in cases:
            raise pytest.UsageError(f"{item.nodeid} runs nowhere: name it in a cases.allow of tests/compat")


def starts_a_jvm(item: pytest.Function) -> bool:
    # Pytest has no public way to a test's fixtures.
    fixtures = [definitions[-1].func for definitions in item._fixtureinfo.name2fixturedefs.values()]
    return not JVM_STARTERS.isdisjoint(chain.from_iterable(map(names_in, (item.function, *fixtures))))


def names_in(function: Callable[..., object]) -> tuple[str, ...]:
    """Global names and attributes that a function mentions."""
    code = getattr(function, "__code__", None)
    return code.co_names if code else ()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Prepare quick starts of Spark before forks, and before the first slow test, whose time limit is its own."""
    is_wanted = any(item.get_closest_marker("slow") for item in session.items)
    if is_wanted and not session.config.option.collectonly:
        session.config.stash[QUICK_START] = spark_jvm.quick_start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """As pytest runs a test, in a frame with room behind it."""
    return runner.pytest_runtest_protocol(item, nextitem)


# Python has frames in chunks of 16 KiB, and a call across the end of one maps and unmaps the next, in inner loops too
# (python/cpython#142183, mended in later releases of 3.13 and 3.14). Those of pytest fill the first. A frame that asks
# for 70,000 words gets a chunk of a megabyte: nearly half is left for what it calls, and nobody touches the rest.
pytest_runtest_protocol.__code__ = pytest_runtest_protocol.__code__.replace(co_stacksize=70_000)


@pytest.fixture(scope="session", autouse=True)
def _temporary_files(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[None]:
    """Let temporary files of tests and of their processes, killed ones too, be where pytest removes them.

    The name is short because Spark's Unix sockets are in it, whose folder has a path of 61 bytes at most.
    """
    scratch = tmp_path_factory.mktemp("t", numbered=False)
    with pytest.MonkeyPatch.context() as patch:
        # Tests end processes and never the host, so that what the kernel has is as good as on the disk.
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setenv("TMPDIR", str(scratch))
        patch.setattr(tempfile, "tempdir", None)
        if options := pytestconfig.stash.get(QUICK_START, None):
            for name, value in spark_jvm.environment(options, scratch).items():
                patch.setenv(name, value)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let no JVM start in a test that is not marked slow, whatever process asks for it."""
    options = OPTIONS_BEFORE if item.get_closest_marker("slow") else REFUSAL
    if options is None:
        os.environ.pop(JVM_OPTIONS, None)
    else:
        os.environ[JVM_OPTIONS] = options


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the seconds of each room's tests after a long run. No limit: hosts differ, and are busy at times."""
    reports = chain.from_iterable(terminalreporter.stats.values())
    seconds = seconds_of_rooms(report for report in reports if isinstance(report, pytest.TestReport))
    if (total_s := sum(seconds.values())) > LONG_RUN_S:
        shares = (f"{room} {taken_s:.0f} ({taken_s / total_s:.0%})" for room, taken_s in seconds.items())
        terminalreporter.write_line(f"seconds of tests by room: {', '.join(shares)}")


def seconds_of_rooms(reports: Iterable[pytest.TestReport]) -> dict[str, float]:
    """Return what set-ups, tests and tear-downs took in each folder of tests/, the longest first."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        folders = report.nodeid.partition("::")[0].split("/")[1:-1]
        seconds[folders[0] if folders else "tests"] += report.duration
    return dict(sorted(seconds.items(), key=lambda room: -room[1]))
