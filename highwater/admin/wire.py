"""Requests that confluent-kafka cannot send, with the TLS and the login of the command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.admin.client import REQUEST_TIMEOUT_S, Cluster
from highwater.admin.terminal import CommandError, UsageError, printable
from highwater.kafka import finding
from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.client.settings import Address
from highwater.kafka.requests.find_coordinator import TRANSACTION


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


def coordinator_of(cluster: Cluster, key: str, key_type: int = TRANSACTION) -> Node:
    """Find a coordinator, and wait while it starts. Raises CommandError when there is none."""
    try:
        found = finding.coordinator_of(
            cluster.wire, key, key_type, REQUEST_TIMEOUT_S, [each.address for each in nodes_of(cluster)]
        )
    except ClientError as error:
        raise UsageError(str(error)) from None
    if found.error_code is not ErrorCode.none:
        raise CommandError(f"{key}: no coordinator of it can be found ({found.error_code.name})")
    return Node(found.node_id, (found.host, found.port), cluster.wire)


def ask_controller(cluster: Cluster, request: Request[finding.Sent]) -> finding.Sent:
    """Return the response of the controller; waits for an election.

    Raises UsageError when a broker does not answer, and CommandError when the brokers know no controller.
    """
    try:
        return finding.ask_controller(cluster.wire, request, REQUEST_TIMEOUT_S)
    except ClientError as error:
        raise (UsageError if error.broker else CommandError)(str(error)) from None
