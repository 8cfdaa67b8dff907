"""Workloads that replay traces: what is filled in, what does not go together, and the load plan of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.trials.load_plan import load_plan_of
from highwater.bench.trials.plan import make_plan, trial_log_bytes
from highwater.bench.workload.specification import Specification, load_specification, recorded_workloads
from highwater.common.errors import UsageError
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.traces import TracedArrivals, TracedHeaders, TracedKeys, TracedSizes
from tests.studies.capture.logs import batch, observed, record, trace_of

HEAD = """\
schema: bench.workload/1
name: replay
topics: {partitions: 3}
"""
REPLAY = HEAD + "records: {trace: orders}\nload: {trace: orders}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a trace of 12 s in `orders`, and one of level 0 in `headers`."""
    batches = []
    for number in range(1200):
        records = [
            record(
                number * 10 + at, b"key-%d-%d" % (number // 800, number % 5), b"v" * (100 + number % 400), ("h", b"x")
            )
            for at in range(4)
        ]
        batches.append(batch(number * 4, records))
    by_partition = [observed(*batches[:800], partition=0), observed(*batches[800:], partition=2, expected=3200)]
    by_partition[0].merge(by_partition[1])
    trace_of(tmp_path / "orders", by_partition[0])
    trace_of(tmp_path / "headers", observed(*batches, level=0))
    return tmp_path


def read(folder: Path, text: str) -> Specification:
    (folder / "w.yaml").write_text(text)
    return load_specification(folder / "w.yaml")


def plan_of(specification: Specification) -> LoadPlan:
    workload = specification.cells[0].workload
    return load_plan_of(
        workload,
        bootstrap_servers="localhost:9092",
        topics=("t",),
        payload_file=None,
        seed=1,
        traces=specification.traces(workload),
    )


def test_a_trace_fills_in_what_the_file_leaves_out(folder: Path) -> None:
    specification = read(folder, REPLAY)
    workload = specification.workload
    assert workload.load.trace is not None
    assert (workload.load.trace.records, workload.phases.measure_s) == (4800, 12)
    assert [step.rate_per_s for step in workload.load.steps] == [400]
    assert not workload.load.is_constant
    assert 17 * 400 * 300 < trial_log_bytes(workload) < 17 * 400 * 500
    assert make_plan(specification, 1).trials
    plan = plan_of(specification)
    assert isinstance(plan.schedule, TracedArrivals)
    assert (plan.measure_s, plan.schedule.counts.sum()) == (12, 4800)
    assert isinstance(plan.sizes, TracedSizes)
    assert isinstance(plan.keys, TracedKeys)
    assert isinstance(plan.headers, TracedHeaders)
    assert plan.keys.has_partitions


def test_what_a_run_recorded_is_read_again_without_the_trace(folder: Path) -> None:
    document = read(folder, REPLAY).workload.as_document()
    (again,) = recorded_workloads(document).values()
    assert again.as_document() == document


def test_faster_thinner_and_on_more_partitions(folder: Path) -> None:
    text = REPLAY.replace("load: {trace: orders}", "load: {trace: {path: orders, speed: 3.0, share: 50%}}")
    plan = plan_of(read(folder, text.replace("partitions: 3", "partitions: 12")))
    assert isinstance(plan.schedule, TracedArrivals)
    assert (plan.measure_s, plan.schedule.speed, plan.schedule.share) == (4, 3.0, 0.5)
    # Of other partitions, the client's partitioner chooses.
    assert isinstance(plan.keys, TracedKeys)
    assert not plan.keys.has_partitions


def test_speed_is_an_axis_and_variants_may_have_traces(folder: Path) -> None:
    specification = read(folder, REPLAY + "matrix: {load.trace.speed: [1.0, 2.0]}\n")
    assert [cell.workload.phases.measure_s for cell in specification.cells] == [12, 6]
    text = HEAD + "records: {size: 1KiB}\nload: {rate: 1k/s}\nphases: {measure: 5s}\n"
    specification = read(folder, text + "variants: {plain: {}, replayed: {load: {rate: null, trace: headers}}}\n")
    assert [cell.workload.load.trace is None for cell in specification.cells] == [True, False]


def test_included_files_name_traces_beside_them(folder: Path) -> None:
    (folder / "base").mkdir()
    (folder / "base" / "base.yaml").write_text(REPLAY.replace(": orders", ": ../orders"))
    specification = read(folder, "include: base/base.yaml\nname: over\n")
    assert specification.traces(specification.workload).arrivals is not None


def test_the_wire_driver_replays_arrivals_alone(folder: Path) -> None:
    wire = HEAD + "producers: {driver: wire}\nload: {trace: orders}\nrecords: "
    assert isinstance(plan_of(read(folder, wire + "{size: 500B}\n")).schedule, TracedArrivals)
    with pytest.raises(
        UsageError, match=r"records.trace: needs producers.driver: client; wire sends values of one size"
    ):
        read(folder, wire + "{trace: orders}\n")


def without(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "load: {trace: orders}",
            "load: {trace: none}",
            "load.trace: {folder}/none is not a trace: it has no manifest.json",
        ),
        ("records: {trace: orders}", "records: {trace: headers}", "records.trace: headers was captured at level 0"),
        ("load: {trace: orders}", "load: {trace: orders, rate: 1k/s}", "load.rate: comes from load.trace"),
        ("load: {trace: orders}", "load: {trace: orders, arrival: poisson}", "load.arrival: comes from load.trace"),
        ("load: {trace: orders}", "load: {trace: orders, model: closed}", "load.trace: is for model: open"),
        ("records: {trace: orders}", "records: {trace: orders, size: 1KiB}", "records.size: comes from records.trace"),
        (
            "records: {trace: orders}",
            "records: {trace: orders, keys: {round_robin: 5}}",
            "records.keys: comes from records.trace",
        ),
        (
            "load: {trace: orders}",
            "load: {trace: orders}\nphases: {measure: 13s}",
            "phases.measure: is longer than the trace, which lasts 12s at this speed",
        ),
        (
            "load: {trace: orders}",
            "load: {trace: orders}\nphases: {warmup: {until: steady}}",
            "phases.warmup: until: steady needs one rate",
        ),
        (
            "load: {trace: orders}",
            "load: {trace: {path: orders, sha256: abc}}",
            "load.trace: orders is another trace than the one with this sha256",
        ),
        ("load: {trace: orders}", "load: {trace: {path: orders, spede: 2}}", 'unknown key; did you mean "speed"?'),
    ],
)
def test_what_does_not_go_together(folder: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(folder, without(REPLAY, old, new))
    assert says.format(folder=folder) in str(caught.value)
    assert "\n" not in str(caught.value)
