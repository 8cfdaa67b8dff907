"""Included files and variants: what lies over what, and the line that each mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.workload.layers import merged, put
from highwater.bench.workload.specification import Specification, load_specification
from highwater.common.errors import UsageError

BASE = """\
schema: bench.workload/1
name: base
records: {size: 1KiB}
producers: {client: {acks: all, linger.ms: 5}}
load: {rate: 1k/s}
phases: {measure: 5s}
"""


def write(folder: Path, **files: str) -> Path:
    """Files by their stem; the path of the last one."""
    for name, text in files.items():
        path = folder / f"{name}.yaml"
        path.write_text(text)
    return path


def complaint(path: Path) -> str:
    with pytest.raises(UsageError) as error:
        load_specification(path)
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{path.parent}/", "")


def read(folder: Path, **files: str) -> Specification:
    return load_specification(write(folder, **files))


def test_a_file_lies_over_those_it_includes_the_later_over_the_earlier(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        base=BASE,
        fast="load: {rate: 9k/s}\nproducers: {count: 2}\n",
        top="include: [base.yaml, fast.yaml]\nname: top\nproducers: {client: {linger.ms: 7}}\n",
    ).workload
    assert (workload.name, workload.load.rate_per_s, workload.producers.count) == ("top", 9000, 2)
    assert workload.producers.client == {"acks": "all", "linger.ms": 7}


def test_null_takes_a_key_away_and_distributions_are_replaced_whole(tmp_path: Path) -> None:
    assert merged({"load": {"rate": "1/s"}}, {"load": {"rate": None, "model": "closed"}}) == {
        "load": {"model": "closed"}
    }
    one = {"records": {"size": {"weights": {"64B": 1}}}}
    other = {"records": {"size": {"uniform": {"min": "64B"}}}}
    assert merged(one, other) == other
    workload = read(tmp_path, base=BASE, top="include: base.yaml\nload: {rate: null, model: closed}\n").workload
    assert workload.load.steps == ()


def test_a_payload_file_is_found_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "lines.log").write_text("one\n")
    write(tmp_path / "shared", base=BASE.replace("size: 1KiB", "payload_file: lines.log"))
    specification = read(tmp_path, top="include: shared/base.yaml\n")
    assert specification.payload_file(specification.workload) == tmp_path / "shared" / "lines.log"


@pytest.mark.parametrize(
    "system",
    [
        "{bootstrap_servers: 'a:1', command_config: client.properties}",
        "{cluster: c, clusters: {c: {bootstrap_servers: 'a:1', command_config: client.properties}}}",
    ],
)
def test_a_way_into_a_cluster_is_found_beside_the_file_that_names_it(tmp_path: Path, system: str) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "client.properties").write_text("security.protocol=SSL\n")
    write(tmp_path / "shared", base=BASE + f"system: {system.replace('{', '{kind: external, ', 1)}\n")
    specification = read(tmp_path, top="include: shared/base.yaml\n")
    assert specification.command_config(specification.workload) == {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"top": "include: none.yaml\n"}, "top.yaml:1: include: none.yaml is not a file"),
        ({"top": "\ninclude:\n- 3\n"}, "top.yaml:3: include: 3 is not the name of a file"),
        (
            {"other": "include: top.yaml\n", "top": "include: other.yaml\n"},
            "other.yaml:1: include: top.yaml includes itself (top.yaml → other.yaml → top.yaml)",
        ),
        (
            {"base": BASE + "trials: {sed: 3}\n", "top": "include: base.yaml\n"},
            'base.yaml:7: trials.sed: unknown key; did you mean "seed"?',
        ),
        (
            {"base": BASE, "top": "include: base.yaml\nload: {rate: 3}\n"},
            "top.yaml:2: load.rate: 3 is not records per second, for example 500/s, 20k/s or 1.5M/s",
        ),
    ],
)
def test_one_line_per_mistake_names_the_file_it_is_in(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    assert complaint(write(tmp_path, **files)) == expected


def test_variants_are_cells_that_differ_in_several_keys(tmp_path: Path) -> None:
    variants = (
        "variants:\n  one: {}\n  many:\n    producers: {count: 3, client: {acks: 1}}\n    topics: {partitions: 6}\n"
    )
    specification = read(
        tmp_path,
        top=BASE
        + variants
        + "matrix: {producers.client.acks: [0, all]}\nexclude: [{variant: one, producers.client.acks: 0}]\n",
    )
    assert specification.axes == {"variant": ["one", "many"], "acks": [0, "all"]}
    assert [cell.name for cell in specification.cells] == [
        "variant=one,acks=all",
        "variant=many,acks=0",
        "variant=many,acks=all",
    ]
    many = specification.cells[-1].workload
    assert (many.producers.count, many.topics.partitions) == (3, 6)
    assert many.producers.client == {"acks": "all", "linger.ms": 5}, (
        "the matrix lies over the variant, it over the file"
    )


@pytest.mark.parametrize(
    ("variants", "expected"),
    [
        ("{a: {producers: {cuont: 3}}}", 'top.yaml:7: variants.a.producers.cuont: unknown key; did you mean "count"?'),
        (
            "{a: {trials: {n: 3}}}",
            "top.yaml:7: variants.a.trials: belongs to the whole file, and is the same for all variants",
        ),
        (
            "{a: {consumers: {per_group: 3}}}",
            "top.yaml:7: variants.a.consumers.per_group: 3 consumers cannot share 1 partitions",
        ),
        ("{a: {load: {schedule: []}}}", "top.yaml:7: variants.a.load.schedule: [] is empty"),
        ("{a: 3}", "top.yaml:7: variants.a: 3 is not a mapping of keys to values"),
    ],
)
def test_one_line_per_mistake_in_a_variant(tmp_path: Path, variants: str, expected: str) -> None:
    assert complaint(write(tmp_path, top=f"{BASE}variants: {variants}\n")) == expected


def test_an_included_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, base=BASE.replace("workload/1", "workload/9"), top="include: base.yaml\n" + BASE)
    assert complaint(path) == "base.yaml:1: schema: 'bench.workload/9' is not 'bench.workload/1'"


def test_a_key_is_set_in_one_document_and_not_in_those_that_share_its_parts() -> None:
    base = {"producers": {"count": 2, "client": {"acks": "all"}}}
    laid = merged(base, {"load": {"rate": "1/s"}})
    put(laid, ("producers", "client", "acks"), "1")
    put(laid, ("producers", "count"), None)
    assert laid == {"producers": {"client": {"acks": "1"}}, "load": {"rate": "1/s"}}
    assert base == {"producers": {"count": 2, "client": {"acks": "all"}}}
