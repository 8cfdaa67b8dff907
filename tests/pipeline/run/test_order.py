"""The order in which flows begin."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import parse
from highwater.pipeline.run.order import stages
from highwater.pipeline.run.parse import parse_pipeline

HEAD = """\
name: order
storage: state
kafka: {bootstrap.servers: '127.0.0.1:9092'}
sources:
  a: {format: highwater, options: {subscribe: a}}
  b: {format: highwater, options: {subscribe: 'x, b'}}
  c: {format: highwater, options: {subscribe: c}}
flows:
"""
A_TO_B = "  a_to_b: {from: a, sink: {format: highwater, options: {topic: b}}}\n"
B_TO_C = "  b_to_c: {from: b, sink: {format: highwater, options: {topic: c}}}\n"
SHOW_C = "  show_c: {from: c, sink: {format: console}}\n"
SHOW_A = "  show_a: {from: a, sink: {format: console}}\n"
USED = {"a_to_b": ("a",), "b_to_c": ("b",), "show_c": ("c",), "show_a": ("a",), "a_to_c": ("a",)}


def order(flows: str, head: str = HEAD) -> list[list[str]]:
    pipeline = parse_pipeline(parse(yaml, head + flows, "order.yaml", "name: orders"), {}, Path(), None)
    return stages(pipeline, list(pipeline.flows.values()), {name: USED[name] for name in pipeline.flows})


def test_a_flow_waits_for_those_that_fill_its_topics() -> None:
    assert order(SHOW_C + B_TO_C + A_TO_B + SHOW_A) == [["a_to_b", "show_a"], ["b_to_c"], ["show_c"]]


def test_nothing_waits_for_a_flow_that_never_ends() -> None:
    endless = A_TO_B.replace("{from: a,", "{from: a, trigger: 1 second,")
    assert order(B_TO_C + endless) == [["b_to_c", "a_to_b"]]


def test_flows_in_a_circle_run_at_the_same_time() -> None:
    assert order(A_TO_B + "  b_to_c: {from: b, sink: {format: highwater, options: {topic: a}}}\n") == [
        ["a_to_b", "b_to_c"]
    ]


@pytest.mark.parametrize(
    "options", ["{assign: '{\"c\":[0,1]}'}", "{subscribePattern: '[c-d]'}", "{SUBSCRIBE: c}", "{subscribe: ' c'}"]
)
def test_a_flow_waits_for_every_flow_that_fills_its_topic_however_options_name_it(options: str) -> None:
    head = HEAD.replace("{subscribe: c}", options)
    a_to_c = "  a_to_c: {from: a, sink: {format: highwater, options: {Topic: c}}}\n"
    for flows in (a_to_c + SHOW_C + B_TO_C + A_TO_B, A_TO_B + B_TO_C + SHOW_C + a_to_c):
        found = order(flows, head)
        assert sorted(map(sorted, found)) == [["a_to_b", "a_to_c"], ["b_to_c"], ["show_c"]]
        assert found[2] == ["show_c"]


def test_a_circle_leaves_the_order_of_other_flows_as_it_is() -> None:
    b_to_a = "  b_to_c: {from: b, sink: {format: highwater, options: {topic: a}}}\n"
    assert order(SHOW_A + A_TO_B + b_to_a) == [["a_to_b", "b_to_c"], ["show_a"]]


def test_an_option_in_two_spellings_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"order\.yaml:7: sources\.c\.options: option subscribe is there twice, also as S"
    ):
        order(SHOW_C, HEAD.replace("{subscribe: c}", "{subscribe: c, Subscribe: d}"))
