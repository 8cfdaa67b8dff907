"""Producers of every kind against the mock broker."""

from __future__ import annotations

from collections import Counter

import pytest

from highwater.results.histogram import Histogram
from highwater.spark_loadgen.acknowledgements import Acknowledgements, TimedRecord
from highwater.spark_loadgen.model import LoadResult, Progress, TransactionPlan
from highwater.spark_loadgen.records import Headers, RandomKeys, WeightedSizes
from highwater.spark_loadgen.schedule import OpenSchedule, Step
from tests.reading import read_to_end
from tests.spark_loadgen.conftest import PlanMaker
from tests.spark_loadgen.mock_broker import MockBroker, mock_broker
from tests.spark_loadgen.running import run_load


def recorded(result: LoadResult, metric: str) -> int:
    return sum(histogram.count for histogram in result.histograms[metric].values())


# A busy machine may give a producer nothing of one second, and consumers little of ten.
CLOSED = {"schedule": None, "measure_s": 4, "drain_max_s": 60}


def all_well(result: LoadResult) -> bool:
    delivery = result.delivery
    return delivery.sent == delivery.acked == delivery.received and not (
        delivery.lost or delivery.duplicated or delivery.reordered or delivery.corrupt or result.errors
    )


def test_a_closed_loop_sends_until_the_time_is_up(make_plan: PlanMaker) -> None:
    plan = make_plan(**CLOSED, producer_config={"queue.buffering.max.messages": "1000"})
    result = run_load(plan)
    assert result.closed_loop
    assert all_well(result)
    assert result.delivery.sent > 1000
    assert result.offered == result.sent
    stride = result.generator.produce_sampled_one_in
    assert recorded(result, "produce_response") == -(-result.delivery.sent // stride)
    assert recorded(result, "send_delay") == 0  # nothing is due, so nothing is late
    response, service = result.histograms["produce_response"], result.histograms["produce_service"]
    assert {second: list(histogram.items()) for second, histogram in response.items()} == {
        second: list(histogram.items()) for second, histogram in service.items()
    }


def test_a_full_queue_of_a_closed_loop_loses_nothing(make_plan: PlanMaker) -> None:
    result = run_load(make_plan(**CLOSED, producer_config={"queue.buffering.max.messages": "100"}))
    assert all_well(result)
    assert result.generator.tasks[0].backpressure > 0


def test_steps_and_poisson_arrivals_are_sent_as_they_are_due(make_plan: PlanMaker) -> None:
    schedule = OpenSchedule((Step(1000, 1), Step(5000, 1)), "poisson")
    plan = make_plan(schedule=schedule, producers=2, warmup=1, measure_s=2)
    result = run_load(plan)
    assert all_well(result)
    assert result.offered[:3] == pytest.approx([1000, 1000, 5000], rel=0.2)
    assert sum(result.offered) == result.delivery.sent == recorded(result, "produce_response")


def test_a_lower_rate_does_not_forgive_the_lateness_of_the_higher_one(make_plan: PlanMaker) -> None:
    # The client holds 20 records at most and waits 50 ms for a batch to fill: 400 records/s get through.
    plan = make_plan(
        schedule=OpenSchedule((Step(1000, 1), Step(10, 1))),
        measure_s=2,
        producer_config={"queue.buffering.max.messages": "20", "linger.ms": "50"},
    )
    result = run_load(plan)
    assert all_well(result)
    delays, responses = result.histograms["send_delay"][1], result.histograms["produce_response"][1]
    assert delays.count == responses.count == 10
    assert delays.percentile(0) > 300_000_000  # the last of them is due when 600 records wait: 1.5 s
    assert responses.percentile(0) >= delays.percentile(0)


def test_topics_sizes_keys_and_headers_arrive_as_asked(make_plan: PlanMaker, broker: MockBroker) -> None:
    plan = make_plan(
        topics=(broker.new_topic(), broker.new_topic(), broker.new_topic()),
        sizes=WeightedSizes(((100, 1), (1000, 1))),
        keys=RandomKeys(50),
        headers=Headers(2, 8),
        producers=2,
        rate_per_s=3000.0,
        measure_s=1,
    )
    result = run_load(plan)
    assert all_well(result)
    seen = read_all(broker, plan.topics)
    assert Counter(topic for topic, *_ in seen) == dict.fromkeys(plan.topics, 1000)
    assert {size for _, size, _, _ in seen} == {100, 1000}
    assert len({key for *_, key, _ in seen}) == 50
    assert {headers for *_, headers in seen} == {(("header-0", b"h" * 8), ("header-1", b"h" * 8))}
    assert sum(result.acked_bytes) == sum(result.received_bytes)


Seen = tuple[str, int, object, object]
"""Topic, size, key and headers of a record."""


def read_all(broker: MockBroker, topics: tuple[str, ...]) -> list[Seen]:
    return [
        (topic, len(each.value or b""), each.key, tuple(each.headers or ()))
        for topic in topics
        for each in read_to_end(broker.address, topic, MockBroker.PARTITIONS)
    ]


@pytest.mark.slow
def test_records_that_nobody_times_are_missed_when_they_fail(make_plan: PlanMaker) -> None:
    with mock_broker() as mortal:
        plan = make_plan(
            bootstrap_servers=mortal.address,
            topic=mortal.new_topic(),
            rate_per_s=150_000.0,  # one in 8 is timed
            measure_s=4,  # progress comes after the first second, on a busy machine later
            drain_max_s=4,
            groups=0,
            producer_config={"message.timeout.ms": "1000"},
        )

        def kill_broker(progress: Progress) -> None:
            if progress.acked:
                mortal.kill()

        result = run_load(plan, on_progress=kill_broker)
    delivery, stride = result.delivery, result.generator.produce_sampled_one_in
    assert stride == 11
    assert delivery.failed > 100
    assert delivery.sent == delivery.acked + delivery.failed == sum(result.sent)
    assert sum(result.acked) == delivery.acked
    assert sum(result.failed) == delivery.failed
    assert sum(result.acked_bytes) == 100 * delivery.acked
    assert recorded(result, "produce_service") < recorded(result, "send_delay")
    assert abs(recorded(result, "produce_service") - delivery.acked / stride) <= delivery.failed


def test_a_record_is_timed_when_it_is_acknowledged_and_not_when_it_is_sent(make_plan: PlanMaker) -> None:
    with mock_broker(delay_ms=200) as slow:
        plan = make_plan(bootstrap_servers=slow.address, topic=slow.new_topic(), rate_per_s=20.0, measure_s=1, groups=0)
        result = run_load(plan)
    assert Histogram.merged(result.histograms["produce_service"].values()).percentile(0) >= 199_000_000


class Failure:
    def str(self) -> str:
        return "broken"


class Report:
    def value(self) -> bytes:
        return bytes(30)


def test_what_the_client_lets_go_of_is_timed_once() -> None:
    acknowledgements = Acknowledgements(Counter())
    record = TimedRecord(acknowledgements, 5)
    sent_ns = record.sent_ns
    assert acknowledgements.timed == []
    del record
    ((intended_ns, sent_again_ns, acked_ns),) = acknowledgements.timed
    assert (intended_ns, sent_again_ns) == (5, sent_ns)
    assert acked_ns >= sent_ns


def test_what_fails_or_is_taken_back_is_not_timed() -> None:
    errors: Counter[str] = Counter()
    acknowledgements = Acknowledgements(errors)
    record = TimedRecord(acknowledgements, 5)
    record(Failure(), Report())  # type: ignore[arg-type]
    taken_back = TimedRecord(acknowledgements, 6)
    taken_back.cancel()
    del record, taken_back
    assert acknowledgements.timed == []
    assert (acknowledgements.failed_sequences, acknowledgements.failed_bytes, errors) == ([0], 30, {"broken": 1})


def test_transactions_end_after_so_many_records(make_plan: PlanMaker) -> None:
    plan = make_plan(transactions=TransactionPlan(records=100), rate_per_s=1050.0, measure_s=1)
    result = run_load(plan)
    assert result.transactions is not None
    assert (result.transactions.committed, result.transactions.aborted, result.transactions.failed) == (11, 0, 0)
    assert recorded(result, "txn_commit") == 11
    assert all_well(result)
