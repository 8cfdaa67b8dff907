"""Requests that confluent-kafka cannot send, with the TLS and the login of the command."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.admin.client import REQUEST_TIMEOUT_S, Cluster
from highwater.admin.terminal import CommandError, UsageError, printable
from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import cold_request
from highwater.kafka.client.settings import Address

_RETRY_S: Final = 0.2
_WHILE_A_COORDINATOR_STARTS: Final = (ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress)
GROUP: Final = 0
TRANSACTIONAL_ID: Final = 1
"""The key types of FindCoordinator."""


@dataclass(frozen=True, order=True)
class Node:
    """A broker of the cluster."""

    node_id: int
    address: Address
    client: BlockingClient = field(compare=False, repr=False)

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        """Send one request, with kio's names, and return the response. Raises UsageError when none comes."""
        try:
            return self.client.ask(self.address, cold_request(api, version, version, fields, lambda answer: answer))
        except ClientError as error:
            raise UsageError(str(error)) from None


def nodes_of(cluster: Cluster) -> list[Node]:
    brokers = cluster.metadata.brokers.values()
    return sorted(Node(int(each.id), (str(each.host), int(each.port)), cluster.wire) for each in brokers)


def reason_of(answer: Any) -> str:
    """Return the error of an answer or of a part of it: the broker's words, if any, and Kafka's name."""
    name = answer.error_code.name.upper()
    return f"{printable(answer.error_message.rstrip('.'))} ({name})" if answer.error_message else name


def ask_any(cluster: Cluster, api: str, version: int, /, **fields: Any) -> Any:
    """Return the response of the first broker that answers; metadata may still list brokers that just died."""
    *others, last = nodes_of(cluster)
    for node in others:
        try:
            return node.ask(api, version, **fields)
        except UsageError:
            continue
    return last.ask(api, version, **fields)


def coordinator_of(cluster: Cluster, key: str, key_type: int = TRANSACTIONAL_ID) -> Node:
    """Find a coordinator, and wait while it starts. Raises CommandError when there is none."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        answer = ask_any(cluster, "find_coordinator", 1, key=key, key_type=key_type)
        if answer.error_code is ErrorCode.none:
            return Node(answer.node_id, (answer.host, answer.port), cluster.wire)
        if answer.error_code not in _WHILE_A_COORDINATOR_STARTS or time.monotonic() >= deadline:
            raise CommandError(f"{key}: no coordinator of it can be found ({answer.error_code.name})")
        time.sleep(_RETRY_S)


def ask_controller(cluster: Cluster, api: str, version: int, /, **fields: Any) -> Any:
    """Return the response of the controller; waits for an election. Raises CommandError when there is none."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        metadata = ask_any(cluster, "metadata", 9, topics=[], allow_auto_topic_creation=False)
        controller = next((each for each in metadata.brokers if each.node_id == metadata.controller_id), None)
        reason = "the cluster has no controller now"
        if controller is not None:
            try:
                answer = Node(controller.node_id, (controller.host, controller.port), cluster.wire).ask(
                    api, version, **fields
                )
            except UsageError as error:
                reason = str(error)  # the controller may have died a moment ago
            else:
                if answer.error_code is not ErrorCode.not_controller:
                    return answer
        if time.monotonic() >= deadline:
            raise CommandError(reason)
        time.sleep(_RETRY_S)
