#!/usr/bin/python
"""Holds a cluster against what is wanted of it, through librdkafka: a client that others wrote."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.basic import AnsibleModule

try:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic
except ImportError:
    AdminClient = None

DOCUMENTATION = r"""
module: highwater_round_trip
short_description: Hold a cluster against what is wanted of it, through a client that others wrote
description:
  - Asks which brokers there are and where, and whether every partition has a leader and all its replicas in sync.
  - Where several brokers are on one host (broker_processes), also whether a host has two replicas of a partition.
  - With O(round_trip), makes a topic for a moment, produces to every partition with acks=all and consumes it again.
  - Runs where C(confluent-kafka) is, such as on the controller. Without it nothing is judged, and the result says so.
options:
  name:
    description: Name of the cluster, for people.
    type: str
    required: true
  bootstrap_servers:
    description: Where the cluster answers.
    type: str
    required: true
  brokers:
    description: >-
      The brokers that it is to have (broker_id, address, port; host, and process, its number there, where it is one of
      several).
    type: list
    elements: dict
    required: true
  round_trip:
    description: Whether to produce and consume; never in check mode.
    type: bool
    default: true
  records:
    description: How many records go through each partition.
    type: int
    default: 100
  authority:
    description: Certificate of the authority that signed those of brokers, in PEM; empty for a cluster without TLS.
    type: str
    default: ""
  username:
    description: Who logs in, with SCRAM-SHA-512.
    type: str
    default: ""
  password:
    description: Password of O(username).
    type: str
    default: ""
  timeout_seconds:
    description: How long each answer may take.
    type: int
    default: 30
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
    details: Looks only.
  diff_mode:
    support: none
  platform:
    platforms: posix
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Look at a cluster from the controller
  highwater_round_trip:
    name: ssd
    bootstrap_servers: broker1:9092,broker2:9092
    brokers:
      - {broker_id: 1, address: broker1, port: 9092}
      - {broker_id: 2, address: broker2, port: 9092}
  delegate_to: localhost
"""

RETURN = r"""
lines:
  description: A line for each thing that was looked at.
  returned: always
  type: list
  elements: str
differences:
  description: The lines of what is not as wanted.
  returned: always
  type: list
  elements: str
"""

_TOPIC_PREFIX = "highwater-verify-"
_LONGEST_LIST = 5


class DifferenceError(Exception):
    """Something is not as wanted; the text says what."""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "bootstrap_servers": {"type": "str", "required": True},
            "brokers": {"type": "list", "elements": "dict", "required": True},
            "round_trip": {"type": "bool", "default": True},
            "records": {"type": "int", "default": 100},
            "authority": {"type": "str", "default": ""},
            "username": {"type": "str", "default": ""},
            "password": {"type": "str", "default": "", "no_log": True},
            "timeout_seconds": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    name = module.params["name"]
    if AdminClient is None:
        text = f"–    cluster {name}: not judged, as confluent-kafka is not installed where this runs"
        module.exit_json(changed=False, lines=[text], differences=[])
    lines: list[str] = []
    differences: list[str] = []
    checks = [brokers_are_there, partitions_are_in_sync]
    if any(each.get("process") for each in module.params["brokers"]):
        checks.append(replicas_are_apart)
    if module.params["round_trip"] and not module.check_mode:
        checks.append(records_come_back)
    admin = AdminClient(client_settings(module.params))
    for check in checks:
        try:
            lines.append(f"ok   cluster {name}: {check(admin, module.params)}")
        except (DifferenceError, KafkaException) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else error
            lines.append(f"BAD  cluster {name}: {reason}")
            differences.append(lines[-1])
            break
    module.exit_json(changed=False, lines=lines, differences=differences)


def client_settings(wanted: dict[str, Any]) -> dict[str, Any]:
    # The call that fails reports why a broker cannot be reached; the library would repeat it on standard error.
    plain = {"bootstrap.servers": wanted["bootstrap_servers"], "client.id": "highwater-verify", "log_level": 0}
    if not wanted.get("authority"):
        return plain
    return {
        **plain,
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": wanted["authority"],
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": wanted["username"],
        "sasl.password": wanted["password"],
    }


def brokers_are_there(admin: AdminClient, wanted: dict[str, Any]) -> str:
    """That the brokers are those of the inventory, each where it says."""
    expected = {int(each["broker_id"]): f"{each['address']}:{each['port']}" for each in wanted["brokers"]}
    deadline = time.monotonic() + wanted["timeout_seconds"]
    while True:
        metadata = admin.list_topics(timeout=wanted["timeout_seconds"])
        found = {broker.id: f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()}
        if found == expected:
            return f"brokers {told(found)}"
        if time.monotonic() > deadline:
            raise DifferenceError(f"wanted brokers {told(expected)}, found {told(found)}")
        time.sleep(1)


def partitions_are_in_sync(admin: AdminClient, wanted: dict[str, Any]) -> str:
    """That every partition has a leader and all its replicas in sync."""
    topics = admin.list_topics(timeout=wanted["timeout_seconds"]).topics.values()
    partitions = [(topic.topic, partition) for topic in topics for partition in topic.partitions.values()]
    behind = [
        f"{topic}-{partition.id} (leader {partition.leader}, in sync {sorted(partition.isrs)} of "
        f"{sorted(partition.replicas)})"
        for topic, partition in partitions
        if partition.leader < 0 or set(partition.isrs) != set(partition.replicas)
    ]
    if behind:
        more = f" and {len(behind) - _LONGEST_LIST} more" if len(behind) > _LONGEST_LIST else ""
        raise DifferenceError(f"not all replicas are in sync: {', '.join(behind[:_LONGEST_LIST])}{more}")
    return f"{len(partitions)} partitions, each with a leader and all replicas in sync"


def replicas_are_apart(admin: AdminClient, wanted: dict[str, Any]) -> str:
    """That no host has two replicas of a partition, as all its brokers stop with it."""
    hosts = {int(each["broker_id"]): str(each["host"]) for each in wanted["brokers"]}
    together: list[str] = []
    for topic in admin.list_topics(timeout=wanted["timeout_seconds"]).topics.values():
        for partition in topic.partitions.values():
            of_host = Counter(hosts[broker] for broker in partition.replicas if broker in hosts)
            together += [
                f"{topic.topic}-{partition.id} ({count} on {host})" for host, count in of_host.items() if count > 1
            ]
    if together:
        raise DifferenceError(
            f"several replicas of a partition are on one host: {', '.join(together[:_LONGEST_LIST])}"
            f"{f' and {len(together) - _LONGEST_LIST} more' if len(together) > _LONGEST_LIST else ''}; move them apart "
            "(highwater broker reassign --balance), or give the topic no more replicas than there are hosts"
        )
    return f"no host of {len(set(hosts.values()))} has two replicas of a partition"


def records_come_back(admin: AdminClient, wanted: dict[str, Any]) -> str:
    """That what acks=all acknowledged can be read again, from as many partitions as there are brokers."""
    topic, timeout = f"{_TOPIC_PREFIX}{secrets.token_hex(4)}", wanted["timeout_seconds"]
    count = len(wanted["brokers"])
    hosts = sum(not each.get("process") for each in wanted["brokers"])
    made = admin.create_topics([NewTopic(topic, count, min(3, hosts))], operation_timeout=timeout)
    made[topic].result(timeout)
    try:
        sent = set(produce(wanted, topic, count))
        found = set(consume(wanted, topic, count, len(sent)))
    finally:
        admin.delete_topics([topic], operation_timeout=timeout)[topic].result(timeout)
    if found != sent:
        raise DifferenceError(f"wanted {len(sent)} acknowledged records of {topic} back, found {len(found & sent)}")
    return f"{len(sent)} records through {count} partitions with acks=all and back"


def produce(wanted: dict[str, Any], topic: str, partitions: int) -> list[tuple[int, bytes]]:
    """What was acknowledged."""
    acknowledged: list[tuple[int, bytes]] = []
    refused: list[str] = []

    def told_of(error: Any, message: Any) -> None:
        if error is None:
            acknowledged.append((message.partition(), message.value()))
        else:
            refused.append(error.str())

    producer = Producer(
        {**client_settings(wanted), "acks": "all", "delivery.timeout.ms": wanted["timeout_seconds"] * 1000}
    )
    for partition in range(partitions):
        for number in range(wanted["records"]):
            producer.produce(topic, value=f"{partition}/{number}".encode(), partition=partition, on_delivery=told_of)
    unsent = producer.flush(wanted["timeout_seconds"])
    if refused or unsent:
        raise DifferenceError(f"{len(refused) + unsent} records were not acknowledged: {(refused or ['no answer'])[0]}")
    return acknowledged


def consume(wanted: dict[str, Any], topic: str, partitions: int, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield what came within the time, and no more than `count`."""
    consumer = Consumer({**client_settings(wanted), "group.id": topic, "enable.auto.commit": False})
    deadline = time.monotonic() + wanted["timeout_seconds"]
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found = 0
        while found < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found += 1
                yield message.partition(), message.value()
    finally:
        consumer.close()


def told(brokers: dict[int, str]) -> str:
    return ", ".join(f"{number} at {address}" for number, address in sorted(brokers.items())) or "none"


if __name__ == "__main__":
    main()
