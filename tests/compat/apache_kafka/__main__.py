"""Runs the cases; `run` calls it with KAFKA_JARS set. Exit status 1 when a case of `cases.allow` fails."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.broker.running import running_broker
from tests.compat.apache_kafka.cases import CASES
from tests.compat.apache_kafka.dump import complaints, dumpable_files

ALLOW_LIST = Path(__file__).with_name("cases.allow")


def allowed_cases() -> list[str]:
    lines = ALLOW_LIST.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def dump(log_directory: Path) -> int:
    found = complaints(log_directory)
    for line in found:
        print(line)
    print(f"DumpLogSegments: {len(dumpable_files(log_directory))} files below {log_directory}, {len(found)} complaints")
    return 1 if found else 0


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--dump"]:
        return dump(Path(arguments[1]))
    names = arguments or allowed_cases()
    unknown = [name for name in names if name not in CASES]
    if unknown:
        print(f"no such case: {', '.join(unknown)}; there are: {', '.join(CASES)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="highwater-compat-") as temporary:
            log_directory = Path(temporary) / "log"
            log_directory.mkdir()
            try:
                with running_broker(log_directory) as broker:
                    CASES[name](broker)
                outcome = "pass"
            except AssertionError as error:
                outcome = f"FAIL: {error}"
                failed += 1
        print(f"{name}: {outcome} ({time.monotonic() - started:.1f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
