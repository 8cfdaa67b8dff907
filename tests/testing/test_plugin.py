"""The fixtures as other projects use them, each run in a pytest of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.processes import runs
from tests.waiting import wait_until

pytest_plugins = "pytester"

PAGE: Final = Path(__file__).parents[2] / "docs/testing.md"
WITHIN_S: Final = 60.0
# Without the plugins that happen to be installed here.
COMMAND: Final = (sys.executable, "-m", "pytest", "-p", "highwater.testing.plugin", "-p", "no:cacheprovider")
ACKNOWLEDGED: Final = """
import pytest
from confluent_kafka import Producer

def partitions_of(broker):
    errors = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    producer.produce("orders", b"1", on_delivery=lambda error, _: errors.append(error))
    producer.flush(60)
    assert errors == [None]
    return len(producer.list_topics("orders").topics["orders"].partitions)
"""


@pytest.fixture(autouse=True)
def _temporary_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(ACKNOWLEDGED + tests)
    return pytester.run(*COMMAND, "--basetemp", "base", *arguments, timeout=WITHIN_S)


def nothing_is_left(tmp_path: Path) -> bool:
    return not list((tmp_path / "temporary").glob("highwater-*"))


def test_brokers_of_a_test_and_of_a_session(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makeini("[pytest]\nkafka_broker_properties =\n    num.partitions=3\n")
    done = run(
        pytester,
        """
seen = set()

def test_a_broker(kafka_broker):
    assert partitions_of(kafka_broker) == 3
    seen.add(kafka_broker.bootstrap_servers)

@pytest.mark.kafka_broker(properties={"num.partitions": 2})
def test_another_broker(kafka_broker):
    assert "topic orders" not in kafka_broker.log
    assert partitions_of(kafka_broker) == 2
    assert kafka_broker.bootstrap_servers not in seen

@pytest.mark.parametrize("time", [1, 2])
def test_one_of_the_session(kafka_broker_session, time):
    partitions_of(kafka_broker_session)
    seen.add(kafka_broker_session.bootstrap_servers)
    assert len(seen) == 2
    assert kafka_broker_session.log.count("created topic orders") == 1
""",
        "--strict-markers",
        "-Werror",
    )
    done.assert_outcomes(passed=4)
    assert nothing_is_left(tmp_path)


def test_reports_of_failed_tests_say_why(pytester: pytest.Pytester, tmp_path: Path) -> None:
    done = run(
        pytester,
        """
def test_fails(kafka_broker):
    partitions_of(kafka_broker)
    assert False

@pytest.mark.kafka_broker(properties={"num.partitons": 2})
def test_misspelt_property(kafka_broker):
    pass

@pytest.mark.kafka_broker(process=2)
def test_misspelt_option(kafka_broker):
    pass

def test_cluster_of_none(kafka_cluster):
    kafka_cluster(0)
""",
        "--kafka-broker-log-level=WARNING",
    )
    done.assert_outcomes(failed=2, errors=2)
    done.stdout.re_match_lines(
        [
            r"the broker does not start: properties: num.partitons is not .*; did you mean num.partitions\?",
            r"the marker kafka_broker takes faults, processes, properties; not 'process'",
            r"-+ log of 127\.0\.0\.1:\d+ \(kafka_broker\) -+",
            r"ready: listening on 127\.0\.0\.1:\d+ .*",
            r"processes=0: a test can have 1 to 20",
        ]
    )
    done.stdout.no_re_match_line(".* INFO .*")
    assert nothing_is_left(tmp_path)


def test_the_examples_of_the_page_pass(pytester: pytest.Pytester) -> None:
    first, survives, marked, fails = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    helpers = """
def place_order(servers):
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("orders", b"one pizza")
    producer.flush()

def orders(servers):
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "kitchen", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    found = [message.value().decode() for message in consumer.consume(1, 30)]
    consumer.close()
    return found
"""
    run(pytester, "\n".join((first, helpers, survives, marked, fails))).assert_outcomes(passed=5)


@pytest.mark.slow
def test_workers_of_xdist_have_brokers_of_their_own(pytester: pytest.Pytester, tmp_path: Path) -> None:
    done = run(
        pytester,
        """
@pytest.mark.parametrize("time", range(4))
def test_any(kafka_broker_session, kafka_broker, time):
    partitions_of(kafka_broker_session)
    partitions_of(kafka_broker)
""",
        *("-p", "xdist.plugin", "-n", "2"),
    )
    done.assert_outcomes(passed=4)
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_run_that_is_ended(
    pytester: pytest.Pytester, tmp_path: Path, number: signal.Signals
) -> None:
    pytester.makepyfile(
        """
        import time

        def test_it(kafka_broker):
            print("it runs", flush=True)
            time.sleep(600)
        """
    )
    # What a shell starts in the background ignores SIGINT, and so does all that it starts.
    command = ("env", "--default-signal=INT", *COMMAND, "-s")
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=pytester.path, text=True) as tests:
        assert tests.stdout is not None
        while "it runs" not in (line := tests.stdout.readline()):
            assert line
        begun = psutil.Process(tests.pid).children(recursive=True)
        tests.send_signal(number)
        tests.communicate(timeout=WITHIN_S)
    assert len(begun) == 3
    wait_until(lambda: not any(map(runs, begun)), "the processes end", WITHIN_S)
    wait_until(lambda: nothing_is_left(tmp_path), "the folder is removed", WITHIN_S)


def test_a_run_without_brokers_imports_the_plugin_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys, subprocess

        def test_it():
            found = sorted(name for name in sys.modules if name.partition(".")[0] == "highwater")
            assert found == ["highwater", "highwater.testing", "highwater.testing.plugin"]
            assert subprocess._active == []
        """
    )
    pytester.run(*COMMAND, timeout=WITHIN_S).assert_outcomes(passed=1)
    code = "import pytest, sys; old = {*sys.modules}; import highwater.testing.plugin; print(*{*sys.modules} - old)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert sorted(printed.split()) == ["highwater", "highwater.testing", "highwater.testing.plugin"]


def test_pip_installs_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"highwater": "highwater.testing.plugin"}
