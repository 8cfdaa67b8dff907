"""Changing the settings of topics and of the running broker: checked, kept in the metadata store, in force at once.

A topic's logs take their new settings with the next append. Of the broker's properties those can change that Kafka
changes too and this broker honours: the defaults of topics, and limits.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.administration import Problem
from broker.config import DYNAMIC_BROKER_PROPERTIES, TopicConfig, check_broker_overrides, check_topic_overrides, render
from broker.config_table import BROKER_PROPERTIES, TOPIC_PROPERTIES, Kind
from broker.log_settings import log_config_of
from broker.node import Node

_logger = logging.getLogger(__name__)

TOPIC: Final = 2
BROKER: Final = 4
"""The types of resources that have a configuration here."""


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    operation: int
    value: str | None


def alter(
    node: Node, resource_type: int, name: str, changes: Sequence[Change], *, replace_all: bool, validate_only: bool
) -> Problem | None:
    """Change one resource's own settings; with `replace_all` those that no change names go back to their defaults."""
    if resource_type == TOPIC:
        return _alter_topic(node, name, changes, replace_all, validate_only)
    if resource_type == BROKER:
        return _alter_broker(node, name, changes, replace_all, validate_only)
    return Problem(
        ErrorCode.invalid_request,
        f"Configurations are of topics and brokers, but the resource type is {resource_type}.",
    )


def _alter_topic(
    node: Node, name: str, changes: Sequence[Change], replace_all: bool, validate_only: bool
) -> Problem | None:
    topic = node.topic(name)
    if topic is None:
        return Problem(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
    present = {} if replace_all else topic.config.overrides
    inherited = {key: render(topic.config.value(key)) for key in TOPIC_PROPERTIES}
    kinds = {key: entry.row.kind for key, entry in TOPIC_PROPERTIES.items()}
    overrides = _changed(present, changes, inherited, kinds)
    if isinstance(overrides, Problem):
        return overrides
    if reason := check_topic_overrides(overrides):
        return Problem(ErrorCode.invalid_config, reason)
    if validate_only:
        return None
    record = next(record for record in node.store.topics() if record.name == name)
    try:
        node.store.put_topics([replace(record, config=overrides)])
    except OSError as error:
        return _cannot_write(f"topic {name}", error)
    topic.config = TopicConfig(node.config, overrides)
    _take_effect(node, [name])
    _logger.info("topic %s has the settings %s now", name, overrides)
    return None


def _alter_broker(
    node: Node, name: str, changes: Sequence[Change], replace_all: bool, validate_only: bool
) -> Problem | None:
    """An empty name stands for the defaults of all brokers."""
    if name not in ("", str(node.broker_id)):
        return Problem(
            ErrorCode.invalid_request, f"Unexpected broker id, expected {node.broker_id} or empty, but received {name}"
        )
    fixed = sorted({change.name for change in changes if change.name in BROKER_PROPERTIES} - DYNAMIC_BROKER_PROPERTIES)
    if fixed:
        return Problem(
            ErrorCode.invalid_request,
            f"Cannot update these configs dynamically: {', '.join(fixed)}; restart the broker",
        )
    present = {} if replace_all else dict(node.store.broker_configs().get(name, {}))
    inherited = {key: render(node.config.value(key)) for key in DYNAMIC_BROKER_PROPERTIES}
    kinds = {key: row.kind for key, row in BROKER_PROPERTIES.items()}
    overrides = _changed(present, changes, inherited, kinds)
    if isinstance(overrides, Problem):
        return overrides
    if reason := check_broker_overrides(overrides):
        return Problem(ErrorCode.invalid_config, reason)
    if validate_only:
        return None
    try:
        node.store.put_broker_config(name, overrides)
    except OSError as error:
        return _cannot_write(f"broker {name or 'defaults'}", error)
    node.config.set_dynamic(name, overrides)
    node.log_directories.set_defaults(log_config_of(TopicConfig(node.config, {})))
    _take_effect(node, [topic.name for topic in node.topics()])
    _logger.info("%s: the dynamic settings are %s now", f"broker {name}" if name else "all brokers", overrides)
    return None


def _take_effect(node: Node, topic_names: Sequence[str]) -> None:
    for name in topic_names:
        topic = node.topic(name)
        assert topic is not None
        log_config = log_config_of(topic.config)
        for partition in topic.partitions.values():
            partition.log.config = log_config
            partition.require_in_sync(topic.config.integer("min.insync.replicas"))


def _changed(
    present: Mapping[str, str],
    changes: Sequence[Change],
    inherited: Mapping[str, str | None],
    kinds: Mapping[str, Kind],
) -> dict[str, str] | Problem:
    """The settings after the changes; lists are appended to and subtracted from as they are in force (KIP-339)."""
    twice = [name for name, count in Counter(change.name for change in changes).items() if count > 1]
    if twice:
        return Problem(ErrorCode.invalid_request, f"Error due to duplicate config keys: {', '.join(twice)}")
    overrides = dict(present)
    for name, operation, value in changes:
        if operation == Operation.DELETE:
            overrides.pop(name, None)
            continue
        if value is None:
            return Problem(ErrorCode.invalid_request, f"Null value not supported for: {name}")
        if operation == Operation.SET:
            overrides[name] = value
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            if kinds.get(name) is not Kind.LIST:
                return Problem(
                    ErrorCode.invalid_config,
                    f"Config value {Operation(operation).name.lower()} is not allowed for config key: {name}",
                )
            items = [item for item in (overrides.get(name) or inherited.get(name) or "").split(",") if item]
            named = [item.strip() for item in value.split(",") if item.strip()]
            if operation == Operation.APPEND:
                items += [item for item in named if item not in items]
            else:
                items = [item for item in items if item not in named]
            overrides[name] = ",".join(items)
        else:
            return Problem(ErrorCode.invalid_request, f"Unknown operation {operation} for {name}")
    return overrides


def _cannot_write(what: str, error: OSError) -> Problem:
    _logger.error("cannot keep the settings of %s: %s", what, error)
    return Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
