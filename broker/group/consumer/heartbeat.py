"""ConsumerGroupHeartbeat: what a group decides when a member joins, or tells that it is alive.

The order of the checks is that of Apache Kafka 4.4's GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from highwater.broker.group.assignors.assignor import Assignor
from highwater.broker.group.consumer.events import (
    ConsumerSettings,
    Decision,
    HeartbeatAnswer,
    HeartbeatRequest,
    Topics,
)
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.events import Now


def refusal(
    group_id: str, request: HeartbeatRequest, version: int, assignors: Mapping[str, Assignor]
) -> HeartbeatAnswer | None:
    """Return why no group could take this request, or None. Asked after the rights, before the group is looked for."""
    raise NotImplementedError


def heartbeat(
    group: ConsumerGroup | None,
    request: HeartbeatRequest,
    topics: Topics,
    settings: ConsumerSettings,
    now: Now,
    *,
    may_assign: bool = True,
) -> Generator[None, None, Decision]:
    """Decide on a request with an epoch of 0 or more: run it in slices (`slices`), or at once with `slices.run`.

    Without a group only a join is not an error: it is decided as for a new ConsumerGroup, which exists when the records
    are applied to it. While it runs no other decision of the group may run, nor may records be applied.

    may_assign: False to see, while another event of the group is under way, whether this request writes anything: a
    decision without records is the answer, from decided state. One with records is dropped, and the request waits its
    turn. A request also waits behind an earlier one of the same member, whatever it is.
    """
    raise NotImplementedError
    yield
