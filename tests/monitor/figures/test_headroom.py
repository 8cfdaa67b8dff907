"""Headroom by golden values: what is left, why a figure is grey, and why there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.common.ceilings import CONSUME, DISK_READ, DISK_WRITE, PRODUCE, Ceiling, Ceilings, HostClass
from highwater.monitor.figures.cluster import derive
from highwater.monitor.figures.headroom import (
    CPU,
    DISK_SPACE,
    Demand,
    Headroom,
    headroom,
    host_of,
    is_same_class,
    least_of,
    left,
    stale_reasons,
    verdict,
)
from highwater.monitor.figures.hosts import HostFigures
from highwater.monitor.figures.rows import Level
from highwater.monitor.model import Host
from tests.monitor.agents import GIB, answer, with_hosts
from tests.monitor.clusters import window

HOST = HostClass("A processor", 2, 16 * GIB, "6.1.0", "a" * 64)
PRODUCED = Ceiling(
    PRODUCE,
    200e6,
    is_at_least=False,
    batch_bytes=65_536,
    medium="hdd",
    file_system="xfs",
    system="highwater 0.2.0",
    run="r1",
)
WRITTEN = Ceiling(DISK_WRITE, 100e6, is_at_least=False, medium="hdd", run="r1")
MEASURED = Ceilings(HOST, (PRODUCED, WRITTEN), "2026-11-01T00:00:00Z")
DEMAND = Demand(0, bytes_in_per_s=150e6, bytes_out_per_s=100e6, request_bytes=50_000, disk_used_ratio=0.4)


def on_host(*measured: Ceilings, demand: Demand = DEMAND) -> dict[str, Headroom]:
    snapshots = with_hosts(window(), "h1")
    row = derive(snapshots).hosts["h1"]
    return {each.resource: each for each in headroom(demand, snapshots[-1].hosts["h1"], row, measured)}


@pytest.mark.parametrize(
    ("demand", "ceiling", "ratio"),
    [(0, 100, 1.0), (77, 100, 0.23), (100, 100, 0.0), (150, 100, -0.5), (0.5, 2, 0.75)],
)
def test_the_formula(demand: float, ceiling: float, ratio: float) -> None:
    assert left(demand, ceiling) == pytest.approx(ratio)


def test_golden_rows_of_a_broker() -> None:
    rows = on_host(MEASURED)
    assert {name: row.ratio and round(row.ratio, 3) for name, row in rows.items()} == {
        CPU: 0.5,
        PRODUCE: 0.25,
        CONSUME: None,
        DISK_WRITE: 0.5,
        DISK_READ: None,
        DISK_SPACE: 0.6,
    }
    assert rows[PRODUCE].sentence == "25 % of produce is left"
    assert (rows[PRODUCE].level, rows[PRODUCE].run) == (Level.OK, "r1")
    assert rows[CONSUME].unknown == "no ceiling of consume was measured on a host like this one"
    assert not any(row.stale for row in rows.values())


@pytest.mark.parametrize(("bytes_in", "level"), [(100e6, Level.OK), (170e6, Level.WARN), (210e6, Level.ERROR)])
def test_how_bad_it_is(bytes_in: float, level: Level) -> None:
    assert on_host(MEASURED, demand=replace(DEMAND, bytes_in_per_s=bytes_in))[PRODUCE].level is level


def test_the_highest_ceiling_that_is_not_stale_counts() -> None:
    higher = replace(MEASURED, ceilings=(replace(PRODUCED, bytes_per_s=300e6, is_at_least=True, run="r2"),))
    stale = replace(MEASURED, host=replace(HOST, kernel="5.0"), ceilings=(replace(PRODUCED, bytes_per_s=900e6),))
    row = on_host(MEASURED, higher, stale)[PRODUCE]
    assert (row.ceiling, row.run, row.is_at_least, row.stale) == (300e6, "r2", True, ())
    assert row.sentence == "50 % or more of produce is left"
    alone = on_host(stale)[PRODUCE]
    assert alone.stale == ("the kernel is 6.1.0, the measurement was on 5.0",)
    assert alone.level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("host", "ceiling", "demand", "said"),
    [
        ({"kernel": "5.0"}, {}, {}, "the kernel is 6.1.0, the measurement was on 5.0"),
        (
            {"tuning_fingerprint": "b" * 64},
            {},
            {},
            "the host's settings are aaaaaaaa, those of the measurement were bbbbbbbb",
        ),
        ({}, {"system": "highwater 0.1.0"}, {}, "Highwater is 0.2.0, that of the measurement was 0.1.0"),
        ({}, {"medium": "ssd"}, {}, "its log is on hdd, the measurement was on ssd"),
        ({}, {"file_system": "ext4"}, {}, "its log is on xfs, the measurement was on ext4"),
        (
            {},
            {},
            {"request_bytes": 2048},
            "a produce request has 2 KiB, the batches of the measurement had up to 64 KiB",
        ),
        # What one of the two does not say, and what does not matter, is no difference.
        ({}, {"system": "kafka 3.9.1"}, {}, None),
        ({}, {"medium": "", "file_system": "", "batch_bytes": None}, {"request_bytes": None}, None),
        ({}, {}, {"request_bytes": 17_000}, None),
        ({"runs_in": "KVM"}, {}, {}, None),
    ],
)
def test_why_a_figure_is_grey(host: object, ceiling: object, demand: object, said: str | None) -> None:
    measured = replace(MEASURED, host=replace(HOST, **host))  # type: ignore[arg-type]
    found = stale_reasons(
        measured,
        replace(PRODUCED, **ceiling),  # type: ignore[arg-type]
        replace(DEMAND, **demand),  # type: ignore[arg-type]
        answer(),
    )
    assert found == (() if said is None else (said,))


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"memory_bytes": 16 * GIB - GIB // 2}, True),
        ({"memory_bytes": 32 * GIB}, False),
        ({"cpu_count": 4}, False),
        ({"cpu_model": "Another"}, False),
        ({"kernel": "5.0", "tuning_fingerprint": ""}, True),
    ],
)
def test_the_class_of_a_host(changed: object, same: bool) -> None:
    assert is_same_class(replace(HOST, **changed), answer()) is same  # type: ignore[arg-type]


def test_why_there_is_no_figure() -> None:
    nobody = headroom(DEMAND, None, None, (MEASURED,))
    assert {row.unknown for row in nobody if row.resource != DISK_SPACE} == {"no agent reports its host"}
    silent = Host("h", "h", error="no answer within 10 s")
    row = HostFigures("h", Level.UNKNOWN, "", None, ())
    assert headroom(DEMAND, silent, row, ())[0].unknown == "its host does not answer: no answer within 10 s"
    assert on_host()[PRODUCE].unknown == "no ceiling was measured: see ceilings in the file"
    other = replace(MEASURED, host=replace(HOST, cpu_count=64))
    assert on_host(other)[PRODUCE].unknown == (
        "no ceiling was measured on a host like this one (2 × A processor, 16 GiB)"
    )
    unsent = replace(DEMAND, bytes_in_per_s=None)
    assert on_host(MEASURED, demand=unsent)[PRODUCE].unknown == "it is not known how much is produced"


def test_of_two_hosts_with_one_broker_the_one_that_answers_counts() -> None:
    dead = Host("a", "a", error="no answer", brokers=(0,))
    old = Host("b", "b", answer(), 1, "no answer", brokers=(0,))
    good = Host("c", "c", answer(), 1, brokers=(0,))
    assert host_of(0, {"a": dead, "b": old, "c": good}) is good
    assert host_of(0, {"a": dead, "b": old}) is old
    assert host_of(1, {"a": dead}) is None


def test_the_verdict_names_the_least_of_what_holds() -> None:
    rows = [
        Headroom(0, PRODUCE, 0.25, 75, 100),
        Headroom(1, PRODUCE, 0.1, 90, 100, stale=("the kernel is 2, the measurement was on 1",)),
        Headroom(1, CONSUME, None, unknown="why"),
        Headroom(1, CPU, 0.6, 0.4, 1.0),
    ]
    assert verdict(rows) == (
        Level.OK,
        "Broker 0 has the least headroom: 25 % of produce is left (1 grey, 1 not known of 4 figures).",
    )
    assert least_of(rows) is rows[0]
    assert verdict(rows[1:3]) == (Level.UNKNOWN, "No headroom is known (1 grey, 1 not known of 2 figures).")
    assert least_of([]) is None


def test_a_cluster_has_rows_for_each_broker_and_counts_followers() -> None:
    snapshots = with_hosts(window(), "h1", "h2", "h3")
    figures = derive(snapshots, [MEASURED])
    assert len(figures.headroom) == 6 * 3
    produce = next(row for row in figures.headroom if row.resource == PRODUCE)
    led = figures.brokers[0].bytes_in_per_s
    assert led is not None
    assert produce.demand is not None
    assert produce.demand > led
    assert derive(window()).headroom == ()
