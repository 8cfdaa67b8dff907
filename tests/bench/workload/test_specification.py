"""Workload files: what is accepted, what a matrix becomes, and the one line that every mistake gets."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import Specification, load_specification, recorded_workloads, specify
from highwater.bench.workload.values import FixedSize
from highwater.bench.workload.yaml_document import parse_document
from highwater.common.errors import UsageError

BASE = {
    "schema": "bench.workload/1",
    "name": "t",
    "records": "{size: 1KiB}",
    "load": "{rate: 1k/s}",
    "phases": "{measure: 5s}",
}
WORKLOADS = Path(__file__).parent.parent.parent.parent / "workloads"


def document(**sections: str | None) -> str:
    """A workload file, one section per line; None leaves a section out."""
    return "".join(f"{key}: {value}\n" for key, value in {**BASE, **sections}.items() if value is not None)


def read(text: str) -> Specification:
    return specify(parse_document(text, "w.yaml"), Path("w.yaml"))


def complaint(text: str) -> str:
    with pytest.raises(UsageError) as error:
        read(text)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_smallest_file_and_its_defaults() -> None:
    workload = read(document()).workload
    assert (workload.records.size, workload.records.compress_ratio) == (FixedSize(1024), 0.5)
    assert (workload.load.rate_per_s, workload.phases.warmup, workload.phases.measure_s) == (1000, 5, 5)
    assert (workload.producers.count, workload.consumers.count, workload.tasks) == (1, 1, 2)
    assert workload.for_measurement
    assert workload.system.kind == "highwater"


@pytest.mark.parametrize("path", sorted(WORKLOADS.glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_workloads_load_and_dump_to_what_loads_again(path: Path) -> None:
    workload = load_specification(path).workload
    assert Workload.model_validate(workload.as_document()) == workload
    assert workload.name == path.stem


@pytest.mark.parametrize("path", sorted(WORKLOADS.glob("*.yaml")), ids=lambda path: path.name)
def test_a_manifest_gives_the_cells_of_a_shipped_workload_back(path: Path) -> None:
    specification = load_specification(path)
    assert recorded_workloads(specification.workload.as_document()) == {
        cell.name: cell.workload for cell in specification.cells
    }


@pytest.mark.parametrize(
    "sections",
    [
        {
            "load": "{schedule: [{rate: 1k/s, for: 10s}]}",
            "phases": None,
            "variants": "{short: {}, long: {load: {schedule: [{rate: 1k/s, for: 20s}]}}}",
        },
        {"variants": "{made: {}, taken: {records: {size: null, payload_file: lines.txt}}}"},
        {"system": "{kind: external, bootstrap_servers: 'a:1', nodes: 1, version: default, config: {}}"},
        {"purpose": "fast? \N{ROCKET}"},
        {"validity": "{steal_ratio_max: 0.00001}"},
    ],
)
def test_a_manifest_gives_the_cells_back(sections: dict[str, str | None]) -> None:
    specification = read(document(**sections))
    found = recorded_workloads(json.loads(json.dumps(specification.workload.as_document())))
    assert {name: workload.as_document() for name, workload in found.items()} == {
        cell.name: cell.workload.as_document() | {"variants": found[cell.name].as_document()["variants"]}
        for cell in specification.cells
    }


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"producers": "{clients: {acks: 1}}"}, 'w.yaml:6: producers.clients: unknown key; did you mean "client"?'),
        (
            {"goals": "1"},
            (
                "w.yaml:6: goals: unknown key; known here: schema, name, purpose, for_measurement, topics, producers, "
                "consumers, records, load, phases, trials, checks, answer, slo, system, storage, host, faults, "
                "rebalance, restart, validity, "
                "telemetry, aims, variants, matrix, exclude"
            ),
        ),
        # A misspelt key is named itself, not the key that is missing because of it.
        ({"records": "{sise: 1KiB}"}, 'w.yaml:3: records.sise: unknown key; did you mean "size"?'),
        ({"load": None}, "w.yaml: load is missing"),
        ({"load": "{}"}, "w.yaml:4: load.rate: is missing (or schedule:, trace:, or model: closed)"),
        (
            {"records": "{size: 1024}"},
            (
                "w.yaml:3: records.size: 1024 is not a size with its unit "
                "(B, KiB, MiB, GiB or kB, MB, GB), for example 64KiB"
            ),
        ),
        ({"records": "{size: 10B}"}, "w.yaml:3: records.size: 10B is not between 24B (the stamp) and 1GiB"),
        (
            {"records": "{compress_ratio: 1}"},
            "w.yaml:3: records: needs size (for generated values), payload_file (for lines of a real file) or trace",
        ),
        (
            {"records": "{payload_file: a.log, compress_ratio: 1}"},
            "w.yaml:3: records.compress_ratio: is for generated values; payload_file sends its lines unchanged",
        ),
        ({"records": "{size: 1KiB, compress_ratio: 2}"}, "w.yaml:3: records.compress_ratio: 2 is more than 1.0"),
        (
            {"load": "{rate: 1k}"},
            "w.yaml:4: load.rate: '1k' is not records per second, for example 500/s, 20k/s or 1.5M/s",
        ),
        ({"load": "{rate: 0/s}"}, "w.yaml:4: load.rate: '0/s' is less than 1"),
        ({"phases": "{measure: 500ms}"}, "w.yaml:5: phases.measure: '500ms' is not a whole number of seconds"),
        ({"schema": "bench.workload/2"}, "w.yaml:1: schema: 'bench.workload/2' is not 'bench.workload/1'"),
        ({"name": "a/b"}, "w.yaml:2: name: 'a/b' does not match ^[A-Za-z0-9][A-Za-z0-9._-]*$"),
        ({"name": "3"}, "w.yaml:2: name: 3 is not text; put it in quotes"),
        ({"for_measurement": "'no'"}, "w.yaml:6: for_measurement: 'no' is not true or false"),
        ({"topics": "{partitions: true}"}, "w.yaml:6: topics.partitions: True is not a whole number"),
        ({"trials": "{n: 0}"}, "w.yaml:6: trials.n: 0 is less than 1"),
        ({"producers": ""}, "w.yaml:6: producers has no value"),
        ({"producers": "3"}, "w.yaml:6: producers: 3 is not a mapping of keys to values"),
        (
            {"producers": "{count: [1, 2]}"},
            "w.yaml:6: producers.count: a list; to compare several values, list them under matrix:",
        ),
        (
            {"producers": "{client: {acks: [0, 1]}}"},
            "w.yaml:6: producers.client.acks: a list; to compare several values, list them under matrix:",
        ),
        ({"consumers": "{per_group: 3}"}, "w.yaml:6: consumers.per_group: 3 consumers cannot share 1 partitions"),
        (
            {"records": "{size: 2MiB}"},
            (
                "w.yaml:3: records.size: 2MiB is more than the producer can send (message.max.bytes 1000000); raise "
                "producers.client.message.max.bytes and topics.config.max.message.bytes"
            ),
        ),
        ({"storage": "{target: hdd}"}, "w.yaml:6: storage.target: 'hdd' is not one of the targets (temporary)"),
        (
            {"storage": "{targets: {hdd: {paht: /}}}"},
            'w.yaml:6: storage.targets.hdd.paht: unknown key; did you mean "path"?',
        ),
        (
            {"system": "{kind: kafka}"},
            "w.yaml:6: system.kind: 'kafka' is not 'highwater', 'apache-kafka', 'bare-loop', 'external' or 'command'",
        ),
        (
            {"system": "{kind: external}"},
            "w.yaml:6: system.kind: external needs bootstrap_servers (or --bootstrap-servers HOST:PORT)",
        ),
        (
            {"system": "{kind: external, bootstrap_servers: 'a:1'}", "storage": "{target: x, targets: {x: {path: /}}}"},
            "w.yaml:7: storage: an external system has its own storage; remove the storage targets",
        ),
        (
            {"validity": "{send_delay_p99: 5}"},
            (
                "w.yaml:6: validity.send_delay_p99: 5 is not a duration with its unit (us, ms, s, m or min, h, d), "
                "for example 500ms, 15s, 5min or 3d"
            ),
        ),
    ],
)
def test_one_line_per_mistake(sections: dict[str, str | None], expected: str) -> None:
    assert complaint(document(**sections)) == expected


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("{aks: all}", 'producers.client.aks: no librdkafka property has this name; did you mean "acks"?'),
        ("{acks: 5x}", "producers.client.acks: '5x' is not one of 0, 1, all"),
        (
            "{linger.ms: 5ms}",
            "producers.client.linger.ms: '5ms' is not a plain number, and librdkafka would read only its first digits",
        ),
        (
            "{batch.size: 65536}",
            (
                "producers.client.batch.size: 65536 is not a size with its unit "
                "(B, KiB, MiB, GiB or kB, MB, GB), for example 64KiB"
            ),
        ),
        ("{batch.size: 10GiB}", "producers.client.batch.size: '10GiB' is not between 1B and 2147483647B"),
        (
            "{acks: 1, request.required.acks: all}",
            ("producers.client.request.required.acks: is another name of acks, which is given too; remove one of them"),
        ),
        ("{fetch.min.bytes: 1}", "producers.client.fetch.min.bytes: is a consumer property; a producer ignores it"),
        (
            "{bootstrap.servers: 'a:1'}",
            (
                "producers.client.bootstrap.servers: cannot be set here: the run sets it; "
                "name a cluster under system.bootstrap_servers"
            ),
        ),
    ],
)
def test_client_properties_are_checked_by_librdkafka_and_beyond(client: str, expected: str) -> None:
    assert complaint(document(producers=f"{{client: {client}}}")) == f"w.yaml:6: {expected}"


def test_values_that_librdkafka_refuses_name_the_property_as_it_was_written() -> None:
    assert complaint(document(producers="{client: {compression.type: lz5}}")).startswith(
        "w.yaml:6: producers.client.compression.type: 'lz5' is refused by librdkafka: "
    )
    assert complaint(document(producers="{client: {acks: 1, enable.idempotence: true}}")).startswith(
        "w.yaml:6: producers.client: librdkafka refuses these properties together: "
    )


def test_a_matrix_becomes_all_combinations_in_file_order_but_the_excluded() -> None:
    specification = read(
        document(
            matrix="{producers.client.acks: [1, all], storage.target: [temporary, hdd]}",
            storage="{targets: {hdd: {path: /mnt}}}",
            exclude="[{producers.client.acks: '1', storage.target: hdd}]",
        )
    )
    assert specification.axes == {"acks": [1, "all"], "storage.target": ["temporary", "hdd"]}
    assert [cell.name for cell in specification.cells] == [
        "acks=1,storage.target=temporary",
        "acks=all,storage.target=temporary",
        "acks=all,storage.target=hdd",
    ]
    last = specification.cells[-1].workload
    assert (last.producers.client["acks"], last.storage.target) == ("all", "hdd")


def test_axes_that_would_share_a_short_name_keep_their_long_one() -> None:
    specification = read(document(matrix="{topics.config.segment.bytes: [1], system.config.segment.bytes: [2]}"))
    assert list(specification.axes) == ["topics.config.segment.bytes", "system.config.segment.bytes"]


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (
            {"matrix": "{producer.client.acks: [1]}"},
            'w.yaml:6: matrix: producer.client.acks is not an axis; did you mean "producers.client.acks"?',
        ),
        (
            {"matrix": "{foo: [1]}"},
            "w.yaml:6: matrix: foo is not an axis; axes are dotted keys like producers.client.acks or storage.target",
        ),
        (
            {"matrix": "{trials.n: [1]}"},
            (
                "w.yaml:6: matrix: trials.n is not an axis; "
                "axes are dotted keys like producers.client.acks or storage.target"
            ),
        ),
        (
            {"matrix": "{load.rate: [1k/s, 2000]}"},
            "w.yaml:6: matrix: load.rate: 2000 is not records per second, for example 500/s, 20k/s or 1.5M/s",
        ),
        (
            {"matrix": "\n  producers.client.acks:\n  - all\n  - 7"},
            "w.yaml:9: matrix: producers.client.acks: 7 is not one of 0, 1, all",
        ),
        ({"matrix": "{load.rate: [1k/s, 1k/s]}"}, "w.yaml:6: matrix: load.rate: 1k/s is listed twice"),
        (
            {"matrix": "{load.rate: [1k/s, 1000/s]}"},
            "w.yaml:6: matrix: the cells load.rate=1k/s and load.rate=1000/s are the same; remove one of them",
        ),
        (
            {"matrix": f"{{load.rate: {[f'{n}/s' for n in range(1, 101)]}, topics.partitions: {[*range(1, 101)]}}}"},
            "w.yaml:6: matrix: 10000 combinations are more than 5000; use fewer values",
        ),
        ({"matrix": "{load.rate: []}"}, "w.yaml:6: matrix: load.rate has no values"),
        ({"matrix": "{load.rate: 1k/s}"}, "w.yaml:6: matrix.load.rate: '1k/s' is not a list"),
        (
            {"matrix": "{topics.partitions: [1, 2, 3, 4, 5, 6, 7]}", "trials": "{at_once: true}"},
            (
                "w.yaml:7: trials.at_once: 7 cells would share one processor, but at most 6 can; remove some cells, "
                "or at_once"
            ),
        ),
        (
            {"exclude": "[{load.rate: 1k/s}]"},
            "w.yaml:6: exclude: load.rate is not an axis of the matrix; there is no matrix",
        ),
        (
            {"matrix": "{load.rate: [1k/s]}", "exclude": "[{load.rate: 2k/s}]"},
            "w.yaml:7: exclude: load.rate: 2k/s is not one of its values (1k/s)",
        ),
        (
            {"matrix": "{load.rate: [1k/s]}", "exclude": "[{load.rate: 1k/s}]"},
            "w.yaml:7: exclude leaves no combination of the matrix to run",
        ),
    ],
)
def test_one_line_per_mistake_in_a_matrix(sections: dict[str, str | None], expected: str) -> None:
    assert complaint(document(**sections)) == expected


def test_a_cell_that_cannot_run_is_named_and_can_be_excluded() -> None:
    matrix = "{producers.client.acks: [1, all], producers.client.enable.idempotence: [true, false]}"
    assert complaint(document(matrix=matrix)).startswith(
        "w.yaml:6: matrix: the cell acks=1,enable.idempotence=true cannot be run: producers.client: "
    )
    exclude = "[{producers.client.acks: 1, producers.client.enable.idempotence: true}]"
    assert len(read(document(matrix=matrix, exclude=exclude)).cells) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "w.yaml:3: a is given twice (first at w.yaml:1)"),
        ("a: {b: 1, b: 2}\n", "w.yaml:1: a.b is given twice (first at w.yaml:1)"),
        ("- 1\n", "w.yaml: expected a mapping of keys to values, such as 'schema: bench.workload/1'"),
        ("", "w.yaml: expected a mapping of keys to values, such as 'schema: bench.workload/1'"),
        ("1: 2\n", "w.yaml:1: a key must be text; put '1' into quotes"),
        ("a: &x {<<: *x}\n", "w.yaml:1: a key must be text; put '<<' into quotes"),
        ("a: &x {b: *x}\n", "w.yaml:1: nested too deeply"),
        ("? [a, b]\n: 1\n", "w.yaml:1: a key must be text, not a sequence"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdefg")),
            "w.yaml:1: more than 100000 keys and values",
        ),
        ("a: [1\n", "w.yaml:2: not valid YAML: expected ',' or ']', but got '<stream end>'"),
    ],
)
def test_yaml_itself(text: str, expected: str) -> None:
    assert complaint(text) == expected


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_specification(tmp_path / "none.yaml")


def test_overrides_say_which_option_was_wrong(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(document())
    specification = load_specification(path, {("trials", "n"): (5, "--trials")})
    assert specification.workload.trials.n == 5
    with pytest.raises(UsageError, match=r"^--payload-file: records\.payload_file: cannot read .*none\.log: No such"):
        load_specification(
            path,
            {
                ("records", "payload_file"): (str(tmp_path / "none.log"), "--payload-file"),
                ("records", "compress_ratio"): (None, "--payload-file"),
            },
        )


def test_a_payload_file_is_found_beside_the_workload_file(tmp_path: Path) -> None:
    (tmp_path / "lines.log").write_text("one\ntwo\n")
    path = tmp_path / "w.yaml"
    path.write_text(document(records="{payload_file: lines.log}"))
    specification = load_specification(path)
    assert specification.payload_file(specification.workload) == tmp_path / "lines.log"


def test_the_hash_is_of_what_is_asked_not_of_how_it_is_written() -> None:
    assert read(document()).sha256 == read("# a comment\n" + document(trials="{n: 3}")).sha256
    assert read(document()).sha256 != read(document(trials="{n: 4}")).sha256


def test_values_are_not_taken_from_a_device(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(document(records="{payload_file: /dev/zero, size: 1KiB}"))
    with pytest.raises(UsageError, match=r"^.*w\.yaml:3: records\.payload_file: /dev/zero is not a file$"):
        load_specification(path)
