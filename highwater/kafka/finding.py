"""Finds the controller of a cluster, and coordinators: waits for elections and starts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, TypeVar

from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import Request
from highwater.kafka.client.settings import Address
from highwater.kafka.requests.answered import RETRIED, Answered
from highwater.kafka.requests.find_coordinator import Coordinator, find_coordinator
from highwater.kafka.requests.list_partition_reassignments import Moves
from highwater.kafka.requests.metadata import metadata

Sent = TypeVar("Sent", Answered, Moves)
_RETRY_S: Final = 0.2
_LEAST_S: Final = 0.1


def ask_controller(client: BlockingClient, request: Request[Sent], timeout_s: float) -> Sent:
    """Return the controller's answer; waits for an election. Without ZooKeeper any broker forwards the request.

    Raises ClientError.
    """
    deadline_s = time.monotonic() + timeout_s
    known: dict[int, Address] = {}
    while True:
        problem = ClientError("the cluster has no controller now")
        try:
            cluster = client.ask_any(metadata(with_topics=False), known.values())
            known = {broker.node_id: (broker.host, broker.port) for broker in cluster.brokers}
            if (address := known.get(cluster.controller)) is not None:
                answer = client.ask(address, request, max(timeout_s / 2, _LEAST_S))
                if not answer.is_elsewhere or time.monotonic() >= deadline_s:
                    return answer
        except ClientError as error:
            problem = error  # the controller may have died a moment ago
        if problem.is_refusal or time.monotonic() >= deadline_s:
            raise problem
        time.sleep(_RETRY_S)


def coordinator_of(
    client: BlockingClient, key: str, kind: int, timeout_s: float, also: Iterable[Address] = ()
) -> Coordinator:
    """Find the coordinator of a group or a transactional id, and wait while it starts. Raises ClientError."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        found = client.ask_any(find_coordinator(key, kind), also)
        if found.error_code not in RETRIED or time.monotonic() >= deadline_s:
            return found
        time.sleep(_RETRY_S)
