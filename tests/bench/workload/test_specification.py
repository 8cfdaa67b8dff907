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


def test_a_value_in_a_list_has_a_line_of_its_own() -> None:
    assert complaint(document(matrix="\n  producers.client.acks:\n  - all\n  - 7")) == (
        "w.yaml:9: matrix: producers.client.acks: 7 is not one of 0, 1, all"
    )


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
