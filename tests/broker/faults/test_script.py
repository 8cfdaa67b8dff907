"""Scripts of faults: what they may say, what they hit, and the one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.broker.faults.injector import Injector
from highwater.broker.faults.request import API_NAMES, FaultRequest
from highwater.broker.faults.script import read_script
from highwater.common.errors import UsageError


def request(api: str = "Produce", version: int = 9, topic: str = "orders", **more: object) -> FaultRequest:
    return FaultRequest(API_NAMES[api], version, read_topics=lambda: (topic,), **more)  # type: ignore[arg-type]


def hits(script: str, *requests: FaultRequest, step_ms: int = 1) -> list[bool]:
    injector = Injector()
    injector.set(read_script(script), 0)
    return [injector.on_request(each, number * step_ms) is not None for number, each in enumerate(requests)]


def rule(when: str, times: str = "") -> str:
    return f"seed: 7\nrules:\n  - when: {{{when}}}\n    then: {{kind: drop_before}}\n{times}"


@pytest.mark.parametrize(
    ("when", "yes", "no"),
    [
        ("api: Produce", request(), request("Fetch")),
        ("api: [Produce, Fetch]", request("Fetch"), request("Metadata")),
        ("version: 9", request(), request(version=8)),
        ("version: 3-9", request(version=3), request(version=10)),
        ("topic: ord*", request(), request(topic="payments")),
        ("client_id: billing-*", request(client_id="billing-1"), request(client_id="shop")),
        ("principal: alice", request(principal="alice"), request(principal="bob")),
        ("listener: INSIDE", request(listener="INSIDE"), request(listener="PLAINTEXT")),
        ("connection: 2", request(connection=2), request(connection=3)),
        ("probability: 1", request(), None),
    ],
)
def test_conditions(when: str, yes: FaultRequest, no: FaultRequest | None) -> None:
    assert hits(rule(when), yes) == [True]
    assert no is None or hits(rule(when), no) == [False]


def test_counts_and_times() -> None:
    other = request("Fetch")
    assert hits(rule("api: Produce, nth: 2"), request(), other, request(), request()) == [False, False, True, False]
    assert hits(rule("api: Produce", "    times: 2"), *[request()] * 3) == [True, True, False]
    assert hits(rule("after_ms: 20"), *[request()] * 4, step_ms=10) == [False, False, True, True]
    assert hits("rules: []", request()) == [False]


def test_the_same_seed_and_requests_make_the_same_history() -> None:
    def history(seed: int) -> list[object]:
        injector = Injector()
        injector.set(read_script(rule("probability: 0.5").replace("seed: 7", f"seed: {seed}")), 0)
        for number in range(200):
            injector.on_request(request(correlation_id=number), number)
        return list(injector.history)

    assert history(7) == history(7)
    assert 60 < len(history(7)) < 140
    assert history(7) != history(8)


def test_a_fault_is_logged_in_one_line_and_stays_in_the_history() -> None:
    lines: list[str] = []
    injector = Injector(lines.append)
    injector.set(read_script(rule("api: Produce")), 0)
    injector.on_request(request(client_id="shop", principal="alice", connection=3, correlation_id=17), 5)
    (line,) = lines
    assert line.startswith("fault 1: drop_before (rule 1) hits Produce v9 of orders by client 'shop' (alice), ")
    assert line.endswith("connection 3, correlation id 17")
    injector.clear()
    assert injector.is_idle
    assert [each.after_ms for each in injector.history] == [5]
    injector.set(read_script("seed: 1"), 6)
    assert not injector.history


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "rules: [{when: {api: Produse}, then: {kind: error}}]",
            "x:1: rules[0].when.api: there is no API Produse; did",
        ),
        ("rules: [{then: {kind: eror}}]", "x:1: rules[0].then.kind: there is no kind eror; did you mean error?"),
        (
            "rules:\n - then:\n    kind: error\n    error: NOT_LEADER",
            "x:4: rules[0].then.error: Kafka has no error NOT_LEADER; did you mean NOT_LEADER_OR_FOLLOWER?",
        ),
        ("rules: [{then: {kind: error}}]", "x:1: rules[0].then.error: is missing"),
        (
            "rules: [{when: {api: Fetch}, then: {kind: disk_full}}]",
            "x:1: rules[0].then.kind: disk_full does not apply to Fetch; it applies to Produce",
        ),
        (
            "rules: [{when: {apis: Fetch}, then: {kind: error}}]",
            "x:1: rules[0].when.apis: unknown key; did you mean api?",
        ),
        ("rules: [{then: {kind: throttle, ms: 0}}]", "x:1: rules[0].then.ms: '0' is not a whole number of at least 1"),
        ("rules: [{when: {version: x}, then: {kind: drop_after}}]", "x:1: rules[0].when.version: 'x' is not a version"),
        (
            "rules: [{when: {probability: 2}, then: {kind: drop_after}}]",
            "x:1: rules[0].when.probability: 2 is not a prob",
        ),
        ("rules: [{when: {api: Fetch}}]", "x:1: rules[0].then.kind: is missing"),
        ("rules: {}", "x:1: rules: is not a list"),
        ("rules: [drop]", "x:1: rules[0]: is not a mapping"),
        ("- drop", "x: expected a mapping of keys to values, such as 'rules: [{when: {api: Produce}"),
        (
            "rules: [{then: {kind: lower_versions, versions: {Produc: 3}}}]",
            "x:1: rules[0].then.versions.Produc: there is no API Produc; did you mean Produce?",
        ),
    ],
)
def test_a_mistake_is_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_script(text, "x")
    assert str(raised.value).startswith(says)
    assert "\n" not in str(raised.value)


def test_the_examples_can_be_read() -> None:
    examples = sorted((Path(__file__).parents[3] / "examples/faults").glob("*.yaml"))
    assert len(examples) >= 12
    for example in examples:
        assert read_script(example.read_text("utf-8"), example.name).rules
