"""Native loads and aims in workload files: what they come to, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.bench.workload.native import Prepared, prepared_of
from highwater.bench.workload.specification import Specification, specify
from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import Document

NATIVE: dict[str, Any] = {
    "schema": "bench.workload/1",
    "name": "native",
    "producers": {"driver": "rdkafka_performance", "client": {"acks": 1}},
    "consumers": {"groups": 0},
    "records": {"size": "1KiB"},
    "load": {"model": "closed"},
    "phases": {"measure": "2s"},
}
WIRE_LOAD = {"driver": "wire_load", "client": {"acks": 1, "max.in.flight": 64}}
READ = {"groups": 1, "start": "after_load", "driver": "wire_fetch"}


def specified(**sections: Any) -> Specification:
    return specify(Document("w.yaml", {**NATIVE, **sections}), Path("w.yaml"))


def complaint(**sections: Any) -> str:
    with pytest.raises(UsageError) as caught:
        specified(**sections)
    return str(caught.value).removeprefix("w.yaml: ")


def test_native_clients_are_no_load_tasks_and_survive_a_dump() -> None:
    workload = specified(consumers=READ | {"cold": True}, load={"model": "closed", "records": "1M"}).workload
    assert (workload.tasks, workload.load.records, workload.consumers.cold) == (0, 1_000_000, True)
    assert type(workload).model_validate(workload.as_document()) == workload


def test_librdkafkas_properties_say_what_is_prepared() -> None:
    assert prepared_of({"acks": "all", "batch.num.messages": "15", "max.in.flight": "64"}) == Prepared(-1, 15, 64)
    assert prepared_of({}) == Prepared(-1, 1, 5)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (
            {"producers": {"driver": "jmeter"}},
            "producers.driver: 'jmeter' is not 'client', 'wire', 'rdkafka_performance'",
        ),
        ({"records": {"size": "1KiB", "keys": {"round_robin": 2}}}, "records: cannot have keys or headers"),
        ({"producers": NATIVE["producers"] | {"count": 2}}, "producers.count: must be 1 for rdkafka_performance"),
        (
            {"load": {"rate": "10/s"}},
            "load.model: must be closed for rdkafka_performance; an open loop needs wire_load",
        ),
        (
            {"producers": {"driver": "wire_load", "client": {"linger.ms": 5}}},
            "producers.client.linger.ms: is not understood",
        ),
        (
            {"producers": {"driver": "wire_load", "client": {"acks": 0}}},
            "producers.client.acks: 0 does not fit wire_load",
        ),
        ({"producers": WIRE_LOAD, "system": {"nodes": 3}}, "producers.count: must be a multiple of system.nodes (3)"),
        (
            {"consumers": {"groups": 1}},
            "consumers: of a native load must be groups: 0, or one consumer with start: after_load",
        ),
        ({"consumers": {"groups": 1, "start": "after_load"}}, "consumers.driver: is missing: rdkafka_performance"),
        ({"slo": {"produce.p99": "<1ms"}}, "slo.produce.p99: needs producers.driver: client, wire or wire_load;"),
        (
            {"producers": WIRE_LOAD, "slo": {"send_delay.p99": "<1ms"}},
            "slo.send_delay.p99: needs producers.driver: client or",
        ),
        ({"slo": {"restart.ready_s": "<1s"}}, "slo.restart.ready_s: needs restart: kill or stop"),
        (
            {"restart": "kill", "system": {"kind": "bare-loop"}},
            "restart: needs a broker that this run starts, not bare-loop",
        ),
        ({"producers": {}, "system": {"kind": "bare-loop"}}, "system.kind: bare-loop works with native producers only"),
        ({"producers": {}, "consumers": READ}, "consumers.driver: is for the native producers"),
        (
            {"system": {"kind": "external", "bootstrap_servers": "a:1"}},
            "producers.driver: rdkafka_performance needs a system",
        ),
    ],
)
def test_what_native_clients_cannot_do_is_one_line(sections: dict[str, Any], expected: str) -> None:
    said = complaint(**sections)
    assert said.startswith(expected), said
    assert "\n" not in said


VARIANTS = {"ours": {}, "floor": {"system": {"kind": "bare-loop"}}}


def aim(**keys: Any) -> dict[str, Any]:
    return {"of": "ours", "beside": ["floor"], "ratio": {"produce.achieved_per_s": ">=0.8"}} | keys


def test_an_aim_names_variants_and_bounds_a_ratio() -> None:
    workload = specified(variants=VARIANTS, aims=[aim()]).workload
    assert [(item.of, item.beside) for item in workload.aims] == [("ours", ["floor"])]
    assert workload.aims[0].ratio["produce.achieved_per_s"].met(0.8)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"of": "theirs"}, "aims[0].of: 'theirs' is not one of the variants (ours, floor)"),
        ({"beside": ["ours"]}, "aims[0].beside: ours against itself is always 1"),
        ({"ratio": {"produce.p98": "<1"}}, "aims[0].ratio.produce.p98: produce.p98 is not a metric; did you mean"),
        ({"ratio": {"produce.achieved_per_s": ">=8k/s"}}, "aims[0].ratio.produce.achieved_per_s: >=8k/s has a unit"),
        (
            {"ratio": {"produce.p99": "<=1"}},
            "aims[0].ratio.produce.p99: needs producers.driver: client, wire or wire_load",
        ),
    ],
)
def test_an_aim_that_cannot_be_held_is_one_line(wrong: dict[str, Any], expected: str) -> None:
    assert complaint(variants=VARIANTS, aims=[aim(**wrong)]).startswith(expected)
