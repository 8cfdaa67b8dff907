"""The workload format: every shape of a value, what can be an axis, and the line for each thing that cannot be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.bench.workload.model import Workload
from highwater.bench.workload.sections import Transactions
from highwater.bench.workload.values import AfterBacklog, SteadyWarmup, WeightedSizes, ZipfKeys
from highwater.common.errors import UsageError
from highwater.results.bounds import Bound, parse_bound
from highwater.results.metrics import METRICS, MetricDefinition
from tests.bench.workload.test_specification import document, read


def test_every_shape_of_a_value_in_one_file_dumps_to_what_loads_again() -> None:
    workload = read(
        document(
            topics="{count: 2, partitions: 3, replication: 3}",
            system="{kind: apache-kafka, version: '3.9', nodes: 3}",
            producers="{count: 2, transactions: {every: 100ms, abort_ratio: 0.1}}",
            consumers="{groups: 2, per_group: 3, start: {after_backlog: 2GiB}}",
            records="{size: {weights: {128B: 3, 1KiB: 6}}, keys: {zipf: {n: 100k, s: 1.1}}, "
            "headers: {count: 2, bytes: 8}}",
            load="{arrival: poisson, schedule: [{rate: 50k/s, for: 60s}, {rate: 200k/s, for: 10s}]}",
            phases="{drain: {max: 60s}}",
            trials="{n: 5, stop_when: {ci_halfwidth: 2%, of: produce.p99, min: 3}}",
            checks="{delivery: exactly_once, order: none}",
            slo='{produce.p99.9: "<20ms", produce.achieved_per_s: ">=49k/s", errors: "==0", host.cpu_ratio: "<=90%"}',
            host="{profile: notes}",
        )
    ).workload
    assert Workload.model_validate(workload.as_document()) == workload
    assert isinstance(workload.records.size, WeightedSizes)
    assert (workload.records.size.max_bytes, workload.records.size.mean_bytes) == (1024, (3 * 128 + 6 * 1024) / 9)
    assert isinstance(workload.records.keys, ZipfKeys)
    assert (workload.records.keys.n, workload.records.keys.s) == (100_000, 1.1)
    assert (workload.records.headers.count, workload.records.headers.value_bytes) == (2, 8)
    assert workload.load.steps == ((50_000, 60), (200_000, 10))
    assert (workload.phases.measure_s, workload.phases.drain_max_s) == (70, 60)
    assert workload.consumers.start == AfterBacklog.model_validate({"after_backlog": "2GiB"})
    assert (workload.consumers.count, workload.tasks) == (6, 8)
    assert workload.producers.transactions == Transactions.model_validate({"every": "100ms", "abort_ratio": 0.1})
    assert workload.slo["produce.p999"].met(19e6)
    assert not workload.slo["produce.p999"].met(20e6)
    assert workload.slo["host.cpu_ratio"].met(0.9)
    assert workload.trials.stop_when is not None
    assert workload.trials.stop_when.ci_halfwidth_ratio == 0.02


def test_a_steady_warm_up_and_a_closed_loop() -> None:
    phases = "{warmup: {until: steady, slope: 1%, window: 10s, max: 60s}, measure: 5s}"
    workload = read(document(load="{model: closed}", phases=phases)).workload
    assert isinstance(workload.phases.warmup, SteadyWarmup)
    assert (workload.phases.warmup.slope_ratio, workload.phases.warmup_max_s) == (0.01, 60)
    assert (workload.load.steps, workload.load.rate_per_s) == ((), None)


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ("producers.driver", "[client, wire]"),
        ("system.kind", "[highwater, apache-kafka]"),
        ("host.profile", "[none, notes]"),
        ("storage.target", "[temporary]"),
        ("load.rate", "[1k/s, 2k/s]"),
        ("load.model", "[open]"),
        ("records.size", "[1KiB, 2KiB]"),
        ("records.keys", "[none]"),
        ("records.headers.count", "[0, 2]"),
        ("phases.warmup", "[1s, 2s]"),
        ("consumers.start", "[with_load, after_load]"),
        ("topics.count", "[1, 2]"),
        ("checks.delivery", "[at_least_once, none]"),
        ("system.config.num.io.threads", "[2, 4]"),
    ],
)
def test_any_scalar_can_be_an_axis(axis: str, values: str) -> None:
    specification = read(document(matrix=f"{{{axis}: {values}}}"))
    assert len(specification.cells) == len(specification.workload.matrix[axis])
    for cell, value in zip(specification.cells, specification.workload.matrix[axis], strict=True):
        assert cell.factors == {axis.removeprefix("system.config."): value}


def test_an_axis_within_a_distribution() -> None:
    records = "{size: 1KiB, keys: {zipf: {n: 1k}}}"
    cells = read(document(records=records, matrix="{records.keys.zipf.s: [0.9, 1.2]}")).cells
    assert [cell.workload.records.keys.s for cell in cells if isinstance(cell.workload.records.keys, ZipfKeys)] == [
        0.9,
        1.2,
    ]


@pytest.mark.parametrize("definition", METRICS.values(), ids=lambda definition: definition.name)
def test_every_metric_can_have_an_objective(definition: MetricDefinition) -> None:
    bounds = ("<1ms", "<1/s", "<1B/s", "<1B", "<1%", "<1")
    assert any(_fits(parse_bound(bound), definition.unit) for bound in bounds)


@pytest.mark.parametrize(
    ("name", "bound", "met", "missed"),
    [
        ("steady.at_s", "<2s", 1.9, 2.0),
        ("writeback.flush_s", "<=500ms", 0.5, 0.501),
        ("lag.max", "<10k", 9_999, 10_000),
        ("errors", "==0", 0, 1),
        ("system.cpu_s_per_gib", "<2.5", 2.4, 2.5),
    ],
)
def test_objectives_are_written_with_units_and_held_against_the_metrics_own(
    name: str, bound: str, met: float, missed: float
) -> None:
    workload = read(document(slo=f'{{{name}: "{bound}"}}')).workload
    again = Workload.model_validate(workload.as_document())
    for found in (workload.slo[name], again.slo[name]):
        assert (found.met(met), found.met(missed), str(found)) == (True, False, bound)


def test_an_objective_in_seconds_without_a_unit_is_refused() -> None:
    with pytest.raises(UsageError, match="for example <30s"):
        read(document(slo='{steady.at_s: "<2"}'))


def _fits(bound: Bound, unit: str) -> bool:
    try:
        bound.for_unit(unit)
    except ValueError:
        return False
    return True


def test_the_files_of_the_documentation_load() -> None:
    page = (Path(__file__).parent.parent.parent.parent / "docs" / "workloads.md").read_text("utf-8")
    files = re.findall(r"```yaml\n(schema: .*?)```", page, re.DOTALL)
    assert len(files) == 3
    assert [len(read(file).cells) for file in files] == [5, 3, 3]
