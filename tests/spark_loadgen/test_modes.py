"""Loads in which consumers do more than read along, against librdkafka's mock broker."""

from __future__ import annotations

import pytest

from highwater.spark_loadgen.model import SteadyWarmup
from tests.spark_loadgen.conftest import PlanMaker
from tests.spark_loadgen.mock_broker import MockBroker
from tests.spark_loadgen.running import run_load


def test_each_group_reads_all_partitions_of_all_topics(make_plan: PlanMaker, broker: MockBroker) -> None:
    topics = (broker.new_topic(), broker.new_topic())
    plan = make_plan(groups=2, consumers_per_group=3, topics=topics, measure_s=1)
    result = run_load(plan)
    delivery = result.delivery
    assert (delivery.sent, delivery.received, delivery.lost, delivery.duplicated) == (2000, 4000, 0, 0)
    assert [group.received for group in delivery.groups] == [2000, 2000]
    assert [(counts.topic, counts.partition) for counts in result.partitions] == [
        (topic, partition) for topic in topics for partition in range(MockBroker.PARTITIONS)
    ]
    assert sum(counts.received for counts in result.partitions) == 4000
    assert sum(counts.e2e.count for counts in result.partitions) == 4000
    assert result.lag[-1] == 0


def test_consumers_wait_for_a_backlog(make_plan: PlanMaker) -> None:
    result = run_load(make_plan(start_after_backlog_bytes=150_000, measure_s=3))
    assert (result.delivery.received, result.delivery.lost) == (6000, 0)
    assert result.backlog is not None
    assert result.backlog.bytes >= 150_000
    assert result.backlog.built_at_s is not None
    assert result.backlog.built_at_s >= 0.75
    assert sum(result.received[: int(result.backlog.built_at_s)]) == 0
    assert max(result.lag) >= 1500
    assert result.lag[-1] == 0
    assert "consumers_start" in {event.kind for event in result.events}


def test_consumers_that_wait_for_the_load_read_it_all_afterwards(make_plan: PlanMaker) -> None:
    result = run_load(make_plan(start_after_load=True, measure_s=1))
    assert (result.delivery.received, result.delivery.lost) == (2000, 0)
    assert result.received[0] == 0
    assert result.backlog is not None
    assert (result.backlog.records, result.backlog.bytes) == (2000, 200_000)
    assert result.backlog.drain_records_per_s is not None


@pytest.mark.slow
def test_consumers_catch_up_with_a_backlog(make_plan: PlanMaker) -> None:
    """Producers go on long enough for a busy host, too: who catches up with the end of the load does not count."""
    result = run_load(make_plan(start_after_backlog_bytes=150_000, measure_s=12))
    assert (result.delivery.received, result.delivery.lost) == (24_000, 0)
    assert result.backlog is not None
    assert result.backlog.caught_up_at_s is not None
    assert result.backlog.drain_records_per_s is not None


@pytest.mark.slow
def test_a_steady_load_is_measured_as_soon_as_it_is_steady(make_plan: PlanMaker) -> None:
    warmup = SteadyWarmup(slope_ratio=0.5, window_s=3, max_s=30)
    result = run_load(make_plan(warmup=warmup, measure_s=1))
    assert result.steady is not None
    assert result.steady.attained
    start_s = int(result.measure_start_s)
    assert 5 <= start_s < 30
    assert result.steady.at_s == start_s
    # What was sent is the schedule up to the end that was announced, and not a record more.
    assert result.delivery.sent == sum(result.offered) == 2000 * (start_s + 1)
    assert result.delivery.received == result.delivery.sent


def test_a_load_that_does_not_get_steady_is_measured_and_said_not_to_be(make_plan: PlanMaker) -> None:
    result = run_load(make_plan(warmup=SteadyWarmup(slope_ratio=1e-9, window_s=3, max_s=3), measure_s=1))
    assert result.steady is not None
    assert (result.steady.attained, result.measure_start_s) == (False, 3.0)
    assert result.delivery.sent == 8000


def test_consumers_that_only_count_find_no_fault(make_plan: PlanMaker) -> None:
    result = run_load(make_plan(check_delivery=False, measure_s=1))
    assert (result.delivery.received, result.delivery.lost, result.delivery.checked) == (2000, 0, False)
    assert sum(histogram.count for histogram in result.histograms["e2e_response"].values()) == 2000
