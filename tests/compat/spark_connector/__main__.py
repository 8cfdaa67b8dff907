"""Runs suites of the connector, and parity with it; `make compat SUITES=spark_connector` runs it."""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from tests.compat.spark_connector.jars import suites
from tests.compat.spark_connector.parity import compare_on
from tests.compat.spark_connector.recipes import compare_recipes, run_in_real_time
from tests.compat.spark_connector.scalatest import run_suite
from tests.compat.spark_connector.suite_cases import SUITES, TESTS_LEFT_OUT
from tests.compat.suite import AllowList, Report, choose

PARITY: Final = {"parity-highwater": "highwater", "parity-kafka-3.9": "3.9", "parity-kafka-4": "4"}
"""Case → the broker that both read from."""
RECIPES: Final = {"recipes-equal": compare_recipes, "recipe-in-real-time": run_in_real_time}
"""Case → what runs recipes of the cookbook."""


def run_their_suite(suite: str, folder: Path, counts: Counter[str]) -> str:
    """What is wrong; empty if every test passed that is not left out."""
    outcomes = run_suite(suite, suites(), folder)
    failed = [each for each in outcomes if each.failure]
    wrong = [each for each in failed if (suite, each.name) not in TESTS_LEFT_OUT]
    left_out = len(failed) - len(wrong)
    counts.update(passed=len(outcomes) - len(failed), failed=len(wrong), left_out=left_out)
    print(f"{suite}: {len(outcomes)} tests, {len(failed)} failed, {left_out} of them left out", flush=True)
    return "; ".join(f"{each.name}: {each.failure[:300]}" for each in wrong)


def _place_of(error: Exception) -> str:
    """Of an error without a text."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {place.line}"


def main(arguments: list[str]) -> int:
    allowed = AllowList.of(Path(__file__).parent)
    names = choose(allowed, arguments)
    if unknown := [name for name in names if name not in (*SUITES, *PARITY, *RECIPES)]:
        there = ", ".join((*SUITES, *PARITY, *RECIPES))
        print(f"no such case: {', '.join(unknown)}; there are: {there}", file=sys.stderr)
        return 2
    try:
        suites()
    except UsageError as error:
        print(f"spark_connector/run: {error}", file=sys.stderr)
        return 2
    report = Report(allowed)
    counts: Counter[str] = Counter()
    for name in names:
        started_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="highwater-compat-") as scratch:
            try:
                if name in PARITY:
                    problem = compare_on(PARITY[name], Path(scratch))
                elif name in RECIPES:
                    problem = RECIPES[name](Path(scratch))
                else:
                    problem = run_their_suite(name, Path(scratch), counts)
            except Exception as error:  # whatever one case raises, the others are run
                problem = " ".join(str(error).split()) or _place_of(error)
        report.tell(name, not problem, time.monotonic() - started_s, problem)
    passed, failed, left_out = (counts[each] for each in ("passed", "failed", "left_out"))
    print(f"tests of the connector: {passed} passed, {failed} failed, {left_out} failed and are left out")
    return report.exit_status(names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
