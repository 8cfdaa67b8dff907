"""Runs the cases; `make compat SUITES=instrument` runs it. Exit status 1 when a case of `cases.allow` fails."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.compat.instrument import export_cases, fio_cases, histogram_cases, load_tools, secured_cases
from tests.compat.instrument.case import CASES, clean_up
from tests.compat.suite import run_cases

CASE_MODULES = (export_cases, fio_cases, histogram_cases, secured_cases, load_tools)
"""Imported for the cases that they have."""


if __name__ == "__main__":
    try:
        sys.exit(run_cases(Path(__file__).parent, CASES, sys.argv[1:]))
    finally:
        clean_up()
