"""Runs every suite and prints one table: `python -m tests.compat [--quick] [SUITE ...]`. `make compat` calls it.

Exit status 1 when an allowed case failed or was not run, or a suite could not be run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.compat.suite import OUTCOMES_VARIABLE, AllowList, read_outcomes

HERE = Path(__file__).parent
COLUMNS = "{:<16} {:>6} {:>7} {:>7} {:>8} {:>9}  {}"


def suites() -> list[str]:
    return sorted(path.parent.name for path in HERE.glob("*/run"))


def run_suite(name: str, options: list[str]) -> tuple[str, bool]:
    """Its row of the table, and whether all is as the allow-list says."""
    allowed = AllowList.of(HERE / name)
    wanted = allowed.quick if "--quick" in options else allowed.cases
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="highwater-compat-") as temporary:
        path = Path(temporary) / "outcomes"
        path.touch()
        status = subprocess.run(
            [HERE / name / "run", *options], env={**os.environ, OUTCOMES_VARIABLE: str(path)}, check=False
        ).returncode
        outcomes = {outcome.case: outcome for outcome in read_outcomes(path)}
    passed = [case for case, outcome in outcomes.items() if outcome.passed]
    failing = [case for case in wanted if case not in passed]
    remark = f"fail: {', '.join(failing)}" if failing else f"exit status {status}" if status else ""
    row = COLUMNS.format(
        name, len(outcomes), len(passed), len(wanted), len(failing), f"{time.monotonic() - started:.0f}", remark
    )
    return row, not remark


def main(arguments: list[str]) -> int:
    options = [argument for argument in arguments if argument.startswith("-")]
    names = [argument for argument in arguments if argument not in options] or suites()
    if unknown := [*set(options).difference({"--quick"}), *set(names).difference(suites())]:
        print(f"no such suite or option: {' '.join(unknown)}; --quick, and: {', '.join(suites())}", file=sys.stderr)
        return 2
    rows = []
    for name in names:
        print(f"==> {name}", flush=True)
        rows.append(run_suite(name, options))
    print("\n" + COLUMNS.format("suite", "cases", "passed", "allowed", "missing", "seconds", ""))
    for row, _ in rows:
        print(row.rstrip())
    return 0 if all(good for _, good in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
