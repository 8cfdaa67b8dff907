"""Plans: golden ones, their intervals, what they refuse, and what they say of what they do not know."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from highwater.common.errors import UsageError
from highwater.studies.capacity.ceilings import DiskSamples, Measured
from highwater.studies.capacity.costs import measured_kinds
from highwater.studies.capacity.load import Growth, Load
from highwater.studies.capacity.plan import Plan, make_plan
from highwater.studies.capacity.sizing import month_reached
from highwater.studies.capacity.text import answer, lines
from tests.studies.capacity.samples import WAKING_S, load, load_with, measured

TODAY = date(2026, 11, 27)


def plan(wanted: Load | None = None, known: Measured | None = None, brokers: int | None = None) -> Plan:
    return make_plan(wanted or load(), known or measured(noise=0.03), TODAY, brokers)


def test_a_load_that_the_disks_bind() -> None:
    """40 MB/s for a day, three copies: 10.4 TB, of which 4 disks of 4 TB in JBOD may hold 11.6 TB on each broker."""
    found = plan(load_with({"retention": load("""\
schema: capacity.load/1
name: shop
topics: {orders: {peak: 40MB/s, batch: 32KiB, replication: 3, retention: {time: 7d}}}
hosts: {memory: 32GiB, network: 10Gbit/s, disks: {count: 4, size: 4TB}}
""").topics["orders"].retention}))  # fmt: skip
    # 72.6 TB of copies and 11.6 TB on each broker: 7 up, and one may be down.
    assert (found.brokers, found.fits) == (8, True)
    assert found.state is not None
    assert found.state.by_use[0].resource == "disk space"
    assert found.brokers_low is not None
    assert found.brokers_high is not None
    assert found.brokers_low < 8 <= found.brokers_high
    begin = f"8 brokers ({found.brokers_low} to {found.brokers_high}); limited by the disk space ("
    assert answer(found).startswith(begin)
    assert found.topics[0].partitions == 8


def test_a_load_of_small_batches_that_cpu_binds() -> None:
    """20 MB/s in batches of 1 KiB: 19,531 batches a second cost 50 + 2 · 25 + 2 · 60 µs each, beside bytes.

    Each is five batches (one produced, two consumed, two replicated). Of the four that can, three in ten wake up a
    broker that is busy for seven tenths of the time.
    """
    found = plan(load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 1024}))
    cores = 1.1 * (19_531.25 * (220e-6 + 0.3 * 4 * WAKING_S[0]) + 20e6 * 10e-9)
    assert found.brokers is not None
    assert found.brokers == pytest.approx(cores / (0.7 - 0.02) + 1, abs=1.01)
    assert found.state is not None
    assert found.state.by_use[0].resource == "CPU"
    more = {each.change: each.brokers for each in found.sensitivities}
    fewer, many = more["batches four times as large"], more["batches a quarter as large"]
    assert fewer is not None
    assert many is not None
    assert fewer < found.brokers < many
    assert any("what batches of 1 KiB cost (orders)" in each.what for each in found.unknown)


def test_the_same_question_has_the_same_answer() -> None:
    assert plan() == plan()


def test_wider_ranges_make_wider_intervals() -> None:
    topic = {"peak_bytes_per_s": 20e6, "batch_bytes": 1024}
    disk = replace(measured().disks[0], write_bytes_per_s=(400e6,), read_bytes_per_s=(500e6,))
    exact = measured(busiest=(1.0,), disks=(disk,))
    sure = plan(load_with(topic).model_copy(update={"range_ratio": 0.0}), exact)
    unsure = plan(load_with(topic).model_copy(update={"range_ratio": 0.4}), measured(noise=0.1))
    assert sure.brokers_low == sure.brokers == sure.brokers_high
    assert answer(sure).startswith(f"{sure.brokers} brokers; "), "an interval of one number says nothing"
    assert unsure.brokers_low is not None
    assert unsure.brokers_high is not None
    assert unsure.brokers_low < sure.brokers < unsure.brokers_high  # type: ignore[operator]


def test_brokers_that_are_asked_about() -> None:
    needed = plan(load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 1024})).brokers
    assert needed is not None
    wanted = load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 1024})
    enough, few, none = plan(wanted, brokers=needed), plan(wanted, brokers=needed - 1), plan(wanted, brokers=1)
    assert (enough.fits, few.fits, none.fits) == (True, False, False)
    assert enough.factor is not None
    assert few.factor is not None
    assert few.factor < 1 < enough.factor
    assert answer(enough).startswith(f"{needed} brokers carry ")
    assert f"{needed - 1} brokers do not carry this load, which needs {needed} (" in answer(few)
    assert answer(none) == ("1 broker is too few: copies, in-sync replicas, racks and brokers that may be down need 3")


def test_no_number_of_brokers() -> None:
    found = plan(known=measured(process_bytes=64e9))
    assert (found.fits, found.brokers, found.brokers_low) == (False, None, None)
    assert answer(found) == (
        "no number of brokers carries this load: the memory does not become less with more brokers"
    )
    assert "no number" in "\n".join(lines(found))


def test_growth_has_a_date() -> None:
    found = plan(load().model_copy(update={"growth": Growth.model_validate({"per_month": "4%", "months": 24})}))
    assert found.growth is not None
    assert found.growth.reached is not None
    assert found.growth.earliest is not None
    assert found.growth.earliest <= found.growth.reached <= (found.growth.latest or "9999")
    assert found.growth.brokers_then is not None
    assert found.brokers is not None
    assert found.growth.brokers_then >= found.brokers


@pytest.mark.parametrize(
    ("factor", "month"), [(0.5, "2026-11"), (1.0, "2026-11"), (1.11, "2026-12"), (1.22, "2027-01"), (1e9, None)]
)
def test_months(factor: float, month: str | None) -> None:
    assert month_reached(TODAY, factor, 0.1) == month


def test_a_month_counts_from_the_day_and_not_from_its_first() -> None:
    # Half a month after 28 November is 13 December; 10.3 months after it is 8 October.
    assert month_reached(date(2026, 11, 28), 1.04**0.5, 0.04) == "2026-12"
    assert month_reached(date(2026, 11, 28), 1.5, 0.04) == "2027-10"
    assert month_reached(date(2026, 11, 1), 1.04**0.5, 0.04) == "2026-11"


def test_hot_keys() -> None:
    found = plan(load_with({"hottest_key_ratio": 0.5, "partitions": 2, "consumer_bytes_per_s": 10e6, "consumers": 6}))
    notes = found.topics[0].notes
    assert any(
        "its hottest key has 20 MB/s, and one consumer reads 10 MB/s: more partitions do not help" in n for n in notes
    )
    assert any("keys move to other partitions" in note for note in notes)
    assert not any("one partition takes" in note for note in notes)


def test_hard_disks_beside_ssds() -> None:
    """Both are in the table; the plan is for the one that the load names."""
    ssd = measured().disks[0]
    hdd = DiskSamples("bulk", "hdd", "ext4", "150 MB/s", (150e6, 150e6), (160e6, 160e6))
    both = measured(disks=(ssd, hdd))
    with pytest.raises(UsageError, match=r"hosts.disks.target is missing: data, bulk were measured"):
        plan(known=both)
    wanted = load()
    disks = wanted.hosts.disks.model_copy(update={"target": "bulk"})
    found = plan(wanted.model_copy(update={"hosts": wanted.hosts.model_copy(update={"disks": disks})}), both)
    assert {(choice.target, choice.array.layout) for choice in found.disks if choice.chosen} == {("bulk", "jbod")}
    assert {choice.target for choice in found.disks} == {"data", "bulk"}
    shown = "\n".join(lines(found))
    assert "jbod of bulk (hdd, emulated)" in shown
    copies = {choice.array.layout: choice.copies for choice in found.disks}
    assert copies["raid10"] == 6
    lost = {choice.array.layout: choice.lost_disk_s for choice in found.disks}
    assert lost["raid10"] == 0 < lost["jbod"] < lost["raid0"]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"disks": ()}, "no disk was measured; install fio"),
        (
            {"disks": (DiskSamples("temporary", "memory", "tmpfs", "", (1e9,), (1e9,)),)},
            "temporary is in memory and no disk; run workloads/ceilings.yaml with --storage data=DIRECTORY",
        ),
        ({"held_out_factor": 2.0}, "the costs say 0.17 cores for the held-out cell held-out-read, and it used 0.34"),
    ],
)
def test_what_makes_no_plan(known: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan(known=measured(**known))
    assert said in str(caught.value)


def test_a_kind_of_work_that_nobody_measured() -> None:
    whole = measured()
    alone = replace(whole, cells=tuple(cell for cell in whole.cells if "copied" not in cell.name))
    with pytest.raises(UsageError, match=r"what replicated bytes cost was not measured .*highwater bench run"):
        plan(known=alone)
    single = load_with({"replication": 1, "min_insync_replicas": 1}, cluster={"brokers_down": 0})
    assert plan(single, alone).fits
    assert "replicated" not in measured_kinds([trial for cell in alone.cells for trial in cell.trials])


def test_what_is_not_known_comes_with_what_finds_it_out() -> None:
    found = plan(known=measured(held_out=(), partition_bytes=(), partition_bytes_per_s=()))
    assert all(each.find_out for each in found.unknown)
    said = told(found)
    assert "can use more than" not in said
    idle = plan(known=measured(busiest=(0.5,)))
    assert "whether a broker can use more than 0.5 cores" in " ".join(each.what for each in idle.unknown)
    for what in ("not fitted to", "memory a partition", "one partition takes"):
        assert what in said


def on_hosts(**fields: Any) -> Load:
    wanted = load()
    return wanted.model_copy(update={"hosts": wanted.hosts.model_copy(update=fields)})


def test_ceilings_of_another_class_of_hosts_make_no_plan() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"cpu_model": "Other CPU"},
            "hosts.cpu_model: Other CPU was not measured (results/ceilings is of Example CPU)",
        ),
        ({"cpus": 64}, "hosts.cpus: 64 was not measured (results/ceilings is of 8): run workloads/ceilings.yaml on"),
    ]
    for fields, said in cases:
        with pytest.raises(UsageError) as caught:
            plan(on_hosts(**fields))
        assert said in str(caught.value)
    assert plan(on_hosts(cpu_model="Example CPU", cpus=8)).fits


def test_other_memory_is_named() -> None:
    assert "32 GiB of memory, planned 256 GiB" in "\n".join(lines(plan(on_hosts(memory_bytes=256 << 30))))


def test_more_batches_than_were_measured_are_named() -> None:
    found = plan(load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 1024}))
    named = [each.what for each in found.unknown if "batches a second cost one broker" in each.what]
    assert [what.split()[2] for what in named] == ["consumed", "replicated"]


def told(found: Plan) -> str:
    return "\n".join(each.what for each in found.unknown)


def test_more_partitions_than_were_measured_are_named() -> None:
    many = load_with({"partitions": 5000})
    assert "partition replicas cost one broker: at most 500 were measured" in told(plan(many))
    assert "appends to 1 file in turn were measured" in told(plan(many))
    assert "partition replicas" not in told(plan())
    disk = replace(measured().disks[0], many_files=((1024, (400e6, 400e6)),))
    assert "in turn were measured" not in told(plan(many, measured(disks=(disk,))))


def test_fsync_is_a_resource_and_what_it_would_cost_is_said() -> None:
    wanted = load_with({"fsync": True, "batch_bytes": 4096})
    found = plan(wanted)
    assert found.state is not None
    (fsync,) = (demand for demand in found.state.demands if demand.resource == "fsync")
    assert f"{fsync.amount:,.0f}/s" in "\n".join(lines(found))
    assert found.topics[0].notes == ("flush.messages=1: each batch is on the disk before it is acknowledged",)
    without = {each.change: each.brokers for each in plan(load_with({"batch_bytes": 4096})).sensitivities}
    assert without["fsync of each batch before it is acknowledged"] == found.brokers
    assert not any("fsync" in each.change for each in found.sensitivities)


def test_fsync_that_nobody_measured_makes_no_plan() -> None:
    whole, wanted = measured(), load_with({"fsync": True})
    for known in (
        replace(whole, cells=tuple(cell for cell in whole.cells if cell.name != "synced")),
        replace(whole, disks=(replace(whole.disks[0], syncs_per_s=()),)),
    ):
        with pytest.raises(
            UsageError, match=r"topics.orders.fsync: results/ceilings has no trials with flush.messages"
        ):
            plan(wanted, known)
        assert plan(known=known).fits


def test_closed_loops_that_are_missed_widen_the_interval_and_refuse_nothing() -> None:
    whole = measured()
    missed = [
        replace(cell, trials=tuple(replace(trial, cpu_cores=0.6) for trial in cell.trials))
        if cell.name == "full-65536"
        else cell
        for cell in whole.cells
    ]
    topic = {"peak_bytes_per_s": 20e6, "batch_bytes": 1024}
    found = plan(load_with(topic), replace(whole, cells=tuple(missed)))
    exact = plan(load_with(topic), whole)
    assert max(abs(each.error_ratio) for each in found.predictions if each.in_turn) > 0.25
    assert "full-65536, left out in turn" in "\n".join(lines(found))
    assert found.brokers_high is not None
    assert exact.brokers_high is not None
    assert found.brokers_high > exact.brokers_high


def test_no_line_of_the_text_ends_in_spaces() -> None:
    assert all(line == line.rstrip() for line in lines(plan()))


def test_the_answer_is_the_first_line() -> None:
    found = plan()
    assert next(lines(found)) == answer(found)
    assert json.dumps(found.brokers)
