"""librdkafka's own test runner against our broker; `make compat SUITES=librdkafka` runs it.

A case is a number of the runner's list, which may stand for several tests: `0039` runs 0039_event, 0039_event_dr and
0039_event_log. It passes when at least one of them does and none fails. `-noautocreate` behind a number is the
runner's scenario of that name: its tests that want a broker which makes no topics by itself. `-consumer` behind all
that is the case with groups of KIP-848. `0081/do_test_Delete` is the parts of 0081 whose names hold the latter.

Each case is run in a process of its own, as one that fails ends the runner; they share one broker for each scenario.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from highwater.bench.native.librdkafka import VERSION, librdkafka_directory
from highwater.bench.user_cache import cached, run_step
from highwater.common.errors import UsageError
from tests.broker.running import RunningBroker, running_broker
from tests.compat.suite import AllowList, Report, choose, take_processes

HERE: Final = Path(__file__).parent
# A rebalance waits a moment, for some tests start two consumers and expect that the first does not get on without the
# second; with Kafka's three seconds they would pass too, and take long.
_PROPERTIES: Final = ("num.partitions=4", "group.initial.rebalance.delay.ms=300")
PROPERTIES: Final = {"": _PROPERTIES, "noautocreate": (*_PROPERTIES, "auto.create.topics.enable=false")}
# The runner is told that the broker is one of 3.9, but for tests that would also write message sets (before record
# batches, KIP-98): those it leaves out for Apache Kafka 4, which knows them as little as we do.
BROKER_VERSION: Final = "3.9.1"
WITHOUT_MESSAGE_SETS: Final = {"0052": "4.0.0"}
CASE_DEADLINE_S: Final = 900.0
# Where some tests look for Kafka's commands; ours take the same options.
KAFKA_TOPICS: Final = '#!/bin/sh\nexec {python} -m highwater broker topics "$@"\n'
# Its tests want three brokers for a few of their topics; that is all that is changed in them.
MANY_REPLICAS: Final = "rd_kafka_NewTopic_new(topicname, partition_cnt, replication_factor,"
ONE_REPLICA: Final = "rd_kafka_NewTopic_new(topicname, partition_cnt, 1,"
_CONSUMER: Final = "-consumer"
_TEST: Final = re.compile(r"^    _TEST\((?=0)", re.MULTILINE)  # those from 8000 on are started by hand
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


def tests_directory() -> Path:
    """librdkafka's tests, with the runner built."""
    return cached(f"librdkafka-tests-{VERSION}", "librdkafka's test runner: built, about 2 minutes", _make) / "tests"


def _make(directory: Path) -> None:
    built = librdkafka_directory()
    for entry in built.iterdir():
        if entry.name != "tests":
            (directory / entry.name).symlink_to(entry)
    tests = directory / "tests"
    shutil.copytree(built / "tests", tests)
    source = (tests / "test.c").read_text("utf-8")
    if MANY_REPLICAS not in source:
        raise UsageError(f"librdkafka {VERSION} creates its topics in another way than this suite knows")
    (tests / "test.c").write_text(source.replace(MANY_REPLICAS, ONE_REPLICA), "utf-8")
    run_step(["make", f"-j{os.cpu_count() or 1}", "build"], tests)


def all_cases(tests: Path) -> dict[str, bool]:
    """Each case of the runner's list, and whether it is of the client alone: with no broker, or with a mock of one."""
    cases: dict[str, bool] = {}
    listed = (tests / "test.c").read_text("utf-8").partition("struct test tests[]")[2].partition("\n};")[0]
    for test in _TEST.split(listed)[1:]:
        case = test[:4] + ("-noautocreate" if '"noautocreate"' in test else "")
        cases[case] = cases.get(case, True) and "TEST_F_LOCAL" in test
    return cases


def run_case(tests: Path, case: str, broker: RunningBroker, *, is_local: bool) -> str:
    """Run it; what is wrong with its outcome, or "".

    Of a case that needs a broker, those of its tests that do not are left out (-L): some take minutes with mocks. What
    is of the client alone is run in the runner's quick mode (-Q).
    """
    name, _, subtests = case.partition("/")
    number, _, scenario = name.removesuffix(_CONSUMER).partition("-")
    with tempfile.TemporaryDirectory(prefix="highwater-compat-") as temporary:
        directory = Path(temporary)
        (directory / "test.conf").write_text(f"bootstrap.servers={broker.address}\n")
        for wanted in ("interceptor_test", "fixtures"):
            (directory / wanted).symlink_to(tests / wanted)
        (directory / "bin").mkdir()
        command = directory / "bin" / "kafka-topics.sh"
        command.write_text(KAFKA_TOPICS.format(python=sys.executable))
        command.chmod(0o755)
        environment = {
            "TESTS": number,
            "TEST_KAFKA_VERSION": WITHOUT_MESSAGE_SETS.get(number, BROKER_VERSION),
            "TEST_REPORT": str(directory / "report.json"),
            "RDKAFKA_TEST_CONF": str(directory / "test.conf"),
            "LD_LIBRARY_PATH": f"{tests.parent / 'src'}:{tests.parent / 'src-cpp'}",
            "KAFKA_PATH": temporary,
            "BROKERS": broker.address,
            "PYTHONPATH": str(HERE.parents[2]),
        }
        if subtests:
            environment["SUBTESTS"] = subtests
        if name.endswith(_CONSUMER):
            environment["TEST_CONSUMER_GROUP_PROTOCOL"] = "consumer"
        options = ["-p1", "-Q" if is_local else "-L", *(("-s", scenario) if scenario else ())]
        output = _output([str(tests / "test-runner"), *options], directory, environment)
        report = directory / "report.json"
        if not report.exists():
            return f"no report: {_what_failed(output)}"
        told = json.loads(report.read_text("utf-8"))["tests"]
    states = {name: test["state"] for name, test in told.items() if name.startswith((number, "<MAIN>"))}
    failed = [name for name, state in states.items() if state not in ("PASSED", "SKIPPED")]
    if failed:
        return f"{', '.join(failed)}: {_what_failed(output)}"
    if "PASSED" not in [state for name, state in states.items() if name != "<MAIN>"]:
        why = re.findall(r"SKIPPING TEST: (.*)", output)
        return f"it skips itself: {why[-1] if why else 'its flags or its scenario'}"
    if subtests and not re.search(rf"\[ \w*{re.escape(subtests)}\w*:.*: PASS ", output):
        return f"it has no part of the name {subtests}"
    return ""


def _output(command: list[str], directory: Path, environment: dict[str, str]) -> str:
    with (directory / "output").open("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(CASE_DEADLINE_S)
        except subprocess.TimeoutExpired:
            output.write(f"\nnot done after {CASE_DEADLINE_S:.0f} s\n")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return _COLOUR.sub("", (directory / "output").read_text("utf-8", errors="replace"))


def _what_failed(output: str) -> str:
    """The runner's first words on a failure: where, and on the line below what."""
    lines = output.splitlines()
    for index, line in enumerate(lines):
        if line.startswith("### Test "):
            where = re.search(r"failed at (\S+) ", line)
            return f"{where[1] if where else line} {' '.join(lines[index + 1 : index + 2])}"[:400]
    return (lines[-1] if lines else "it printed nothing")[:400]


@contextmanager
def _broker(properties: tuple[str, ...], processes: int | None) -> Iterator[RunningBroker]:
    with tempfile.TemporaryDirectory(prefix="highwater-compat-") as temporary:
        log_directory = Path(temporary) / "log"
        log_directory.mkdir()
        with running_broker(log_directory, properties=properties, processes=processes) as broker:
            yield broker


def main(arguments: list[str]) -> int:
    processes, arguments = take_processes(arguments)
    try:
        tests = tests_directory()
    except UsageError as error:
        print(f"librdkafka/run: {error}", file=sys.stderr)
        return 2
    allowed = AllowList.of(HERE)
    is_local = all_cases(tests)
    wanted = tuple(is_local) if arguments == ["--all"] else choose(allowed, arguments)
    report = Report(allowed)
    with ExitStack() as stack:
        brokers: dict[str, RunningBroker] = {}
        for case in wanted:
            name = case.partition("/")[0].removesuffix(_CONSUMER)
            scenario = name.partition("-")[2]
            if name not in is_local or scenario not in PROPERTIES:
                report.tell(case, False, 0.0, "no such case")
                continue
            if scenario not in brokers:
                brokers[scenario] = stack.enter_context(_broker(PROPERTIES[scenario], processes))
            started = time.monotonic()
            problem = run_case(tests, case, brokers[scenario], is_local=is_local[name])
            report.tell(case, not problem, time.monotonic() - started, problem)
    return report.exit_status(wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
