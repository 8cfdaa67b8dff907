from __future__ import annotations

from typing import Any

import pytest

from highwater.bench.workload.model import Workload
from highwater.bench.workload.values import Scalar
from highwater.studies.advise.durability import Demand, Loss, lacking, trades_of


@pytest.mark.parametrize(
    ("key", "values", "in_use", "weaker", "loss"),
    [
        ("producers.client.acks", ("1", "all"), None, ("1",), "kill"),
        ("producers.client.acks", ("0", "1", "all"), "1", ("0",), "kill"),
        ("topics.config.min.insync.replicas", (1, 2, 3), 2, (1,), "kill"),
        ("system.config.min.insync.replicas", (2, 3), None, None, None),
        ("system.config.unclean.leader.election.enable", (False, True), None, (True,), "kill"),
        ("topics.config.flush.messages", (1, 100), 1, (100,), "power_loss"),
        ("topics.config.flush.messages", (1, 100), None, None, None),
        ("system.config.log.flush.interval.ms", (100, 1000), 100, (1000,), "power_loss"),
        ("host.settings.vm.dirty_bytes", ("64MiB", "1GiB"), "512MiB", ("1GiB",), "power_loss"),
        ("host.settings.vm.dirty_bytes", ("64MiB", "1GiB"), None, ("64MiB", "1GiB"), "power_loss"),
        ("host.settings.mount.data_writeback", ("true",), None, ("true",), "power_loss"),
        ("host.profile", ("recommended", "notes"), None, ("notes",), "power_loss"),
        ("host.profile", ("durable", "recommended", "none"), "durable", ("recommended", "none"), "power_loss"),
        ("host.profile", ("recommended", None), "recommended", (None,), "power_loss"),
        ("host.settings.vm.swappiness", (1, 60), None, None, None),
        ("producers.client.linger.ms", (0, 5), None, None, None),
    ],
)
def test_values_that_weaken_durability(
    key: str, values: tuple[Scalar, ...], in_use: Scalar | None, weaker: tuple[Scalar, ...] | None, loss: Loss | None
) -> None:
    trade = trades_of(key, values, in_use)
    assert (trade and trade.values, trade and trade.loss) == (weaker, loss)


def workload(**sections: Any) -> Workload:
    document = {
        "schema": "bench.workload/1",
        "name": "w",
        "records": {"size": "100B"},
        "load": {"rate": "1k/s"},
        "phases": {"measure": "1s"},
    }
    return Workload.model_validate(document | sections)


THREE = {"system": {"nodes": 3}}


@pytest.mark.parametrize(
    ("sections", "demands", "needed"),
    [
        ({}, ("kept", "as_in_use"), []),
        ({"producers": {"client": {"acks": "1"}}}, ("kept", "as_in_use"), []),
        ({"producers": {"client": {"acks": "0"}}}, ("kept", "as_in_use"), ["acks=1 or all"]),
        ({**THREE, "topics": {"replication": 3}}, ("kept", "as_in_use"), ["min.insync.replicas of 2 or more"]),
        (
            {**THREE, "topics": {"replication": 3}, "producers": {"client": {"acks": "1"}}},
            ("kept", "as_in_use"),
            ["acks=all", "min.insync.replicas of 2 or more"],
        ),
        ({}, ("as_in_use", "kept"), ["flush.messages=1 (or log.flush.interval.messages=1 of the broker)"]),
        ({"topics": {"config": {"flush.messages": 1}}}, ("as_in_use", "kept"), []),
        ({"system": {"config": {"log.flush.interval.messages": 1}}}, ("as_in_use", "kept"), []),
        ({"producers": {"client": {"acks": "0"}}}, ("as_in_use", "may_lose"), []),
    ],
)
def test_what_is_needed_to_keep_every_acknowledged_record(
    sections: dict[str, Any], demands: tuple[Demand, Demand], needed: list[str]
) -> None:
    found = lacking(workload(**sections), {"kill": demands[0], "power_loss": demands[1]})
    assert [text for _, text in found] == needed
