"""Runs every suite and prints one table: `python -m tests.compat [--quick] [--once-more=FILE] [SUITE ...]`.

`make compat` calls it. Exit status 1 when an allowed case failed or was not run, or a suite could not be run. With
`--once-more` up to three cases of a suite that failed are run once more, as .ci/once-more does with tests; FILE gets a
line for each that passed only the second time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from highwater.common.compiled import SETTING
from tests.compat.suite import OUTCOMES_VARIABLE, AllowList, Outcome, read_outcomes

HERE = Path(__file__).parent
ONCE_MORE = "--once-more="
MOST_ONCE_MORE = 3
COLUMNS = "{:<16} {:>6} {:>7} {:>7} {:>8} {:>9}  {}"


def suites() -> list[str]:
    return sorted(path.parent.name for path in HERE.glob("*/run"))


def run_suite(name: str, *, quick: bool, once_more: Path | None = None) -> tuple[str, bool]:
    """Its row of the table, and whether all is as the allow-list says."""
    allowed = AllowList.of(HERE / name)
    wanted = allowed.quick if quick else allowed.cases
    started = time.monotonic()
    status, outcomes = _run(name, ["--quick"] if quick else [])
    failing = _failing(wanted, outcomes)
    if once_more and 0 < len(failing) <= MOST_ONCE_MORE:
        print(f"==> {name}, once more: {' '.join(failing)}", flush=True)
        status, second = _run(name, failing)
        outcomes |= second
        line = "passed only the second time, mend it: {} of {} (the first failure is above)\n"
        passed = [case for case in failing if case not in _failing(wanted, outcomes)]
        once_more.parent.mkdir(parents=True, exist_ok=True)
        with once_more.open("a", encoding="utf-8") as file:
            file.writelines(line.format(case, name) for case in passed)
        failing = [case for case in failing if case not in passed]
    said = (f"{case}: {outcomes[case].message[:200]}" if case in outcomes else f"{case}: not run" for case in failing)
    remark = f"fail: {'; '.join(said)}" if failing else f"exit status {status}" if status else ""
    passed_count = sum(outcome.passed for outcome in outcomes.values())
    seconds = f"{time.monotonic() - started:.0f}"
    return COLUMNS.format(name, len(outcomes), passed_count, len(wanted), len(failing), seconds, remark), not remark


def _run(name: str, arguments: list[str]) -> tuple[int, dict[str, Outcome]]:
    with tempfile.TemporaryDirectory(prefix="highwater-compat-") as temporary:
        path = Path(temporary) / "outcomes"
        path.touch()
        # What others wrote meets the broker that users run. Where nothing is set, tests run it as Python.
        compiled = {SETTING: os.environ.get(SETTING, "")}
        environment = {**os.environ, **compiled, OUTCOMES_VARIABLE: str(path)}
        status = subprocess.run([HERE / name / "run", *arguments], env=environment, check=False).returncode
        return status, {outcome.case: outcome for outcome in read_outcomes(path)}


def _failing(wanted: tuple[str, ...], outcomes: dict[str, Outcome]) -> list[str]:
    return [case for case in wanted if case not in outcomes or not outcomes[case].passed]


def main(arguments: list[str]) -> int:
    options = [argument for argument in arguments if argument.startswith("-")]
    names = [argument for argument in arguments if argument not in options] or suites()
    files = [Path(option.removeprefix(ONCE_MORE)) for option in options if option.startswith(ONCE_MORE)]
    known = ("--quick", *(f"{ONCE_MORE}{file}" for file in files))
    if unknown := [*set(options).difference(known), *set(names).difference(suites())]:
        print(f"no such suite or option: {' '.join(unknown)}; --quick, and: {', '.join(suites())}", file=sys.stderr)
        return 2
    rows = []
    for name in names:
        print(f"==> {name}", flush=True)
        rows.append(run_suite(name, quick="--quick" in options, once_more=files[0] if files else None))
    print("\n" + COLUMNS.format("suite", "cases", "passed", "allowed", "missing", "seconds", ""))
    for row, _ in rows:
        print(row.rstrip())
    return 0 if all(good for _, good in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
