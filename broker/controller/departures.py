"""Lets a creation wait for the end of a deletion of the same name that is under way."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from highwater.broker.clock import Scheduler
from highwater.broker.controller.context import ControllerContext

LOOK_AGAIN_MS: Final = 10


def when_departed(
    names: Collection[str],
    context: Callable[[], ControllerContext | None],
    scheduler: Scheduler,
    timeout_ms: int,
    then: Callable[[int], None],
) -> None:
    """Call `then` with `timeout_ms` when none of these topics is being deleted, or with 0 when the time is up.

    Brokers say that a topic is unknown as soon as its deletion begins, and its znodes go when all replicas are gone.
    A client that creates it in between would get the error that it exists, and then it is gone (so it is with Kafka
    3.9). A deletion that waits for a broker that is away is not waited for.
    """

    def is_under_way() -> bool:
        known = context()
        return known is not None and not _departing(known).isdisjoint(names)

    def look() -> None:
        if is_under_way():
            timers[0] = scheduler.call_later(LOOK_AGAIN_MS, look)
        else:
            finish(timeout_ms)

    def finish(left_ms: int) -> None:
        for timer in timers:
            timer.cancel()
        then(left_ms)

    if timeout_ms <= 0 or not is_under_way():
        then(timeout_ms)
        return
    timers = [scheduler.call_later(LOOK_AGAIN_MS, look), scheduler.call_later(timeout_ms, lambda: finish(0))]


def _departing(context: ControllerContext) -> set[str]:
    """The topics whose deletion is under way."""
    return context.topics_to_delete - context.topics_ineligible_for_deletion
