"""The plugin of pytest: fixtures with brokers, and their logs in the reports of tests that failed.

Every run of pytest where Highwater is installed imports this module, so that it imports nothing else of Highwater
before a test asks for a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    import pluggy

    from highwater.testing.brokers import Brokers, KafkaBroker

_FIXTURES: Final = frozenset({"kafka_broker", "kafka_broker_session", "kafka_cluster"})
_MARKER: Final = "kafka_broker"
_WANTED: Final = frozenset({"properties", "processes", "faults"})
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_LOG_LINES: Final = 200
"""The report of a failed test has so many lines of a broker's log."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "brokers of Highwater")
    group.addoption("--kafka-broker-log-level", choices=_LEVELS, default="INFO", help="What brokers log. Default: INFO")
    parser.addini("kafka_broker_properties", "Properties of all brokers: a NAME=VALUE in each line", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(properties={{}}, processes=None, faults=False): what the broker of a test has",
    )
    config.pluginmanager.register(BrokersOfRun(config), BrokersOfRun.__name__)


class BrokersOfRun:
    """The brokers of one run of pytest, or of one worker of pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._brokers: Brokers | None = None
        self._running: list[tuple[str, KafkaBroker]] = []
        """Each with the name of its fixture."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Let the process that starts brokers import them while the first tests run."""
        if not session.config.option.collectonly and any(map(_fixtures_of, session.items)):
            self._alive()

    def pytest_unconfigure(self) -> None:
        if self._brokers is not None:
            self._brokers.close()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pluggy.Result[pytest.TestReport], None]:
        report = (yield).get_result()
        names = _fixtures_of(item) if report.failed and report.when != "teardown" else ()
        for name, broker in self._running:
            if name in names:
                lines = broker.log.splitlines()[-_LOG_LINES:]
                report.sections.append((f"log of {broker.bootstrap_servers} ({name})", "\n".join(lines)))

    @contextmanager
    def running(
        self, fixture: str, properties: Mapping[str, object] | None = None, **wanted: Any
    ) -> Iterator[KafkaBroker]:
        """Start a broker for the time of a with statement. A test whose broker does not start fails in one line."""
        from highwater.testing.brokers import BrokerError

        level = self._config.getoption("kafka_broker_log_level")
        reason, broker = "", None
        try:
            broker = self._alive().start({**self._properties(), **(properties or {})}, log_level=level, **wanted)
        except BrokerError as error:
            reason = str(error)
        if broker is None:
            pytest.fail(reason, pytrace=False)
        self._running.append((fixture, broker))
        try:
            yield broker
        finally:
            self._running.remove((fixture, broker))
            broker.close()

    def _properties(self) -> dict[str, str]:
        lines = [line.partition("=") for line in self._config.getini("kafka_broker_properties")]
        for name, separator, _ in lines:
            if not separator:
                pytest.fail(f"kafka_broker_properties: {name!r} is not NAME=VALUE", pytrace=False)
        return {name.strip(): value.strip() for name, _, value in lines}

    def _alive(self) -> Brokers:
        from highwater.testing.brokers import Brokers

        if self._brokers is None or not self._brokers.is_alive:
            self._brokers = Brokers()
        return self._brokers


def _fixtures_of(item: pytest.Item) -> frozenset[str]:
    return _FIXTURES.intersection(getattr(item, "fixturenames", ()))


def _running(request: pytest.FixtureRequest, **wanted: Any) -> AbstractContextManager[KafkaBroker]:
    brokers = request.config.pluginmanager.get_plugin(BrokersOfRun.__name__)
    assert isinstance(brokers, BrokersOfRun)
    return brokers.running(str(request.fixturename), **wanted)


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """Return a broker of this test alone; the marker `kafka_broker` says what it is started with."""
    marker = request.node.get_closest_marker(_MARKER)
    wanted = {} if marker is None else marker.kwargs
    unknown = [*(() if marker is None else marker.args), *sorted(wanted.keys() - _WANTED)]
    if unknown:
        pytest.fail(f"the marker {_MARKER} takes {', '.join(sorted(_WANTED))}; not {unknown[0]!r}", pytrace=False)
    with _running(request, **wanted) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_broker_session(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """Return one broker of all tests that ask for it; in each worker of pytest-xdist another one."""
    with _running(request) as broker:
        yield broker


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Callable[..., KafkaBroker]]:
    """Return a function: `kafka_cluster(3, properties={…})` starts three processes, which clients see as three brokers.

    They are of one host, and need no ZooKeeper.
    """
    with ExitStack() as started:

        def start(brokers: int, properties: Mapping[str, object] | None = None) -> KafkaBroker:
            return started.enter_context(_running(request, properties=properties, processes=brokers))

        yield start
