"""Arrays of a request: each loop over a long one gives way, in the turns of that request."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from highwater.kafka.pacing import FEW_ITEMS, paced
from highwater.kafka.turn import running

Item = TypeVar("Item")
Request = TypeVar("Request", bound=Any)


class Paced(tuple[Item, ...]):
    """An array of a request: each loop over it gives way, in the turns of that request."""

    owner: object

    def __iter__(self) -> Iterator[Item]:
        turn = running.turn
        items = super().__iter__()
        return items if turn is None or turn.owner is not self.owner else paced(items)


def array(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items as an array of this request."""
    found, turn = tuple(items), running.turn
    if len(found) <= FEW_ITEMS or turn is None:
        return found
    long = Paced(found)
    long.owner = turn.owner
    return long


def again_paced(request: Request) -> Request:
    """Return a request whose own arrays may have lost their pace: a part of it was taken away."""
    changed = {
        field.name: array(value)
        for field in dataclasses.fields(request)
        if type(value := getattr(request, field.name)) is tuple and len(value) > FEW_ITEMS
    }
    return dataclasses.replace(request, **changed) if changed else request
