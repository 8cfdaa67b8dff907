"""Collects tests once, and runs them in forks of the process: `pytest -p tests.forks --forks 4`.

With pytest-xdist each process imports and collects all tests itself, for 20 s of processor time here. Forks share what
is collected. Each takes the next file whenever it is done with one, and tells the first process of each test.
"""

from __future__ import annotations

import io
import os
import random
import sys
import warnings
from collections.abc import Sequence
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from struct import Struct
from typing import Any, Final

import pytest
from _pytest.capture import CaptureManager
from _pytest.terminal import TerminalReporter
from _pytest.tmpdir import TempPathFactory

_NUMBER: Final = Struct("=I")
"""Of a file of tests. All numbers are in a pipe from the start."""
_MOST_FILES: Final = 16_384
_LAST_LETTERS: Final = 5_000

# The folder of temporary files is no public attribute.
# mypy: disable-error-code="attr-defined"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="Collect once, and run files of tests in so many processes")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Fork, before plugins prepare what a process for tests has."""
    config = session.config
    if config.option.forks < 2 or config.option.collectonly or session.testsfailed or not session.items:
        return
    files = [list(items) for _, items in groupby(session.items, lambda item: item.path)]
    assert len(files) <= _MOST_FILES
    queue, filled = os.pipe()
    os.write(filled, b"".join(map(_NUMBER.pack, range(len(files)))))
    os.close(filled)
    folder = config._tmp_path_factory.getbasetemp()
    sys.stdout.flush()
    forks: dict[Connection, int] = {}
    for number in range(min(config.option.forks, len(files))):
        ours, theirs = Pipe()
        with warnings.catch_warnings():
            # Libraries for linear algebra have threads, and expect forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            process_id = os.fork()
        if not process_id:
            for connection in (ours, *forks):
                connection.close()
            config.option.basetemp = str(folder / str(number))
            config.pluginmanager.register(_Fork(config, files, queue, theirs))
            return
        theirs.close()
        forks[ours] = process_id
    os.close(queue)
    session.items = []
    config.pluginmanager.register(_Forks(config, forks))


class _Fork:
    """Runs files of tests, and tells of each test before and after it."""

    def __init__(
        self, config: pytest.Config, files: Sequence[list[pytest.Item]], queue: int, first: Connection
    ) -> None:
        self._config = config
        self._files = files
        self._queue = queue
        self._first = first
        self._reports: list[Any] = []
        # So pytest knows a worker of xdist, and leaves its cache and reports to the first process.
        config.workerinput = {}
        config._tmp_path_factory = TempPathFactory.from_config(config, _ispytest=True)
        random.seed()
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(terminal, TerminalReporter)
        self._printed = terminal._tw._file = io.StringIO()
        capture = config.pluginmanager.get_plugin("capturemanager")
        assert isinstance(capture, CaptureManager)
        # Forks have one position in the file that pytest has opened for what tests print.
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        while number := os.read(self._queue, _NUMBER.size):
            items = self._files[_NUMBER.unpack(number)[0]]
            file = items[0].getparent(pytest.File)
            assert file is not None
            # Which file is next is not known yet. Fixtures of packages stay until then.
            session._setupstate.teardown_exact(items[0])
            for item, following in zip(items, (*items[1:], file.parent), strict=True):
                self._tell(session, (item.nodeid, item.location, None))
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                self._tell(session, (item.nodeid, item.location, self._reports))
                self._reports = []
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        session._setupstate.teardown_exact(None)
        return True

    def _tell(self, session: pytest.Session, what: object) -> None:
        try:
            self._first.send(what)
        except ConnectionError:
            raise session.Interrupted("the first process waits no longer") from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        to_data = self._config.hook.pytest_report_to_serializable
        self._reports.append(to_data(config=self._config, report=report))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
            print(self._printed.getvalue()[-_LAST_LETTERS:], file=sys.__stderr__, flush=True)


class _Forks:
    """Reports what forks tell of their tests, as if this process ran these."""

    def __init__(self, config: pytest.Config, forks: dict[Connection, int]) -> None:
        self._config = config
        self._forks = forks
        self._running: dict[Connection, tuple[str, tuple[str, int | None, str]]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        try:
            while self._forks:
                for connection in wait(self._forks):
                    assert isinstance(connection, Connection)
                    self._hear(connection)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        finally:
            # A fork that is not heard any longer ends behind its test.
            for connection in self._forks:
                connection.close()
            for process_id in self._forks.values():
                os.waitpid(process_id, 0)
        return True

    def _hear(self, connection: Connection) -> None:
        try:
            test, location, reports = connection.recv()
        except (EOFError, ConnectionError):
            self._ended(connection)
            return
        if reports is None:
            self._running[connection] = test, location
            self._config.hook.pytest_runtest_logstart(nodeid=test, location=location)
            return
        del self._running[connection]
        self._report(test, location, reports)

    def _report(self, test: str, location: tuple[str, int | None, str], reports: Sequence[Any]) -> None:
        hook = self._config.hook
        for report in reports:
            hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=self._config, data=report))
        hook.pytest_runtest_logfinish(nodeid=test, location=location)

    def _ended(self, connection: Connection) -> None:
        _, status = os.waitpid(self._forks.pop(connection), 0)
        exit_code = os.waitstatus_to_exitcode(status)
        if running := self._running.pop(connection, None):
            reason = f"The process of this test ended ({exit_code}); tests behind it in its file were not run."
            report = pytest.TestReport(*running, {}, "failed", reason, "call")
            self._config.hook.pytest_runtest_logreport(report=report)
            self._config.hook.pytest_runtest_logfinish(nodeid=running[0], location=running[1])
        elif exit_code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(f"a process of tests ended with exit status {exit_code}; what it said is above")
