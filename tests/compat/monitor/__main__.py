"""Runs the cases; `make compat SUITES=monitor` runs it. Exit status 1 if a case of `cases.allow` fails."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.compat.apache_kafka.tools import close_hosts
from tests.compat.monitor.cases import CASES
from tests.compat.suite import run_cases

if __name__ == "__main__":
    try:
        sys.exit(run_cases(Path(__file__).parent, CASES, sys.argv[1:]))
    finally:
        close_hosts()
