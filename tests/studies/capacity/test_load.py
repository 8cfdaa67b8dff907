"""Load files: their units, and one clear line for each kind of nonsense."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.workload.yaml_document import read_document
from highwater.common.errors import UsageError
from highwater.studies.capacity.load import load_of
from tests.studies.capacity.samples import TEXT, load

EXAMPLE = Path(__file__).parent.parent.parent.parent / "examples/load.yaml"


def test_values_have_units() -> None:
    made = load(TEXT + "growth: {per_month: 4%}\nrange: 20%\n")
    topic = made.topics["orders"]
    assert (topic.peak_bytes_per_s, topic.batch_bytes, topic.retention.time_s) == (40e6, 32_768, 86_400)
    assert (made.hosts.network_bytes_per_s, made.hosts.disks.size_bytes) == (1.25e9, 4 * 10**12)
    assert made.growth is not None
    assert (made.growth.per_month_ratio, made.range_ratio) == (0.04, 0.2)
    assert topic.kept_bytes_per_s == 40e6
    assert load(TEXT.replace("size: 4TB", "size: 4TB, layout: raid6")).hosts.disks.layout == "raid6"


def test_the_example_is_a_load() -> None:
    assert set(load_of(read_document(EXAMPLE)).topics) == {"orders", "clicks"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "peak: 40MB/s",
            "peak: 40MB",
            "load.yaml:4: topics.orders.peak: '40MB' is not bytes per second with their unit",
        ),
        ("peak: 40MB/s", "peak: 0MB/s", "load.yaml:4: topics.orders.peak: '0MB/s' must be more than zero"),
        ("groups: 2", "groups: -1", "load.yaml:4: topics.orders.groups: -1 is less than 0"),
        ("groups: 2", "grups: 2", 'load.yaml:4: topics.orders.grups: unknown key; did you mean "groups"?'),
        ("time: 1d", "time: -1d", "topics.orders.retention.time: '-1d' is not a duration with its unit"),
        ("{time: 1d}", "{}", "topics.orders.retention: says neither time nor bytes_per_partition"),
        ("replication: 3", "replication: 1", "topics.orders.min_insync_replicas: 2 is more than replication, 1"),
        ("replication: 3", "replication: 2", "topics.orders.replication: 2 copies with 1 of their brokers down"),
        ("groups: 2", "mean: 50MB/s", "topics.orders.mean: is more than peak"),
        ("10Gbit/s", "10GB/s", "hosts.network: '10GB/s' is not the speed of a link"),
        ("count: 4, size: 4TB", "count: 3, size: 4TB, layout: raid10", "hosts.disks.count: 3 is odd"),
        ("count: 4, size: 4TB", "count: 3, size: 4TB, layout: raid6", "hosts.disks.count: 3 is too few for raid6"),
        ("name: shop", "name: sh op", "load.yaml:2: name: 'sh op' does not match"),
        ("  orders:", "  or ders:", "topics.or ders: 'or ders' does not match"),
        ("topics:\n  orders: {", "topics: {}\nother: {", "other: unknown key"),
        ("schema: capacity.load/1", "schema: bench.workload/1", "schema: 'bench.workload/1' is not 'capacity.load/1'"),
    ],
)
def test_nonsense_is_one_line(old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(UsageError) as caught:
        load(TEXT.replace(old, new))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
