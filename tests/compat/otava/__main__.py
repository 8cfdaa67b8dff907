"""Apache Otava on series with known changes, and on the CSV that we export; `make compat SUITES=otava` runs it."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from highwater.bench.exports import exporter
from highwater.common.errors import UsageError
from highwater.results.reader import RunResult
from highwater.studies.history.otava import change_points, otava_command
from tests.compat.suite import AllowList, Report, choose
from tests.reports.sample_run import Sample, write_sample


def series(*stretches: tuple[int, float], noise: float = 0.02) -> list[float]:
    """So many points around each mean."""
    draw = random.Random(7)
    return [mean * (1 + draw.gauss(0, noise)) for count, mean in stretches for _ in range(count)]


def a_step_is_found_where_it_is(otava: list[str]) -> None:
    found = change_points(otava, {"rate": series((20, 100.0), (12, 85.0)), "short": [1.0, 2.0]}, 0.05)
    (point,) = found["rate"]
    assert point.index == 20, point
    assert abs(point.ratio - 0.85) < 0.03, point
    assert found["short"] == []


def noise_is_no_change(otava: list[str]) -> None:
    assert change_points(otava, {"rate": series((60, 1e6))}, 0.05) == {"rate": []}


def a_step_below_the_magnitude_is_none(otava: list[str]) -> None:
    step = series((30, 100.0), (30, 96.0), noise=0.005)
    assert change_points(otava, {"rate": step}, 0.01)["rate"]
    assert change_points(otava, {"rate": step}, 0.10)["rate"] == []


def the_exported_csv_is_read(otava: list[str]) -> None:
    """Otava's own log of the file, with the columns that we give it."""
    with tempfile.TemporaryDirectory(prefix="highwater-otava-") as name:
        directory = Path(name)
        result = RunResult(write_sample(directory / "run", Sample(axes={}, trials=2, measure_s=3, rate_per_s=200.0)))
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
        result.manifest = result.manifest.model_copy(update={"created_utc": now})
        (file,) = exporter("otava")(result)
        (directory / "run.csv").write_bytes(file.content)
        metric = {"column": "produce.p99_ns", "direction": -1}
        test = {"type": "csv", "file": str(directory / "run.csv"), "attributes": ["commit"], "metrics": {"p99": metric}}
        (directory / "otava.yaml").write_text(yaml.safe_dump({"tests": {"run": test}}))
        command = [*otava, "analyze", "run", "--config-file", str(directory / "otava.yaml")]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    commit = result.manifest.git.commit if result.manifest.git else ""
    assert commit in printed, printed


CASES: dict[str, Callable[[list[str]], None]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        a_step_is_found_where_it_is,
        noise_is_no_change,
        a_step_below_the_magnitude_is_none,
        the_exported_csv_is_read,
    )
}


def main(arguments: list[str]) -> int:
    allowed = AllowList.of(Path(__file__).parent)
    wanted = choose(allowed, arguments)
    report = Report(allowed)
    try:
        otava = otava_command()
    except UsageError as error:
        print(f"otava: {error}", file=sys.stderr)
        return 2
    for case in wanted:
        started_s = time.monotonic()
        problem = ""
        try:
            CASES[case](otava)
        except (AssertionError, UsageError, ValueError, subprocess.CalledProcessError) as error:
            problem = " ".join(str(error).split())[:300] or type(error).__name__
        report.tell(case, not problem, time.monotonic() - started_s, problem)
    return report.exit_status(wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
