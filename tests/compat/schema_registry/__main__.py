"""Runs the cases; `make compat SUITES=schema_registry` runs it. Exit status 1 if a case of `cases.allow` fails."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.compat.schema_registry import spark_cases
from tests.compat.schema_registry.cases import CASES, clean_up
from tests.compat.suite import run_cases

CASE_MODULES = (spark_cases,)
"""Imported for the cases that it has."""

if __name__ == "__main__":
    try:
        sys.exit(run_cases(Path(__file__).parent, CASES, sys.argv[1:]))
    finally:
        clean_up()
