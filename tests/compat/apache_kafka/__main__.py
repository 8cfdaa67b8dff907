"""Runs the cases; `make compat SUITES=apache_kafka` runs it. Exit status 1 when a case of `cases.allow` fails."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from highwater.common.errors import UsageError
from tests.broker.running import RunningBroker, running_broker
from tests.compat.apache_kafka import (
    answer_cases,
    authorization_cases,
    cases,
    directory_cases,
    feature_cases,
    java_calls,
    load_cases,
    mixed_authorization_cases,
    newest_cases,
    secure_zookeeper_cases,
    system_cases,
    transaction_cases,
)
from tests.compat.apache_kafka.case import CASES
from tests.compat.apache_kafka.cluster_cases import CLUSTER_CASES
from tests.compat.apache_kafka.dump import complaints, dumpable_files
from tests.compat.apache_kafka.tools import close_hosts, jars_3_9, jars_4
from tests.compat.suite import AllowList, Report, choose

CASE_MODULES = (
    answer_cases,
    authorization_cases,
    cases,
    directory_cases,
    feature_cases,
    java_calls,
    load_cases,
    mixed_authorization_cases,
    newest_cases,
    secure_zookeeper_cases,
    system_cases,
    transaction_cases,
)
"""Imported for the cases that they have."""
PROPERTIES = (
    "group.initial.rebalance.delay.ms=0",
    "log.cleaner.backoff.ms=500",
    "metrics.listener=HTTP://127.0.0.1:0",
)


def dump(log_directory: Path) -> int:
    found = complaints(log_directory)
    for line in found:
        print(line)
    print(f"DumpLogSegments: {len(dumpable_files(log_directory))} files below {log_directory}, {len(found)} complaints")
    return 1 if found else 0


def run_alone(check: Callable[[RunningBroker], None], log_directory: Path) -> None:
    log_directory.mkdir()
    with running_broker(log_directory, properties=PROPERTIES) as broker:
        check(broker)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--dump"]:
        return dump(Path(arguments[1]))
    allowed = AllowList.of(Path(__file__).parent)
    names = choose(allowed, arguments)
    unknown = [name for name in names if name not in CASES | CLUSTER_CASES]
    if unknown:
        print(f"no such case: {', '.join(unknown)}; there are: {', '.join(CASES | CLUSTER_CASES)}", file=sys.stderr)
        return 2
    try:
        jars_3_9()
        jars_4()
    except UsageError as error:
        print(f"apache_kafka/run: {error}", file=sys.stderr)
        return 2
    report = Report(allowed)
    for name in names:
        started = time.monotonic()
        message = ""
        with tempfile.TemporaryDirectory(prefix="highwater-compat-") as temporary:
            try:
                if name in CLUSTER_CASES:
                    CLUSTER_CASES[name](Path(temporary))
                else:
                    run_alone(CASES[name], Path(temporary) / "log")
            except (AssertionError, EOFError, TimeoutError, subprocess.TimeoutExpired) as error:
                message = str(error) or repr(traceback.extract_tb(error.__traceback__)[-1].line)
        report.tell(name, not message, time.monotonic() - started, message)
    return report.exit_status(names)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    finally:
        close_hosts()
