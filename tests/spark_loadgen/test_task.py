"""Whole loads without Spark, against librdkafka's mock broker."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from highwater.results.histogram import Histogram
from highwater.spark_loadgen import task
from highwater.spark_loadgen.channel import DriverChannel, clock_name
from highwater.spark_loadgen.coordination import Coordinator
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
from highwater.spark_loadgen.records import FilePayload, FixedSize
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.spark_loadgen.supervision import Background
from tests.spark_loadgen.conftest import PlanMaker
from tests.spark_loadgen.mock_broker import mock_broker
from tests.spark_loadgen.running import DEADLINE_S, job_of, run_load, run_outcomes, setup_error


def scheduled(plan: LoadPlan, worker: int) -> int:
    assert plan.arrivals is not None
    return plan.arrivals.total(worker)


def recorded(result: LoadResult, metric: str) -> int:
    return sum(histogram.count for histogram in result.histograms[metric].values())


def test_every_record_is_sent_acknowledged_received_and_timed(make_plan: PlanMaker) -> None:
    plan = make_plan(producers=2, consumers_per_group=2, rate_per_s=3001.0, warmup=1, measure_s=1)
    result = run_load(plan)
    total = sum(scheduled(plan, worker) for worker in range(2))
    delivery = result.delivery
    assert (delivery.sent, delivery.acked, delivery.received) == (total, total, total)
    assert (delivery.failed, delivery.lost, delivery.duplicated, delivery.reordered, delivery.corrupt) == (0,) * 5
    assert sum(result.offered) == sum(result.sent) == sum(result.acked) == sum(result.received) == total
    assert sum(result.acked_bytes) == sum(result.received_bytes) == 100 * total
    for metric in ("produce_response", "produce_service", "send_delay", "e2e_response"):
        assert recorded(result, metric) == total
        assert set(result.histograms[metric]) == {0, 1}
    rows = (result.offered, result.sent, result.acked, result.failed, result.received, result.generator_cpu_ratio_max)
    assert len({len(row) for row in rows}) == 1
    assert (result.e2e_clock, result.negative_samples, result.errors) == ("same_host_monotonic", 0, {})
    assert result.generator.producer_cpu_ns_per_record > 0
    assert [(t.role, t.sent) for t in result.generator.tasks[:2]] == [
        ("producer", scheduled(plan, 0)),
        ("producer", scheduled(plan, 1)),
    ]


def test_lines_of_a_file_go_as_they_are(make_plan: PlanMaker, tmp_path: Path) -> None:
    lines = [b"x" * length for length in range(1, 50)]
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join(lines))
    plan = make_plan(payload=FilePayload(str(path)), sizes=None, rate_per_s=490.0, measure_s=1)
    result = run_load(plan)
    assert (result.delivery.received, result.delivery.corrupt) == (490, 0)
    assert sum(result.acked_bytes) == sum(result.received_bytes) == 10 * sum(STAMP_BYTES + len(v) for v in lines)


def test_fast_loads_are_sampled_by_schedule_index_and_counted_in_full(make_plan: PlanMaker) -> None:
    plan = make_plan(rate_per_s=45_000.0, measure_s=1, sizes=FixedSize(50))
    result = run_load(plan)
    stride = result.generator.produce_sampled_one_in
    assert stride == 3
    assert result.delivery.acked == 45_000
    for metric in ("produce_response", "produce_service", "send_delay"):
        assert recorded(result, metric) == 45_000 // stride


def test_lateness_under_back_pressure_is_not_forgiven(make_plan: PlanMaker) -> None:
    # The client holds 20 records at most and waits 50 ms for a batch to fill: 400 records/s get through.
    plan = make_plan(
        rate_per_s=1000.0,
        measure_s=1,
        producer_config={"queue.buffering.max.messages": "20", "linger.ms": "50"},
    )
    result = run_load(plan)
    assert result.delivery.acked == sum(result.offered) == 1000
    assert result.generator.tasks[0].backpressure > 0
    delays = Histogram.merged(result.histograms["send_delay"].values())
    responses = Histogram.merged(result.histograms["produce_response"].values())
    assert delays.count == 1000
    assert delays.max > 1_000_000_000
    assert responses.max >= delays.max


def test_records_that_the_client_refuses_have_failed(make_plan: PlanMaker) -> None:
    result = run_load(
        make_plan(rate_per_s=100.0, measure_s=1, sizes=FixedSize(5000), producer_config={"message.max.bytes": "2000"})
    )
    delivery = result.delivery
    assert (delivery.sent, delivery.failed, delivery.acked, delivery.lost) == (100, 100, 0, 0)
    assert sum(result.failed) == 100
    assert any("size" in text.lower() for text in result.errors)


@pytest.mark.slow
def test_a_broker_that_dies_leaves_failed_records_and_an_end(make_plan: PlanMaker) -> None:
    with mock_broker() as mortal:
        plan = make_plan(
            bootstrap_servers=mortal.address,
            topic=mortal.new_topic(),
            measure_s=5,  # progress comes after the first second, on a busy machine later
            drain_max_s=4,
            producer_config={"message.timeout.ms": "1000"},
        )

        def kill_broker(progress: Progress) -> None:
            if progress.acked:
                mortal.kill()

        result = run_load(plan, on_progress=kill_broker)
    delivery = result.delivery
    assert delivery.failed > 0
    assert delivery.sent == delivery.acked + delivery.failed == sum(result.offered)
    assert result.errors


def test_stopping_keeps_what_was_measured(make_plan: PlanMaker) -> None:
    seen: list[Progress] = []
    plan = make_plan(measure_s=60)
    result = run_load(plan, on_progress=seen.append, should_stop=lambda: any(p.acked for p in seen))
    delivery = result.delivery
    assert result.interrupted
    assert 0 < delivery.sent < scheduled(plan, 0)
    assert delivery.sent == delivery.acked == delivery.received
    assert delivery.lost == 0
    assert recorded(result, "e2e_response") == delivery.sent


def test_progress_tells_rates_and_latencies(make_plan: PlanMaker) -> None:
    seen: list[Progress] = []
    run_load(make_plan(warmup=1, measure_s=2), on_progress=seen.append)
    # A starved driver may miss the second of the warm-up.
    assert "measure" in {p.phase for p in seen} <= {"start", "warmup", "measure", "drain"}
    busy = [p for p in seen if p.acked]
    assert busy
    assert {p.offered for p in busy} == {2000}
    assert all(p.produce_p99_ns and p.generator_cpu_ratio_max is not None for p in busy)
    assert any(p.e2e_p99_ns and p.received for p in busy)


def test_without_their_driver_tasks_end_by_their_deadlines(make_plan: PlanMaker) -> None:
    plan = make_plan(measure_s=1, drain_max_s=1)
    with DriverChannel("127.0.0.1", "127.0.0.1") as channel:
        running = Background(lambda: run_outcomes(job_of(plan, channel)), channel.woken)
        coordinator = Coordinator(plan, clock_name())
        while not coordinator.started:
            assert channel.woken.wait(DEADLINE_S)
            channel.woken.clear()
            for number, message in channel.receive():
                for task_number, order in coordinator.receive(number, message, time.monotonic_ns()):
                    assert task_number is not None
                    channel.send(task_number, order)
    assert running.finished.wait(60)
    producer, consumer = running.result()
    assert producer.report is not None
    assert consumer.report is not None
    assert sum(producer.report.windows.acked) == sum(consumer.report.windows.received) == 2000


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bootstrap_servers": "127.0.0.1:1"}, "no broker answers at 127.0.0.1:1"),
        ({"topic": "absent"}, "topic absent does not exist"),
        ({"partitions": 5}, "has 4 partitions, the plan says 5"),
        ({"producer_config": {"compression.typ": "lz4"}}, 'the producer refuses .*"compression.typ"'),
        ({"consumer_config": {"fetch.max.bytes": "many"}}, "the consumer refuses .*fetch.max.bytes"),
    ],
)
def test_problems_of_the_setup_are_one_sentence(
    make_plan: PlanMaker, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], said: str
) -> None:
    monkeypatch.setattr(task, "_METADATA_TIMEOUT_S", 2)
    sentence = setup_error(make_plan(**changes))
    assert "\n" not in sentence
    assert re.search(said, sentence)
