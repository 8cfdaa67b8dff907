"""Loads that publish to a control broker (librdkafka's mock), and loads whose control broker is gone."""

from __future__ import annotations

import socket
from collections import Counter, defaultdict

import pytest

from highwater.results.histogram import Histogram
from highwater.spark_loadgen.model import LoadResult, TelemetryTarget
from highwater.spark_loadgen.telemetry import publisher as publisher_module
from highwater.spark_loadgen.telemetry.message import TaskMessage
from tests.reading import read_to_end
from tests.spark_loadgen.conftest import PlanMaker
from tests.spark_loadgen.mock_broker import MockBroker
from tests.spark_loadgen.running import run_load


def messages_on(broker: MockBroker, topic: str, count: int) -> list[TaskMessage]:
    found = read_to_end(broker.address, topic, MockBroker.PARTITIONS, at_least=count)
    return [TaskMessage.decode(each.value) for each in found]


def buckets(histogram: Histogram) -> list[tuple[int, int]]:
    return list(histogram.items())


def check_that_messages_tell(result: LoadResult, messages: list[TaskMessage]) -> None:
    """The sum of the messages is the result, to the last bucket."""
    histograms: defaultdict[tuple[str, int], list[Histogram]] = defaultdict(list)
    counts: Counter[tuple[str, int]] = Counter()
    for message in messages:
        for key, histogram in message.histograms.items():
            histograms[key].append(histogram)
        for name, row in message.counts.items():
            counts.update({(name, message.first + position): value for position, value in enumerate(row)})
    told = {key: buckets(Histogram.merged(items)) for key, items in histograms.items()}
    assert told == {
        (metric, second): buckets(item)
        for metric, series in result.histograms.items()
        for second, item in series.items()
    }
    for name in ("sent", "acked", "acked_bytes", "failed", "received", "received_bytes"):
        row = getattr(result, name)
        assert [counts[name, second] for second in range(len(row))] == row


@pytest.mark.parametrize("driver", ["client", "wire"])
def test_the_sum_of_the_messages_is_the_result(make_plan: PlanMaker, broker: MockBroker, driver: str) -> None:
    topic = broker.new_topic()
    target = TelemetryTarget(broker.address, topic, "run/trial")
    result = run_load(make_plan(telemetry=target, producers=2, driver=driver))
    report = result.telemetry
    assert report is not None
    assert (report.unsent, report.skipped) == (0, 0)
    assert report.cpu_ns > 0
    messages = messages_on(broker, topic, report.messages)
    assert len(messages) == report.messages >= 3 * 2
    assert {message.trial for message in messages} == {"run/trial"}
    for task in range(3):
        of_task = sorted((m for m in messages if m.task == task), key=lambda message: message.number)
        assert [message.number for message in of_task] == list(range(len(of_task)))
        assert of_task[-1].last
    check_that_messages_tell(result, messages)


def test_without_a_target_nothing_is_published(make_plan: PlanMaker) -> None:
    assert run_load(make_plan(measure_s=1)).telemetry is None


def test_a_control_broker_that_is_not_there_costs_nothing_but_its_messages(
    make_plan: PlanMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "_CONNECT_S", 0.2)
    monkeypatch.setattr(publisher_module, "_FLUSH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
    result = run_load(make_plan(telemetry=TelemetryTarget(address, "hw.telemetry", "run/trial")))
    assert (result.delivery.acked, result.delivery.received, result.delivery.lost) == (4000, 4000, 0)
    assert result.telemetry is not None
    assert result.telemetry.messages == 0
    # A message that waits too long is skipped, and its figures go into the next one.
    assert result.telemetry.unsent + result.telemetry.skipped >= 2 * 2


def test_what_a_skipped_message_would_have_told_is_in_the_next(
    make_plan: PlanMaker, broker: MockBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "WAITING_MAX", 0)  # as if the control broker took nothing until the end
    topic = broker.new_topic()
    result = run_load(make_plan(telemetry=TelemetryTarget(broker.address, topic, "run/trial")))
    assert result.telemetry is not None
    assert result.telemetry.skipped >= 2
    messages = messages_on(broker, topic, 2)
    assert [(message.number, message.last) for message in messages] == [(0, True), (0, True)]
    assert sum(message.skipped for message in messages) == result.telemetry.skipped
    check_that_messages_tell(result, messages)


def test_a_client_that_refuses_its_settings_is_no_reason_not_to_run(make_plan: PlanMaker, broker: MockBroker) -> None:
    target = TelemetryTarget(broker.address, "hw.telemetry", "run/trial", {"security.protocol": "nonsense"})
    result = run_load(make_plan(telemetry=target, measure_s=1))
    assert result.delivery.lost == 0
    assert result.telemetry is None
