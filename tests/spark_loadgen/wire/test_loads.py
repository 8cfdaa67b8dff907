"""Whole loads of the wire driver: against librdkafka's mock broker, which reads every batch, and a scripted one."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.spark_loadgen.compression import CODECS
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
from highwater.spark_loadgen.records import FixedSize, Headers, RoundRobinKeys, UniformSizes
from tests.spark_loadgen.conftest import PlanMaker
from tests.spark_loadgen.mock_broker import MockBroker
from tests.spark_loadgen.running import run_load, setup_error
from tests.spark_loadgen.wire.scripted import SequencedBroker, scripted_broker, sequenced_broker

NOT_LEADER, THROTTLED, TOO_LARGE = 6, 89, 10


def fates(result: LoadResult) -> tuple[int, ...]:
    delivery = result.delivery
    return delivery.failed, delivery.lost, delivery.duplicated, delivery.reordered, delivery.corrupt


def due(plan: LoadPlan) -> int:
    assert plan.arrivals is not None
    return sum(plan.arrivals.total(worker) for worker in range(plan.producers))


@pytest.mark.parametrize("acks", ["0", "all"])
def test_every_record_arrives_as_it_was_meant_and_is_timed(make_plan: PlanMaker, acks: str) -> None:
    plan = make_plan(driver="wire", rate_per_s=5000.0, measure_s=1, producers=2, producer_config={"acks": acks})
    result = run_load(plan)
    assert (result.delivery.sent, result.delivery.received) == (5000, 5000)
    assert fates(result) == (0,) * 5
    assert sum(result.offered) == sum(result.acked) == 5000
    assert sum(result.acked_bytes) == sum(result.received_bytes) == 500_000
    for metric in ("produce_response", "produce_service", "send_delay", "e2e_response"):
        assert sum(histogram.count for histogram in result.histograms[metric].values()) == 5000
    assert result.errors == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": FixedSize(24)},
        {"sizes": FixedSize(20_000), "rate_per_s": 500.0},
        {"headers": Headers(2, 16)},
        # As fast as it can for a time: of a second a busy machine may give it nothing.
        pytest.param(
            {
                "schedule": None,
                "measure_s": 5,
                "sizes": FixedSize(1000),
                "producer_config": {"batch.num.messages": "50", "acks": "1"},
            },
            marks=pytest.mark.slow,
        ),
        {"producer_config": {"batch.size": "1000", "linger.ms": "0", "max.in.flight": "1"}},
        {"consumers_per_group": 3, "producers": 3, "pairs": True},
        {"producers": 2, "producer_config": {"enable.idempotence": "true"}},
        *({"producer_config": {"compression.type": codec}} for codec in CODECS),
    ],
)
def test_records_of_every_kind_arrive(make_plan: PlanMaker, changes: dict[str, Any]) -> None:
    plan = make_plan(**{"driver": "wire", "measure_s": 1} | changes)
    result = run_load(plan)
    assert result.delivery.received == result.delivery.sent == result.delivery.acked > 0
    assert plan.schedule is None or result.delivery.sent == due(plan)
    assert fates(result) == (0,) * 5


def test_several_topics_take_their_turns(make_plan: PlanMaker, broker: MockBroker) -> None:
    topics = (broker.new_topic(), broker.new_topic())
    plan = make_plan(driver="wire", measure_s=1, topics=topics, producer_config={"linger.ms": "5"})
    result = run_load(plan)
    assert (result.delivery.received, fates(result)) == (2000, (0,) * 5)


def test_latency_contains_the_wait_for_the_batch(make_plan: PlanMaker) -> None:
    plan = make_plan(driver="wire", measure_s=1, producer_config={"linger.ms": "100"})
    result = run_load(plan)
    (response,) = result.histograms["produce_response"].values()
    # Records are due evenly over the 100 ms for which their batch waits.
    assert response.percentile(50) > 45_000_000


def scripted_plan(make_plan: PlanMaker, servers: str, **changes: Any) -> LoadPlan:
    settings = {"batch.num.messages": "20", "linger.ms": "1", **changes.pop("producer_config", {})}
    return make_plan(
        bootstrap_servers=servers,
        topic="scripted",
        partitions=2,
        groups=0,
        driver="wire",
        producer_config=settings,
        **{"measure_s": 1, **changes},
    )


def test_what_a_broker_refuses_for_now_is_counted_and_sent_again(make_plan: PlanMaker) -> None:
    with scripted_broker({0: [0, NOT_LEADER, NOT_LEADER, 0, NOT_LEADER]}) as broker:
        result = run_load(scripted_plan(make_plan, broker.bootstrap_servers))
        assert result.delivery.acked == broker.records == 2000
    assert result.delivery.failed == 0
    assert sum(result.errors.values()) >= 3
    (response,) = [histogram for second, histogram in result.histograms["produce_response"].items() if second == 0]
    assert response.max > 100_000_000  # the wait before it was sent again is part of its latency


def test_what_a_broker_refuses_for_good_has_failed(make_plan: PlanMaker) -> None:
    with scripted_broker({1: [TOO_LARGE]}) as broker:
        result = run_load(scripted_plan(make_plan, broker.bootstrap_servers))
        assert broker.records == result.delivery.acked
    assert 0 < result.delivery.failed <= 20
    assert result.delivery.acked + result.delivery.failed == 2000
    assert list(result.errors) == ["Broker: Message size too large"]


def test_an_idempotent_producer_is_taken_once_and_in_order_whatever_the_answers_say(make_plan: PlanMaker) -> None:
    lost = SequencedBroker.LOST
    script = {0: [0, NOT_LEADER, 0, 0, lost, 0, lost, lost], 1: [lost, lost, NOT_LEADER]}
    with sequenced_broker(script) as broker:
        settings = {"enable.idempotence": "true"}
        result = run_load(scripted_plan(make_plan, broker.bootstrap_servers, producer_config=settings))
        assert (sum(broker.taken.values()), broker.epochs) == (2000, {0})
    assert (result.delivery.acked, result.delivery.failed) == (2000, 0)


def test_an_idempotent_producer_goes_on_after_what_failed_for_good(make_plan: PlanMaker) -> None:
    with sequenced_broker({1: [0, TOO_LARGE]}) as broker:
        settings = {"enable.idempotence": "true"}
        result = run_load(scripted_plan(make_plan, broker.bootstrap_servers, producer_config=settings))
        assert sum(broker.taken.values()) == result.delivery.acked
        assert broker.epochs == {0, 1}
    assert 0 < result.delivery.failed <= 20
    assert result.delivery.acked + result.delivery.failed == 2000


def test_what_is_refused_for_too_long_has_failed(make_plan: PlanMaker) -> None:
    with scripted_broker({0: [NOT_LEADER] * 1000}) as broker:
        plan = scripted_plan(make_plan, broker.bootstrap_servers, producer_config={"delivery.timeout.ms": "300"})
        result = run_load(plan)
    assert result.delivery.failed > 0
    assert "not delivered within 300 ms" in result.errors


@pytest.mark.slow
def test_a_broker_that_goes_away_leaves_failures_and_no_hang(make_plan: PlanMaker) -> None:
    with scripted_broker({}) as broker:
        servers = broker.bootstrap_servers
        plan = scripted_plan(make_plan, servers, drain_max_s=1, measure_s=4)

        def leave(progress: Progress) -> None:
            if progress.acked:
                broker.leave()

        result = run_load(plan, on_progress=leave)
    assert result.delivery.failed > 0
    assert 0 < result.delivery.acked < 8000
    assert any(error.startswith(f"{servers}: ") for error in result.errors)


def test_a_load_is_stopped_in_order(make_plan: PlanMaker) -> None:
    result = run_load(make_plan(driver="wire", measure_s=60), should_stop=lambda: True)
    assert result.interrupted
    assert result.delivery.acked == result.delivery.sent < 2000


def test_what_cannot_be_is_said_before_the_load(make_plan: PlanMaker) -> None:
    for changes, text in (
        ({"sizes": UniformSizes(100, 200)}, "one size"),
        ({"keys": RoundRobinKeys(10)}, "without keys"),
        ({"producer_config": {"security.protocol": "ssl"}}, "security.protocol is 'ssl'"),
        ({"connection": {"security.protocol": "ssl"}}, "security.protocol is 'ssl'"),
        ({"producer_config": {"acks": "2"}}, "one of 0, 1, all"),
        ({"producer_config": {"linger.ms": "soon"}}, "linger.ms is 'soon'"),
        ({"producer_config": {"partitioner": "random"}}, "the wire driver does not support partitioner"),
    ):
        with pytest.raises(LoadSetupError, match=text):
            make_plan(driver="wire", **changes)


def test_set_up_that_does_not_fit_is_one_sentence(make_plan: PlanMaker) -> None:
    for changes, text in (
        ({"bootstrap_servers": "127.0.0.1:1"}, "no broker answers at 127.0.0.1:1: Connection refused"),
        ({"bootstrap_servers": "nowhere"}, "'nowhere' is not HOST:PORT of a broker"),
        ({"partitions": 3}, "has 4 partitions, the plan says 3"),
        ({"topic": "missing"}, "topic missing does not exist"),
    ):
        assert text in setup_error(make_plan(driver="wire", groups=0, **changes))
