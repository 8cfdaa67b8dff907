"""franz-go's own tests of its client against our broker; `make compat SUITES=franz_go` runs it.

The tests are built once for each pinned version into the user's cache. Each case is run in a process of its own, as
one that hangs would take the others along; they share one broker, as they are made to.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from highwater.bench.user_cache import cached, need, run_step
from highwater.common.errors import UsageError
from tests.broker.running import running_broker
from tests.compat.suite import AllowList, Report, choose, take_processes

HERE: Final = Path(__file__).parent
PACKAGE: Final = "github.com/twmb/franz-go/pkg/kgo"
PROPERTIES: Final = (
    "num.partitions=4",
    "group.initial.rebalance.delay.ms=0",
    # Members of KIP-848 have 10 or 15 s in some cases, and a change needs several of their heartbeats.
    "group.consumer.heartbeat.interval.ms=100",
    "group.consumer.min.heartbeat.interval.ms=100",
)
# One broker, so one replica; so many records in the cases that read and write in chains of groups and transactions,
# over connections that break at random.
ENVIRONMENT: Final = {
    "KGO_TEST_RF": "1",
    "KGO_TEST_RECORDS": "100000",
    "KGO_TEST_CHAOS": "1",
    "KGO_LOG_LEVEL": "none",
}
CASE_DEADLINE_S: Final = 180.0
_OUTCOME: Final = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)


def test_program() -> Path:
    """The tests of the version that go.mod pins, as one program."""
    need("go", "golang", "builds franz-go's tests")

    def build(directory: Path) -> None:
        run_step(["go", "test", "-c", "-o", directory / "kgo.test", PACKAGE], HERE)

    pinned = hashlib.sha256((HERE / "go.sum").read_bytes()).hexdigest()[:12]
    return cached(f"franz-go-{pinned}", "franz-go's tests: built, about a minute", build) / "kgo.test"


def all_cases(program: Path) -> tuple[str, ...]:
    listed = subprocess.run([program, "-test.list", "^Test"], capture_output=True, text=True, check=True)
    return tuple(listed.stdout.split())


def sources() -> Path:
    """Some cases read the sources of the client, so they must run where those are."""
    return Path(run_step(["go", "list", "-f", "{{.Dir}}", PACKAGE], HERE).strip())


def run_case(program: Path, directory: Path, case: str, seeds: str) -> str:
    """Run it; what is wrong with its outcome, "" when it passed with all its parts that do not skip themselves."""
    deadlines = f"-test.timeout={CASE_DEADLINE_S:.0f}s"
    done = subprocess.run(
        [program, "-test.v", "-test.count=1", deadlines, "-test.run", f"^{case}$"],
        cwd=directory,
        env={**os.environ, **ENVIRONMENT, "KGO_SEEDS": seeds},
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = _OUTCOME.findall(done.stdout)
    if done.returncode == 0 and ("PASS", case) in outcomes:
        return ""
    if ("SKIP", case) in outcomes:
        return "it skips itself"
    failed = [name for verdict, name in outcomes if verdict == "FAIL"]
    said = [line.strip() for line in done.stdout.splitlines() if re.match(r"\s+\w+_test\.go:\d+: |panic: ", line)]
    return f"{', '.join(failed)} exit {done.returncode}: {'; '.join(said[-3:])}"[:600]


def main(arguments: list[str]) -> int:
    processes, arguments = take_processes(arguments)
    try:
        program, directory = test_program(), sources()
    except UsageError as error:
        print(f"franz_go/run: {error}", file=sys.stderr)
        return 2
    allowed = AllowList.of(HERE)
    wanted = all_cases(program) if arguments == ["--all"] else choose(allowed, arguments)
    report = Report(allowed)
    with tempfile.TemporaryDirectory(prefix="highwater-compat-") as temporary:
        log_directory = Path(temporary) / "log"
        log_directory.mkdir()
        with running_broker(log_directory, properties=PROPERTIES, processes=processes) as broker:
            for case in wanted:
                started = time.monotonic()
                problem = run_case(program, directory, case, broker.address)
                report.tell(case, not problem, time.monotonic() - started, problem)
    return report.exit_status(wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
