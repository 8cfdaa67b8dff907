"""kafka-python's own integration tests, and ours that use it, on our broker; `make compat SUITES=kafka_python` runs it.

The integration tests come with the source distribution of the installed version, which pip fetches into the user's
cache. They are told of a broker by KAFKA_URI, as its authors run them against one that is there already.
"""

from __future__ import annotations

import importlib.metadata
import sys
import tempfile
from pathlib import Path
from typing import Final

from highwater.bench.user_cache import cached, run_step
from tests.broker.running import running_broker
from tests.compat.kafka_python import short_metadata_age
from tests.compat.pytest_cases import ROOT, run_pytest
from tests.compat.suite import AllowList, Report, choose, take_processes

INTEGRATION_TESTS: Final = "test/integration/"
# What the tests expect of a broker: four partitions by default, a rebalance without delay, sessions of three seconds.
PROPERTIES: Final = (
    "num.partitions=4",
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
)

# The source distribution leaves out these two modules; of the second, the tests need the names alone when the broker
# is there already. Without the first, Python's own package `test` would be found in place of theirs.
LEFT_OUT: Final = {
    "test/__init__.py": "",
    "test/service.py": '''"""A broker that the tests neither start nor stop."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def dump_logs(self):
        pass


SpawnedService = ExternalService
''',
}


def sources() -> Path:
    """The unpacked source distribution of the installed kafka-python."""
    version = importlib.metadata.version("kafka-python")

    def fetch(directory: Path) -> None:
        pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", directory)
        pinned = (
            "--require-hashes",
            "--no-build-isolation",
            "--requirement",
            ROOT / "requirements" / "kafka-python.txt",
        )
        run_step([*pip, *pinned], directory)
        (archive,) = directory.glob("*.tar.gz")
        run_step(("tar", "--extract", "--no-same-owner", f"--file={archive}"), directory)
        archive.unlink()
        for name, text in LEFT_OUT.items():
            (directory / f"kafka_python-{version}" / name).write_text(text)

    return cached(f"kafka-python-{version}", "kafka-python's integration tests", fetch) / f"kafka_python-{version}"


def run_integration_tests(report: Report, cases: list[str], processes: int | None) -> None:
    with tempfile.TemporaryDirectory(prefix="highwater-compat-") as temporary:
        log_directory = Path(temporary) / "log"
        log_directory.mkdir()
        with running_broker(log_directory, properties=PROPERTIES, processes=processes) as broker:
            environment = {
                "KAFKA_URI": f"kafka://{broker.address}",
                "KAFKA_VERSION": "4.3.0",
                "KAFKA_ROOT": temporary,  # must exist; holds Kafka when the tests start one themselves
                "PYTHONPATH": str(ROOT),  # where pytest finds the plugin below
            }
            # One line for each test, and of a failure its last lines: the tests log everything at level DEBUG.
            options = ["-v", "--tb=short", "--show-capture=no", "--timeout=120", "-p", short_metadata_age.__name__]
            run_pytest(report, [*options, *cases], directory=sources(), environment=environment)


def main(arguments: list[str]) -> int:
    allowed = AllowList.of(Path(__file__).parent)
    processes, arguments = take_processes(arguments)
    wanted = choose(allowed, arguments)
    report = Report(allowed)
    theirs = [case for case in wanted if case.startswith(INTEGRATION_TESTS)]
    if processes is not None:
        wanted = tuple(theirs)  # ours start brokers of their own
    ours = [case for case in wanted if case not in theirs]
    if ours:
        run_pytest(report, ours)
    if theirs:
        run_integration_tests(report, theirs, processes)
    return report.exit_status(wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
