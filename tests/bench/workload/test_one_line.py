"""A load in one line makes the workload that a file would make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.bench.workload.one_line import OPTIONS, as_text, default_document, overrides_of
from highwater.bench.workload.specification import Specification, specification_of_document, specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.common.errors import UsageError
from tests.bench.fakes import MINIMAL

FILE = Path("w.yaml")


def specified(options: dict[str, str], text: str = "") -> Specification:
    document = parse_document(text, "w.yaml") if text else default_document(options)
    specification = specification_of_document(document, FILE, overrides_of(options, document))
    assert specify(parse_document(as_text(document), "again"), FILE).sha256 == specification.sha256
    return specification


def test_commas_make_axes() -> None:
    found = specified({"--size": "500B", "--rate": "3k/s", "--acks": "1,all", "--compression": "none,lz4"})
    assert found.axes == {"acks": ["1", "all"], "compression.type": ["none", "lz4"]}
    assert len(found.cells) == 4
    workload = found.workload
    assert (workload.load.rate_per_s, workload.phases.measure_s, workload.trials.n) == (3000, 20, 5)
    assert workload.purpose == "What do acks and compression.type change?"


@pytest.mark.parametrize(
    ("option", "value", "read"),
    [
        ("--size", "2KiB", lambda w: w.records.size.size_bytes == 2048),
        ("--for", "1m", lambda w: w.phases.measure_s == 60),
        ("--warmup", "7s", lambda w: w.phases.warmup == 7),
        ("--acks", "0", lambda w: w.producers.client["acks"] == "0"),
        ("--compression", "zstd", lambda w: w.producers.client["compression.type"] == "zstd"),
        ("--batch-size", "64KiB", lambda w: w.producers.client["batch.size"] == "64KiB"),
        ("--linger", "0.5ms", lambda w: w.producers.client["linger.ms"] == 0.5),
        ("--partitions", "12", lambda w: w.topics.partitions == 12),
        ("--producers", "3", lambda w: w.producers.count == 3),
        ("--consumers", "2", lambda w: w.consumers.per_group == 2),
        ("--system", "apache-kafka", lambda w: w.system.kind == "apache-kafka"),
    ],
)
def test_each_option_sets_its_key(option: str, value: str, read: Any) -> None:
    assert option in OPTIONS
    assert read(specified({"--rate": "3k/s", option: value}).workload)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"--size": "500B"}, r"name a workload FILE, or give a load in one line: --rate 3k/s"),
        ({"--rate": "3000"}, r"^--rate: load\.rate: '3000' is not records per second"),
        ({"--rate": "3k/s", "--acks": "1,,all"}, r"^--acks: a value between commas is missing"),
        ({"--rate": "3k/s", "--acks": "1,1"}, r"^--acks: matrix: producers\.client\.acks: 1 is listed twice"),
        ({"--rate": "3k/s", "--linger": "5"}, r"^--linger: '5' is not a duration with its unit"),
        ({"--rate": "3k/s", "--consumers": "9"}, r"^--consumers: consumers\.per_group: 9 consumers cannot share 4"),
    ],
)
def test_what_cannot_be_read_names_its_option(options: dict[str, str], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        specified(options)


def test_options_over_a_file_replace_its_keys_and_axes() -> None:
    two_cells = MINIMAL + "matrix: {producers.client.acks: [1, all]}\n"
    one = specified({"--acks": "0", "--rate": "50/s"}, two_cells)
    assert (one.axes, one.workload.load.rate_per_s) == ({}, 50)
    three = specified({"--acks": "0,1,all"}, two_cells)
    assert three.axes == {"acks": ["0", "1", "all"]}
    assert specified({"--size": "1KiB"}, two_cells).axes == {"acks": [1, "all"]}


def test_a_key_that_variants_set_is_not_overridden() -> None:
    variants = MINIMAL + "variants: {small: {records: {size: 50B}}, large: {}}\n"
    with pytest.raises(UsageError, match=r"^--size: the variant small sets records\.size itself; leave --size out"):
        specified({"--size": "1KiB"}, variants)
