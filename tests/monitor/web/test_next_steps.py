"""What to do next about a broker, a topic and a group: the worst first, and nothing where nothing is to be done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.monitor.figures.cluster import derive
from highwater.monitor.figures.rows import Health, LagVerdict
from highwater.monitor.web import next_steps
from tests.monitor.clusters import broker, group, partition, snapshot, topic

SEEN = snapshot(
    brokers=[broker(0), broker(1)],
    topics=[topic("orders", partition("orders", 0))],
    groups=[group("billing", {("orders", 0): 1})],
)
FIGURES = derive([SEEN])


@pytest.mark.parametrize("verdict", LagVerdict)
def test_every_verdict_that_is_bad_has_a_next_step(verdict: LagVerdict) -> None:
    row = FIGURES.groups["billing"]._replace(verdict=verdict)
    assert bool(next_steps.of_group(row)) == (verdict not in (LagVerdict.OK, LagVerdict.UNKNOWN))


def test_a_topic_names_the_worst_first() -> None:
    row = FIGURES.topics["orders"]
    worst = Health(offline=1, under_min_isr=1, under_replicated=2)
    assert next_steps.of_topic(row._replace(health=worst)).startswith("Start a broker that holds its offline")
    assert next_steps.of_topic(row._replace(health=Health(under_min_isr=1))).startswith("Bring its replicas back")
    assert next_steps.of_topic(row._replace(health=Health(not_preferred=1))).startswith("Elect the preferred leaders")
    assert next_steps.of_topic(row._replace(health=Health())) == ""


def test_a_broker_that_is_gone_is_started_again() -> None:
    row = replace(FIGURES.brokers[0], leaders=1, preferred_leaders=1)
    assert next_steps.of_broker(SEEN.brokers[0], row) == ""
    assert next_steps.of_broker(SEEN.brokers[0], replace(row, is_alive=False)).startswith("Start it again.")
    assert "does not answer" in next_steps.of_broker(replace(SEEN.brokers[0], error="refused"), row)
    assert "/data/1" in next_steps.of_broker(SEEN.brokers[0], replace(row, offline_directories=("/data/1",)))
    assert "Elect" in next_steps.of_broker(SEEN.brokers[0], replace(row, preferred_leaders=2))
