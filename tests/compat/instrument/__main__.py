"""Runs the cases; `make compat SUITES=instrument` runs it. Exit status 1 when a case of `cases.allow` fails."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from highwater.bench.errors import UsageError
from tests.compat.instrument import export_cases, fio_cases, histogram_cases, load_tools, secured_cases
from tests.compat.instrument.case import CASES, clean_up
from tests.compat.suite import AllowList, Report, choose

CASE_MODULES = (export_cases, fio_cases, histogram_cases, secured_cases, load_tools)
"""Imported for the cases that they have."""


def main(arguments: list[str]) -> int:
    allowed = AllowList.of(Path(__file__).parent)
    names = choose(allowed, arguments)
    if unknown := [name for name in names if name not in CASES]:
        print(f"no such case: {', '.join(unknown)}; there are: {', '.join(CASES)}", file=sys.stderr)
        return 2
    report = Report(allowed)
    try:
        for name in names:
            started_s = time.monotonic()
            problem = ""
            try:
                CASES[name]()
            except (AssertionError, UsageError, OSError, ValueError, subprocess.SubprocessError) as error:
                problem = " ".join(str(error).split())[:400] or type(error).__name__
            report.tell(name, not problem, time.monotonic() - started_s, problem)
    finally:
        clean_up()
    return report.exit_status(names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
