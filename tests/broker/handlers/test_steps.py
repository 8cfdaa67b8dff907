"""Tests that no step of a long request grows with the request: what runs while all others wait."""

from __future__ import annotations

import gc
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from highwater.broker import slices, turns
from highwater.broker.handlers.shared.reply import Answered, PendingResponse
from highwater.kafka.protocol.apis import APIS, Api
from highwater.kafka.protocol.primitives import MAX_ITEMS
from tests.broker.handlers.harness import NodeHarness
from tests.drills.bystander import shapes as drill
from tests.drills.bystander.shapes import shapes

FEW: Final = 70
MANY: Final = 150
GROWTH_MAX: Final = 300
"""Instructions of Python: a loop over all items has that many after a few dozen more items."""
LONG: Final = [api for api in APIS.values() if api.items_max == MAX_ITEMS and api.name != "api_versions"]
"""The others have a limit, up to which one step takes all items."""


class Steps:
    """Counts the instructions of Python in the longest step."""

    def __init__(self) -> None:
        self.longest = 0
        self._count = 0

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """Called for each call of a function; what it returns is called for each instruction of that."""
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._count_one

    def _count_one(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            self._count += 1
        return self._count_one

    def end(self) -> None:
        self.longest, self._count = max(self.longest, self._count), 0


@contextmanager
def counted_steps() -> Iterator[Steps]:
    """Each call of `give_way`, and each step of what runs in slices, ends a step."""
    steps = Steps()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(turns, "SLICE_NS", 0)
        patched.setattr(slices, "SLICE_NS", 0)
        resume, rest, go_on = turns._Stack.resume, turns._Stack._rest, slices._Slices.go_on

        def counted(self: Any, run: Any, *arguments: Any) -> None:
            before = sys.gettrace()
            steps.end()
            sys.settrace(steps.trace)
            try:
                run(self, *arguments)
            finally:
                sys.settrace(before)
                steps.end()

        def counted_rest(self: turns._Stack) -> None:
            sys.settrace(None)
            rest(self)

        patched.setattr(turns._Stack, "resume", lambda self: counted(self, resume))
        patched.setattr(turns._Stack, "_rest", counted_rest)
        patched.setattr(slices._Slices, "go_on", lambda self, step: counted(self, go_on, step))
        gc.disable()  # A collection may run finalizers and callbacks in the midst of a step.
        try:
            yield steps
        finally:
            gc.enable()


def take_answer(pending: PendingResponse) -> None:
    def encode(answer: Answered) -> None:
        pending.frame(answer)

    pending.deferred.on_ready(encode)


def longest_steps(node: NodeHarness, api: Api, items: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return the longest step for each array of a request that has so many items."""
    monkeypatch.setattr(drill, "_FEW", items)
    monkeypatch.setattr(drill, "_items_of_one", lambda *_: 1)
    version = api.max_version
    head = struct.pack(">hhih", api.key, version, 1, 1) + b"x" + (b"\0" if api.is_flexible(version) else b"")
    longest = {}
    for shape in shapes(api._replace(items_max=items + 100), version):
        if shape.label.startswith("long "):
            continue
        with counted_steps() as steps:
            reply = node.send(head + shape.body())
            if isinstance(reply, PendingResponse):
                take_answer(reply)
                node.scheduler.run(60_000)
        longest[shape.label.partition(" ")[2]] = steps.longest
    return longest


@pytest.mark.parametrize("super_user", ["ANONYMOUS", "somebody-else"])
@pytest.mark.parametrize("api", LONG, ids=lambda api: api.name)
def test_no_step_grows_with_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: Api, super_user: str
) -> None:
    """For a client that may do everything, and for one that may do nothing, on a broker that audits."""
    node = NodeHarness(
        tmp_path,
        authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
        super_users=f"User:{super_user}",
    )
    node.create_topic(drill.TOPIC)
    longest_steps(node, api, 2, monkeypatch)  # What is done at the first request alone is not counted.
    few = longest_steps(node, api, FEW, monkeypatch)
    many = longest_steps(node, api, MANY, monkeypatch)
    node.close(clean=False)
    assert few.keys() == many.keys()
    grown = {label: (few[label], many[label]) for label in few if many[label] > few[label] + GROWTH_MAX}
    assert not grown, grown
