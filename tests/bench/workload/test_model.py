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
from tests.bench.workload.test_specification import complaint, document, read


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"consumers": "{count: 2}"}, "w.yaml:6: consumers.count: is written per_group: 2 (consumers of each group)"),
        (
            {"records": "{size: {wieghts: {64B: 1}}}"},
            (
                "w.yaml:3: records.size: {'wieghts': {'64B': 1}} is not a size with its unit "
                "(B, KiB, MiB, GiB or kB, MB, GB), for example 64KiB, or {weights: {128B: 3, 1KiB: 6}}, "
                "or {uniform: {min: 100B, max: 2KiB}}"
            ),
        ),
        (
            {"records": "{size: {weights: {12B: 1}}}"},
            "w.yaml:3: records.size.weights.12B: 12B is not between 24B (the stamp) and 1GiB",
        ),
        ({"records": "{size: {weights: {64B: 0}}}"}, "w.yaml:3: records.size.weights.64B: 0 is less than 1"),
        (
            {"records": "{size: {uniform: {min: 2KiB, max: 1KiB}}}"},
            "w.yaml:3: records.size.uniform.min: 2KiB is more than max",
        ),
        (
            {"records": "{size: {uniform: {min: 1KiB, mxa: 2KiB}}}"},
            'w.yaml:3: records.size.uniform.mxa: unknown key; did you mean "max"?',
        ),
        (
            {"records": "{size: 1KiB, keys: some}"},
            (
                "w.yaml:3: records.keys: 'some' is not none, {round_robin: 100}, {random: {n: 100k}} or "
                "{zipf: {n: 100k, s: 1.1}}"
            ),
        ),
        (
            {"records": "{size: 1KiB, keys: {zipf: {n: many}}}"},
            "w.yaml:3: records.keys.zipf.n: 'many' is not a count, for example 100, 50k or 2M",
        ),
        (
            {"records": "{size: 1KiB, headers: 2}"},
            "w.yaml:3: records.headers: 2 does not give their size; write {count: 2, bytes: 16}",
        ),
        (
            {"load": "{rate: 1k/s, schedule: [{rate: 1k/s, for: 5s}]}"},
            "w.yaml:4: load.schedule: has the rates; remove rate",
        ),
        (
            {"load": "{schedule: [{rate: 1k/s, for: 5s}, {rate: 2k, for: 5s}]}"},
            "w.yaml:4: load.schedule[1].rate: '2k' is not records per second, for example 500/s, 20k/s or 1.5M/s",
        ),
        (
            {"load": "{schedule: [{rate: 1k/s, for: 9s}]}"},
            "w.yaml:5: phases.measure: is not the duration of load.schedule, 9s; remove measure",
        ),
        (
            {"load": "{model: closed, rate: 1k/s}"},
            "w.yaml:4: load.rate: is for model: open; a closed loop sends as fast as it can",
        ),
        (
            {"load": "{model: closed, arrival: poisson}"},
            "w.yaml:4: load.arrival: is for model: open; a closed loop has no arrivals",
        ),
        ({"phases": "{warmup: 3s}"}, "w.yaml:5: phases.measure: is missing"),
        ({"phases": None}, "w.yaml: phases.measure: is missing"),
        (
            {
                "load": "{schedule: [{rate: 1k/s, for: 1s}, {rate: 2k/s, for: 4s}]}",
                "phases": "{warmup: {until: steady}}",
            },
            "w.yaml:5: phases.warmup: until: steady needs one rate; give a duration before a schedule of several",
        ),
        (
            {"phases": "{warmup: {until: steady, slope: 0.005}, measure: 5s}"},
            "w.yaml:5: phases.warmup.slope: 0.005 is not a percentage, for example 0.5%",
        ),
        (
            {"phases": "{warmup: {until: steady, window: 3m}, measure: 5s}"},
            "w.yaml:5: phases.warmup.window: 3m is longer than max",
        ),
        (
            {"phases": "{measure: 5s, drain: {mx: 5s}}"},
            (
                "w.yaml:5: phases.drain: {'mx': '5s'} is not a duration with its unit "
                "(us, ms, s, m or min, h, d), for example 500ms, 15s, 5min or 3d, or {max: 60s}"
            ),
        ),
        (
            {"consumers": "{start: later}"},
            "w.yaml:6: consumers.start: 'later' is not with_load, after_load or {after_backlog: 2GiB}",
        ),
        (
            {"consumers": "{groups: 0, start: after_load}"},
            "w.yaml:6: consumers.start: needs consumers, but there are none",
        ),
        (
            {"consumers": "{groups: 0}", "checks": "{delivery: exactly_once}"},
            "w.yaml:7: checks.delivery: exactly_once is checked by consumers, but there are none",
        ),
        (
            {"consumers": "{pairing: pairs, start: after_load}"},
            "w.yaml:6: consumers.pairing: pairs read during the load; they need start: with_load",
        ),
        (
            {"consumers": "{pairing: pairs}", "producers": "{count: 2}"},
            (
                "w.yaml:6: consumers.pairing: pairs need one group with a consumer for each producer; "
                "write groups: 1, per_group: 2"
            ),
        ),
        (
            {"producers": "{transactions: {records: 10, every: 5ms}}"},
            "w.yaml:6: producers.transactions: needs either records: 100 or every: 100ms",
        ),
        (
            {"producers": "{transactions: {records: 10}, client: {acks: 1}}"},
            "w.yaml:6: producers.transactions: need producers.client.acks: all",
        ),
        (
            {
                "producers": "{transactions: {records: 10, abort_ratio: 0.1}}",
                "consumers": "{client: {isolation.level: read_uncommitted}}",
            },
            (
                "w.yaml:7: consumers.client.isolation.level: read_uncommitted also reads aborted records "
                "(producers.transactions.abort_ratio), which the delivery check cannot distinguish from loss; remove it"
            ),
        ),
        (
            {"producers": "{driver: wire, client: {delivery.timeout.ms: 0}}"},
            "w.yaml:6: producers.client: delivery.timeout.ms is '0'; the wire driver accepts 1 to 2147483648",
        ),
        (
            {"producers": "{driver: wire}", "records": "{size: 1KiB, keys: {round_robin: 3}}"},
            (
                "w.yaml:3: records.keys: needs producers.driver: client; "
                "wire sends values of one size, without keys and transactions"
            ),
        ),
        (
            {"topics": "{replication: 3}"},
            "w.yaml:6: topics.replication: 3 copies need as many brokers, but system.nodes is 1",
        ),
        (
            {"topics": "{replication: 3}", "system": "{processes: 2}"},
            "w.yaml:6: topics.replication: 3 copies need as many brokers, but system.processes is 2",
        ),
        (
            {"system": "{processes: 2, nodes: 3}"},
            "w.yaml:6: system.processes: divides one broker; remove nodes, or processes",
        ),
        (
            {"system": "{kind: apache-kafka, processes: 2}"},
            "w.yaml:6: system.processes: is for kind: highwater",
        ),
        (
            {"system": "{processes: 2}", "restart": "kill"},
            "w.yaml:6: system.processes: does not fit restart and faults, which end one process",
        ),
        (
            {"system": "{config: {highwater.processes: 2}}"},
            "w.yaml:6: system.config.highwater.processes: cannot be set here: the run sets it",
        ),
        (
            {"system": "{version: '4'}"},
            "w.yaml:6: system.version: is for kind: apache-kafka; highwater has no choice of versions",
        ),
        (
            {"system": "{config: {log.dirs: /data}}"},
            "w.yaml:6: system.config.log.dirs: cannot be set here: the run sets it",
        ),
        ({"system": "{kind: apache-kafka, source: /x}"}, "w.yaml:6: system.source: is for kind: highwater"),
        ({"system": "{command: x}"}, "w.yaml:6: system.command: is for kind: command"),
        (
            {"system": "{kind: bare-loop, config: {a: 1}}"},
            "w.yaml:6: system.config: is unknown to kind: bare-loop, which only receives and writes",
        ),
        (
            {"system": "{kind: apache-kafka, verson: '4'}"},
            'w.yaml:6: system.verson: unknown key; did you mean "version"?',
        ),
        (
            {"system": "{kind: apache-kafka, version: '5'}"},
            "w.yaml:6: system.version: '5' is not 'default', '3.9' or '4'",
        ),
        (
            {"system": "{kind: [1]}"},
            "w.yaml:6: system.kind: [1] is not 'highwater', 'apache-kafka', 'bare-loop', 'external' or 'command'",
        ),
        ({"system": "{kind: null}"}, "w.yaml:6: system.kind has no value"),
        ({"system": "highwater"}, "w.yaml:6: system: 'highwater' is not a mapping of keys to values"),
        (
            {"system": "{kind: command}"},
            "w.yaml:6: system.kind: command needs command: 'prog --port {port} --data {data_directory}'",
        ),
        (
            {"system": "{kind: command, command: prog}"},
            "w.yaml:6: system.command: has no {port}, which is replaced by the port to listen on",
        ),
        (
            {"system": "{kind: command, command: 'p {port} {dir}'}"},
            "w.yaml:6: system.command: {dir} is not one of {port}, {data_directory}",
        ),
        (
            {"system": "{through: haproxy}"},
            "w.yaml:6: system.through: 'haproxy' is not direct, nor one of the proxies (none there)",
        ),
        (
            {"system": "{through: b, proxies: {a: 'p {port} {target}'}}"},
            "w.yaml:6: system.through: 'b' is not direct, nor one of the proxies (a)",
        ),
        (
            {"system": "{proxies: {a: 'p {port}'}}"},
            "w.yaml:6: system.proxies.a: has no {target}, which is replaced by the HOST:PORT of the broker",
        ),
        (
            {"system": "{proxies: {a: 'p {port} {target} {dir}'}}"},
            "w.yaml:6: system.proxies.a: {dir} is not one of {port}, {target}, {node_port}",
        ),
        (
            {"system": "{proxies: {direct: 'p {port} {target}'}}"},
            "w.yaml:6: system.proxies: 'direct' is the way without a proxy; name the proxy otherwise",
        ),
        (
            {"system": "{through: a, proxies: {a: 'p {port} {target}'}, nodes: 3}"},
            "w.yaml:6: system.through: a proxy stands before one broker; remove nodes, or through",
        ),
        (
            {"system": "{through: a, proxies: {a: 'p {port} {target}'}, processes: 2}"},
            "w.yaml:6: system.processes: each has an address of its own; remove processes, or through",
        ),
        (
            {"system": "{kind: command, command: 'p {port}', through: a}"},
            "w.yaml:6: system.through: is for kind: highwater and kind: apache-kafka, not for kind: command",
        ),
        (
            {"system": "{kind: command, command: 'p {port}', nodes: 3}"},
            "w.yaml:6: system.nodes: is for kind: highwater and kind: apache-kafka, not for kind: command",
        ),
        (
            {"system": "{kind: command, command: 'p {port}', config: {a: 1}}"},
            "w.yaml:6: system.config: is unknown to kind: command; put settings into the command line",
        ),
        (
            {"host": "{profile: nots}"},
            (
                "w.yaml:6: host.profile: no host profile is called 'nots'; did you mean notes? "
                "(known: recommended, throughput, latency, durable, notes, benchmark-repeatable)"
            ),
        ),
        (
            {"system": "{kind: external, bootstrap_servers: 'a:1'}", "host": "{profile: notes}"},
            "w.yaml:7: host.profile: would tune this host, but the external cluster is at a:1",
        ),
        (
            {"slo": "{produce.p98: <20ms}"},
            (
                'w.yaml:6: slo.produce.p98: produce.p98 is not a metric; did you mean "produce.p99"? '
                "`highwater bench metrics` lists them all"
            ),
        ),
        (
            {"slo": "{produce.p99: 20ms}"},
            (
                "w.yaml:6: slo.produce.p99: '20ms' is not a comparison with a value and its unit, "
                "for example <20ms, >=49k/s, <=1% or ==0"
            ),
        ),
        (
            {"slo": "{produce.p99: <49k/s}"},
            "w.yaml:6: slo.produce.p99: '<49k/s' does not have the unit of this metric, for example <20ms",
        ),
        (
            {"trials": "{stop_when: {ci_halfwidth: 2%, of: e2e.p9}}"},
            (
                'w.yaml:6: trials.stop_when.of: e2e.p9 is not a metric; did you mean "e2e.p99"? '
                "`highwater bench metrics` lists them all"
            ),
        ),
        (
            {"trials": "{stop_when: {ci_halfwidth: 2%, of: delivery.duplicated}}"},
            "w.yaml:6: trials.stop_when.of: delivery.duplicated is usually 0; name a rate or a latency",
        ),
        (
            {"trials": "{n: 4, stop_when: {ci_halfwidth: 2%, min: 5}}"},
            "w.yaml:6: trials.stop_when.min: 5 trials before a decision, but trials.n is 4",
        ),
        (
            {"consumers": "{groups: 0}", "slo": "{e2e.p99: <20ms}"},
            "w.yaml:7: slo.e2e.p99: needs consumers, but there are none",
        ),
        (
            {"slo": "{txn.commit.p99: <20ms}"},
            "w.yaml:6: slo.txn.commit.p99: needs producers.transactions",
        ),
        (
            {"slo": "{recovery.no_ack_s: <2s}"},
            "w.yaml:6: slo.recovery.no_ack_s: needs faults",
        ),
        (
            {"trials": "{n: 9, stop_when: {ci_halfwidth: 2%, of: backlog.drain_bytes_per_s}}"},
            (
                "w.yaml:6: trials.stop_when.of: backlog.drain_bytes_per_s needs consumers that start with a backlog "
                "(consumers.start)"
            ),
        ),
        (
            {"purpose": '"two\\nlines"'},
            r"w.yaml:6: purpose: 'two\nlines' does not match ^[^\x00-\x1f\x7f]*$",
        ),
        (
            {"trials": "{at_once: true}", "host": "{profile: notes}"},
            "w.yaml:6: trials.at_once: needs the same host for all trials of a block; remove host",
        ),
        (
            {"trials": "{at_once: true}", "system": "{kind: external, bootstrap_servers: 'kafka:9092'}"},
            "w.yaml:6: trials.at_once: binds systems to one processor; this run cannot bind an external one",
        ),
        (
            {"trials": "{at_once: true}", "faults": "[{at: 1s, do: kill}]"},
            "w.yaml:6: trials.at_once: needs systems without faults; remove faults",
        ),
        (
            {"trials": "{at_once: true, stop_when: {ci_halfwidth: 2%, of: produce.p99}}"},
            "w.yaml:6: trials.at_once: a cell that stops leaves more processor to the others; remove trials.stop_when",
        ),
        (
            {"trials": "{stop_when: {ci_halfwidth: 2}}"},
            "w.yaml:6: trials.stop_when.ci_halfwidth: 2 is not a percentage, for example 0.5%",
        ),
    ],
)
def test_one_line_per_combination_that_cannot_be(sections: dict[str, str | None], expected: str) -> None:
    assert complaint(document(**sections)) == expected


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
