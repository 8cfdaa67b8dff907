"""Suites whose cases are pytest's: runs them in a process of their own and tells each outcome.

`python -m tests.compat.pytest_cases SUITE [--marked] [--quick | CASE ...]` is for suites that consist of our own tests.
`--marked` leaves out what has not the marker `compat`: `make test-slow` runs that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.compat.suite import AllowList, Report, choose

ROOT = Path(__file__).parents[2]
PARALLEL = ("-p", "tests.forks", "--forks", str(min(os.cpu_count() or 1, 4)))


def run_pytest(
    report: Report, arguments: Sequence[str], *, directory: Path = ROOT, environment: Mapping[str, str] | None = None
) -> None:
    """Tell `report` the outcome of each test that pytest ran: a case is a test function, with all of its parameters."""
    with tempfile.TemporaryDirectory(prefix="highwater-compat-") as temporary:
        junit = Path(temporary) / "junit.xml"
        options = ["-o", "junit_family=xunit1", f"--junitxml={junit}", "-p", "no:cacheprovider"]
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, *arguments],
            cwd=directory,
            env={**os.environ, **(environment or {})},
            check=False,
        )
        # The file is pytest's own, not something that came over a network.
        elements = list(ElementTree.parse(junit).iter("testcase")) if junit.exists() else []  # noqa: S314
    cases: dict[str, list[ElementTree.Element]] = {}
    for element in elements:
        cases.setdefault(_case(element), []).append(element)
    for case, runs in cases.items():
        problems = [
            f"{run.get('name')}: {problem.tag}: {problem.get('message', '')}"[:300].replace("\n", " ")
            for run in runs
            for problem in run
            if problem.tag in ("failure", "error", "skipped")
        ]
        report.tell(case, not problems, sum(float(run.get("time", "0")) for run in runs), "; ".join(problems))


def _case(element: ElementTree.Element) -> str:
    file = element.get("file", "")
    test_class = element.get("classname", "").removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
    function = element.get("name", "").partition("[")[0]
    return "::".join(part for part in (file, test_class, function) if part)


def main(suite: str, arguments: list[str]) -> int:
    allowed = AllowList.of(Path(__file__).parent / suite)
    is_marked = arguments[:1] == ["--marked"]
    wanted = choose(allowed, arguments[is_marked:])
    report = Report(allowed)
    run_pytest(report, [*wanted, *(("-m", "compat") if is_marked else ()), *PARALLEL])
    return report.exit_status(wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
