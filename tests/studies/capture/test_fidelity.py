"""Capture → replay → capture again: the distances between the two traces, printed, within the bounds.

`pytest -s` shows the tables of docs/results/capture.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.bench.trials.load_plan import load_plan_of
from highwater.bench.workload.specification import load_specification
from highwater.spark_loadgen.model import LoadResult
from highwater.spark_loadgen.process_launcher import ProcessLauncher
from highwater.studies.commands.capture import app
from tests.broker.running import RunningBroker, running_broker
from tests.studies.capture.original_load import ORIGINALS, Original, create_topic, send

LATE_NS = 10_000_000
TIMED = ("records each second", "bytes of a batch", "compressed by")

pytestmark = [pytest.mark.slow, pytest.mark.clients]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("fidelity") / "log") as running:
        yield running


def captured(broker: RunningBroker, topic: str, out: Path) -> None:
    arguments = [topic, "--bootstrap-servers", broker.address, "--read-rate", "100MiB/s", "--out", str(out)]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    print(found.stdout)  # noqa: T201 - the table of the results


def replayed(broker: RunningBroker, trace: Path, topic: str, **changes: object) -> LoadResult:
    """Replay the workload of a trace as it is, without its warm-up, which would be captured too."""
    create_topic(broker.address, topic)
    overrides: dict[tuple[str | int, ...], tuple[object, str]] = {("phases", "warmup"): ("0s", "--warmup")}
    for name, value in changes.items():
        overrides["load", "trace", name] = (value, f"--{name}")
        overrides["phases", "measure"] = (None, f"--{name}")
    specification = load_specification(trace / "workload.yaml", overrides)
    workload = specification.cells[0].workload
    plan = load_plan_of(
        workload,
        bootstrap_servers=broker.address,
        topics=(topic,),
        payload_file=None,
        seed=7,
        traces=specification.traces(workload),
    )
    with ProcessLauncher() as launcher:
        return launcher.run(plan)


def outside(first: Path, second: Path, result: LoadResult, *options: str) -> list[str]:
    """What is outside of its bounds, the second against the first; the table is printed.

    On a busy machine the generator is late, and says so: then the rate of a replay is no sign of a fault, and batches,
    which follow from it and decide how well they compress, are those of another load.
    """
    delays = result.histograms["send_delay"].values()
    late_ns = max((delay.percentile(99) for delay in delays if delay.count), default=0)
    runner = CliRunner()
    arguments = ["compare", str(first), str(second), *options]
    table = runner.invoke(app, arguments)
    print(f"{table.stdout}99 % of the records of the worst second were sent within {late_ns / 1e6:.1f} ms")  # noqa: T201
    found = json.loads(runner.invoke(app, [*arguments, "--json"]).stdout)
    names = [each["name"] for each in found if not each["within"]]
    assert table.exit_code == (1 if names else 0)
    return [name for name in names if late_ns < LATE_NS or not name.startswith(TIMED)]


Captures = Callable[[Original], Path]


@pytest.fixture(scope="module")
def captures(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """Sends an original in its time, and captures it, when somebody first asks for it."""
    folder = tmp_path_factory.mktemp("captures")

    def capture(original: Original) -> Path:
        if not (found := folder / original.name).exists():
            create_topic(broker.address, original.name)
            send(broker.address, original.name, original)
            captured(broker, original.name, found)
        return found

    return capture


@pytest.mark.timeout(300)
@pytest.mark.parametrize("original", ORIGINALS, ids=lambda original: original.name)
def test_a_replay_is_within_the_bounds(
    original: Original, captures: Captures, broker: RunningBroker, tmp_path: Path
) -> None:
    trace = captures(original)
    result = replayed(broker, trace, f"{original.name}-replayed")
    assert (result.delivery.lost, result.delivery.corrupt, result.delivery.reordered) == (0, 0, 0)
    captured(broker, f"{original.name}-replayed", tmp_path / "again")
    assert outside(trace, tmp_path / "again", result) == []


@pytest.mark.timeout(300)
def test_twice_as_fast_and_half_of_the_records(captures: Captures, broker: RunningBroker, tmp_path: Path) -> None:
    trace = captures(ORIGINALS[0])
    result = replayed(broker, trace, "fast-replayed", speed=2.0, share="50%")
    captured(broker, "fast-replayed", tmp_path / "again")
    assert outside(trace, tmp_path / "again", result, "--speed", "2", "--share", "0.5") == []
