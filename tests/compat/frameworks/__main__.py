"""Runs the cases; `make compat SUITES=frameworks` runs it. Exit status 1 if a case of `cases.allow` fails."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.compat.frameworks.cases import CASES
from tests.compat.suite import run_cases

if __name__ == "__main__":
    sys.exit(run_cases(Path(__file__).parent, CASES, sys.argv[1:]))
