"""Demands on the worst broker: the formulas of others in their limits, and monotony."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.studies.capacity.costs import REPLAYED
from highwater.studies.capacity.demand import (
    CPU,
    DISK_READ,
    DISK_SPACE,
    DISK_WRITE,
    FSYNC,
    MEMORY,
    NETWORK_IN,
    NETWORK_OUT,
    BrokerState,
    least_brokers,
    partitions_of,
    worst_broker,
)
from highwater.studies.capacity.disks import array_of
from highwater.studies.capacity.load import Load, Retention
from highwater.studies.capacity.sizing import largest_factor, smallest_cluster
from tests.studies.capacity.samples import MOST_CORES, TRUE_COSTS, WAKING_S, ceilings, load_with

ARRAY = array_of("jbod", 4, 4e12, 400e6, 500e6)
EVEN: dict[str, Any] = {"imbalance": 1.0, "brokers_down": 0}


def amounts(state: BrokerState) -> dict[str, float]:
    return {demand.resource: demand.amount for demand in state.demands}


def uses(load: Load, brokers: int, factor: float = 1.0) -> dict[str, float]:
    state = worst_broker(load, ceilings(), ARRAY, brokers, factor)
    return {demand.resource: demand.use_ratio for demand in state.demands}


def test_equals_the_formula_of_aws_without_imbalance_replay_and_losses() -> None:
    """Amazon MSK, "Best practices for right-sizing your Apache Kafka clusters", equation 1.

    max(t_cluster) ≤ min(t_storage · #brokers / r, t_network · #brokers / (#consumer groups + r − 1)).
    """
    brokers, copies, groups, storage, network = 6, 3, 2, 250e6, 1.25e9
    expected = min(storage * brokers / copies, network * brokers / (groups + copies - 1))
    load = load_with(
        {"peak_bytes_per_s": 1e6, "replication": copies, "groups": groups},
        cluster=EVEN,
        limits={"network": 1.0, "disk_rate": 1.0, "memory": 1.0},
        hosts={"network_bytes_per_s": network, "memory_bytes": 1 << 50},
    )
    free = ceilings(cpu_cores=1e9, disk_read_bytes_per_s=1e12)
    array = array_of("jbod", 1, 1e18, storage * (1 + 20 / 4096), 1e12)
    assert largest_factor(load, free, array, brokers) * 1e6 == pytest.approx(expected, rel=2e-3)


def test_equals_the_example_of_cloudera() -> None:
    """ "Sizing estimation based on network and disk": 32 GB of memory at 50 MB/s hold about 10 minutes of writes."""
    load = load_with(
        {"peak_bytes_per_s": 50e6, "replication": 1, "min_insync_replicas": 1, "lag_s": 600.0, "groups": 2},
        cluster=EVEN,
        limits={"memory": 1.0},
        hosts={"memory_bytes": 32_000_000_000},
    )
    known = ceilings(process_bytes=0.0, partition_bytes=None)
    state = worst_broker(load, known, ARRAY, 1)
    assert state.cached_s == pytest.approx(640)
    assert amounts(state)[DISK_READ] == 0
    late = worst_broker(load_with_lag(load, 700.0), known, ARRAY, 1)
    assert late.late_topics == ("orders",)
    # Its disk throughput with L readers out of the cache: W·R for writes and L·W for reads.
    assert amounts(late)[DISK_READ] == pytest.approx(2 * 50e6)
    assert amounts(late)[DISK_WRITE] == pytest.approx(50e6 * (1 + 20 / 4096))


def load_with_lag(load: Load, lag_s: float) -> Load:
    topics = {name: topic.model_copy(update={"lag_s": lag_s}) for name, topic in load.topics.items()}
    return load.model_copy(update={"topics": topics})


def test_demands_of_the_worst_broker() -> None:
    """Three brokers, one down, the worst with 1.1 times the mean: 40 MB/s, three copies, two groups."""
    found = amounts(worst_broker(load_with(), ceilings(), ARRAY, 3))
    share = 1.1 / 2
    assert found[NETWORK_IN] == pytest.approx(share * 40e6 * 3)
    assert found[NETWORK_OUT] == pytest.approx(share * 40e6 * 4)
    batch = 32 * 1024
    # Three replicas of three partitions each; a session of a follower has three partitions of two leaders.
    batches = share * 40e6 / batch
    partitions = 3 * TRUE_COSTS[7] + 2 * batches * (3 - 1) * TRUE_COSTS[10] + 2 * batches * (3 / 2 - 1) * TRUE_COSTS[11]
    each = 2e-9 + 50e-6 / batch + 2 * (1e-9 + 25e-6 / batch) + 2 * (3e-9 + 60e-6 / batch)
    busy = 0.02 + partitions + share * 40e6 * each
    # Four batches for each produced one can find the broker idle: the second group's come with the first's.
    waking = share * 40e6 / batch * 4 * (WAKING_S[1] + WAKING_S[2]) / 2
    assert found[CPU] == pytest.approx(busy + waking * (1 - found[CPU] / MOST_CORES))
    kept = 40e6 * 86_400 * 3 / 2
    assert found[DISK_SPACE] == pytest.approx(kept + 3 / 2 * 3 * (1 << 30))
    assert found[MEMORY] == pytest.approx(100e6 + 3 * 20_000 + share * 40e6 * 3 * 30)


def test_recovery_takes_what_is_spare() -> None:
    state = worst_broker(load_with(cluster=EVEN), ceilings(), ARRAY, 3)
    spare = 1.25e9 - 40e6  # of the network, which is slower than four disks
    assert state.repair_bytes_per_s == pytest.approx(spare)
    assert state.recovery_s == pytest.approx(state.used_bytes / spare)
    busy = worst_broker(load_with({"peak_bytes_per_s": 4e9}, cluster=EVEN), ceilings(), ARRAY, 3)
    assert math.isinf(busy.recovery_s)


def test_partitions_are_enough_for_producers_and_consumers_and_divide_by_brokers() -> None:
    topic = load_with({"consumers": 4, "consumer_bytes_per_s": 5e6}).topics["orders"]
    assert partitions_of(topic, None, 3) == 9  # 8 consumers of 5 MB/s for 40 MB/s
    assert partitions_of(topic, 2e6, 3) == 21  # 20 partitions of 2 MB/s
    assert partitions_of(topic.model_copy(update={"partitions": 25}), 2e6, 5) == 25


def test_as_many_brokers_as_copies_racks_and_losses_ask() -> None:
    assert least_brokers(load_with()) == 3
    assert least_brokers(load_with(cluster={"racks": 5})) == 5
    assert least_brokers(load_with(cluster={"brokers_down": 4})) == 6


LARGER = st.sampled_from(["peak", "replication", "groups", "retention", "replay", "lag", "down", "small batches"])


@given(LARGER, st.floats(1.0, 8.0), st.integers(4, 40), st.floats(1e5, 1e8))
def test_more_load_never_needs_less(what: str, factor: float, brokers: int, peak: float) -> None:
    topic: dict[str, Any] = {"peak_bytes_per_s": peak, "replay_bytes_per_s": 1e6, "lag_s": 20.0}
    larger: dict[str, dict[str, Any]] = {
        "peak": {"peak_bytes_per_s": peak * factor},
        "replication": {"replication": 4},
        "groups": {"groups": 2 + int(factor)},
        "retention": {"retention": Retention.model_validate({"time": f"{int(24 * factor)}h"})},
        "replay": {"replay_bytes_per_s": 1e6 * factor},
        "lag": {"lag_s": 20.0 * factor},
        "small batches": {"batch_bytes": int(32_768 / factor)},
        "down": {},
    }
    before = uses(load_with(topic), brokers)
    cluster = {"brokers_down": 2} if what == "down" else {}
    after = uses(load_with(topic | larger[what], cluster=cluster), brokers)
    assert all(after[name] >= before[name] * (1 - 1e-9) for name in before)
    fewer = uses(load_with(topic | larger[what], cluster=cluster), brokers + 1)
    assert all(fewer[name] <= after[name] * (1 + 1e-9) for name in before)


@given(st.integers(3, 30), st.integers(2, 5), st.floats(1e5, 1e7))
def test_twice_the_load_on_twice_the_brokers_is_the_same_for_each(brokers: int, times: int, peak: float) -> None:
    """Without partitions, whose number is whole, and without losses, which do not double."""
    topic = {"peak_bytes_per_s": peak, "segment_bytes": 1}
    one = uses(load_with(topic, cluster=EVEN), brokers)
    many = uses(load_with(topic, cluster=EVEN), brokers * times, float(times))
    assert many == pytest.approx(one, rel=1e-3)


@given(st.floats(1e5, 3e8))
def test_the_smallest_cluster_fits_and_one_less_does_not(peak: float) -> None:
    load = load_with({"peak_bytes_per_s": peak})
    found = smallest_cluster(load, ceilings(), ARRAY)
    assert found is not None
    assert worst_broker(load, ceilings(), ARRAY, found).fits
    assert found == least_brokers(load) or not worst_broker(load, ceilings(), ARRAY, found - 1).fits
    factor = largest_factor(load, ceilings(), ARRAY, found)
    assert factor >= 1 - 2e-3
    again = smallest_cluster(load, ceilings(), ARRAY, factor * (1 - 2e-3))
    assert again is not None
    assert again <= found


def test_no_number_of_brokers_gives_a_process_less_memory() -> None:
    assert smallest_cluster(load_with(), ceilings(process_bytes=64e9), ARRAY) is None
    assert largest_factor(load_with(), ceilings(process_bytes=64e9), ARRAY, 5) == pytest.approx(0, abs=1e-6)


def test_one_broker_has_all_of_the_load_and_not_more() -> None:
    alone = load_with({"replication": 1, "min_insync_replicas": 1, "groups": 0}, cluster={"brokers_down": 0})
    assert amounts(worst_broker(alone, ceilings(), ARRAY, 1))[NETWORK_IN] == pytest.approx(40e6)


def test_many_partitions_slow_down_disks_that_seek() -> None:
    """A disk that falls to a quarter with the files of 300 replicas."""
    load = load_with({"partitions": 300}, cluster=EVEN)
    seeks = ceilings(write_ratios=((75, 0.25),))
    fast, slow = (worst_broker(load, known, ARRAY, 3) for known in (ceilings(), seeks))
    assert slow.files_of_a_disk == pytest.approx(300 / 4)
    rates = [next(each.ceiling for each in state.demands if each.resource == DISK_WRITE) for state in (fast, slow)]
    assert rates == pytest.approx([1.6e9, 0.4e9])
    assert slow.repair_bytes_per_s < fast.repair_bytes_per_s


def test_fsync_of_each_batch_takes_a_sync_and_the_time_of_its_bytes() -> None:
    load = load_with({"fsync": True, "batch_bytes": 40_000}, cluster=EVEN)
    known = ceilings(disk_syncs_per_s=1000.0)
    found = next(each for each in worst_broker(load, known, ARRAY, 3).demands if each.resource == FSYNC)
    assert found.amount == pytest.approx(40e6 / 40_000 * 3 / 3)
    # 1 ms, and 0.1 ms for 40 kB at 400 MB/s, on four disks.
    assert found.ceiling == pytest.approx(4 / 1.1e-3)
    assert worst_broker(load, known, ARRAY, 3).work.synced_batches == pytest.approx(1000)
    assert FSYNC not in amounts(worst_broker(load_with(), known, ARRAY, 3))
    assert math.isinf(uses(load, 3)[FSYNC])


def test_what_comes_from_the_disk_costs_what_reads_from_the_disk_cost() -> None:
    load = load_with({"lag_s": 1e6, "replay_bytes_per_s": 6e6}, cluster=EVEN)
    found = worst_broker(load, ceilings(), ARRAY, 3).work
    assert (found.consumed_bytes, found.replayed_bytes) == pytest.approx((0.0, 2e6 + 2 * 40e6 / 3))
    untold = ceilings()
    untold = replace(untold, costs=replace(untold.costs, known=untold.costs.known - {REPLAYED}))
    found = worst_broker(load, untold, ARRAY, 3).work
    assert (found.consumed_bytes, found.replayed_bytes) == pytest.approx((2e6 + 2 * 40e6 / 3, 0.0))


def test_a_fetch_looks_at_all_partitions_of_its_session() -> None:
    """300 partitions on three brokers: a follower has a session of 100 with each leader, a reader one of 100."""
    found = worst_broker(load_with({"partitions": 300}, cluster=EVEN), ceilings(), ARRAY, 3).work
    batches = 40e6 / 32_768 / 3
    assert (found.looked_at_for_followers, found.looked_at_for_readers) == pytest.approx((2 * batches * 99,) * 2)
    assert found.partitions == 300
    shared = worst_broker(load_with({"partitions": 300, "consumers": 50}, cluster=EVEN), ceilings(), ARRAY, 3).work
    assert shared.looked_at_for_followers == pytest.approx(2 * batches * 99)
    assert shared.looked_at_for_readers == pytest.approx(2 * batches * 1)
