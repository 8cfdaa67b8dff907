"""Changing settings of topics, brokers, groups and metrics of clients: checked, and kept in the store.

broker/dynamic_settings/following.py has them take effect.

Of the broker's properties those can change that Kafka changes too and this broker honours: the defaults of topics, and
limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import ClusterView
from highwater.broker.dynamic_settings.following import usable_topic_settings
from highwater.broker.group.consumer.settings import problem_with
from highwater.broker.runtime import Runtime
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.config import (
    DYNAMIC_BROKER_PROPERTIES,
    BrokerConfig,
    TopicConfig,
    check_broker_overrides,
    check_new_topic_overrides,
    render,
)
from highwater.broker.settings.config_table import BROKER_PROPERTIES, property_named
from highwater.broker.settings.property_row import Kind
from highwater.broker.settings.store import ConfigChange, SettingsStore
from highwater.broker.settings.topic_properties import TOPIC_PROPERTIES
from highwater.broker.telemetry.subscriptions import PROPERTIES, subscription_of
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.problem import Problem

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
"""The types of resources that have a configuration here; loggers.py has that of loggers."""


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfigOp(NamedTuple):
    name: str
    operation: int
    value: str | None


class Alteration(NamedTuple):
    """What is to become of the settings of one resource."""

    resource_type: int
    name: str
    changes: Sequence[AlterConfigOp]


def unserved(resource_type: int) -> Problem:
    """Return why there is no configuration of a resource of any other type."""
    served = "this broker has settings of topics, brokers, loggers, groups and metrics of clients"
    return Problem(ErrorCode.invalid_request, f"Resource type {resource_type} is not supported: {served}.")


def alter(
    runtime: Runtime,
    store: SettingsStore,
    cluster: ClusterView,
    wanted: Sequence[Alteration],
    then: Callable[[list[Problem | None]], None],
    *,
    replace_all: bool,
    validate_only: bool,
) -> None:
    """Change the settings of resources, each by itself, and call back, maybe before this returns, with why not of each.

    With `replace_all` those that no change names go back to their defaults. No resource is named twice. To set the
    place of a key store to where it is already has its file read again, as with Kafka; there is nothing to store then.
    """
    wanted, renewing = _without_own_stores(runtime, wanted)

    def go_on(reason: str | None) -> None:
        refused = {} if reason is None else dict.fromkeys(renewing, Problem(ErrorCode.invalid_request, reason))
        _change(runtime, store, cluster, wanted, refused, then, replace_all=replace_all, validate_only=validate_only)

    if renewing and runtime.config.read_stores_again is not None and not validate_only:
        runtime.config.read_stores_again(go_on)
    else:
        go_on(None)


def _without_own_stores(runtime: Runtime, wanted: Sequence[Alteration]) -> tuple[Sequence[Alteration], list[int]]:
    """Return what is left to change, and the places of those that named a store of this broker."""
    left, renewing = list(wanted), []
    for place, each in enumerate(paced(wanted)):
        if each.resource_type == BROKER and each.name == str(runtime.broker_id):
            changes = [
                change
                for change in each.changes
                if change.operation != Operation.SET or not runtime.config.names_own_store(change.name, change.value)
            ]
            if len(changes) < len(each.changes):
                left[place] = each._replace(changes=changes)
                renewing.append(place)
    return left, renewing


def _change(
    runtime: Runtime,
    store: SettingsStore,
    cluster: ClusterView,
    wanted: Sequence[Alteration],
    refused: Mapping[int, Problem],
    then: Callable[[list[Problem | None]], None],
    *,
    replace_all: bool,
    validate_only: bool,
) -> None:
    problems: list[Problem | None] = [refused.get(place) for place in range(len(wanted))]
    changes: dict[str, ConfigChange] = {}
    places: dict[str, int] = {}
    for place, alteration in enumerate(paced(wanted)):
        if place in refused:
            continue
        found = _change_of(runtime, cluster, alteration, replace_all)
        if isinstance(found, Problem):
            problems[place] = found
        elif validate_only:
            path, change = found
            outcome = change(_known(store, path))
            problems[place] = outcome if isinstance(outcome, Problem) else None
        else:
            path, changes[path] = found
            places[path] = place

    def changed(outcome: dict[str, Problem | None]) -> None:
        for path, problem in outcome.items():
            problems[places[path]] = problem
        then(problems)

    if changes:
        store.change_configs(changes, changed)
    else:
        then(problems)


def _known(store: SettingsStore, path: str) -> Mapping[str, str]:
    name = path.rpartition("/")[2]
    if path.startswith(f"{metadata_tree.TOPIC_CONFIGS}/"):
        return store.topic_config(name)
    if (own := metadata_tree.parse_own_config_path(path)) is not None:
        parent, name = own
        return store.own_configs(parent).get(name, {})
    return store.broker_configs().get("" if name == metadata_tree.DEFAULT_ENTITY else name, {})


def _change_of(
    runtime: Runtime, cluster: ClusterView, wanted: Alteration, replace_all: bool
) -> tuple[str, ConfigChange] | Problem:
    if wanted.resource_type == TOPIC:
        if cluster.topic(wanted.name) is None:
            return Problem(ErrorCode.unknown_topic_or_partition, f"The topic '{wanted.name}' does not exist.")
        return metadata_tree.topic_config_path(wanted.name), partial(_change_topic, runtime.config, wanted, replace_all)
    if wanted.resource_type == BROKER:
        # An empty name stands for the defaults of all brokers.
        if wanted.name not in ("", str(runtime.broker_id)):
            return Problem(
                ErrorCode.invalid_request,
                f"Unexpected broker id, expected {runtime.broker_id} or empty, but received {wanted.name}",
            )
        names = {change.name for change in wanted.changes if property_named(change.name) is not None}
        if fixed := sorted(names - DYNAMIC_BROKER_PROPERTIES):
            return Problem(
                ErrorCode.invalid_request,
                f"Cannot update these configs dynamically: {', '.join(fixed)}; restart the broker",
            )
        return metadata_tree.broker_config_path(wanted.name), partial(
            _change_broker, runtime.config, wanted, replace_all
        )
    if wanted.resource_type == CLIENT_METRICS:
        if not wanted.name:
            return Problem(ErrorCode.invalid_request, "Subscription name can't be empty")
        return metadata_tree.own_config_path(metadata_tree.CLIENT_METRICS_CONFIGS, wanted.name), partial(
            _change_client_metrics, wanted, replace_all
        )
    if wanted.resource_type == GROUP:
        if not wanted.name:
            return Problem(ErrorCode.invalid_request, "Default group resources are not allowed.")
        return metadata_tree.own_config_path(metadata_tree.GROUP_CONFIGS, wanted.name), partial(
            _change_group, runtime.config, wanted, replace_all
        )
    return unserved(wanted.resource_type)


def _change_group(
    config: BrokerConfig, wanted: Alteration, replace_all: bool, present: Mapping[str, str]
) -> Mapping[str, str] | Problem:
    overrides = _changed({} if replace_all else present, wanted.changes, {}, {})
    if isinstance(overrides, Problem):
        return overrides
    reason = problem_with(config, overrides)
    return overrides if reason is None else Problem(ErrorCode.invalid_config, reason)


def _change_client_metrics(
    wanted: Alteration, replace_all: bool, present: Mapping[str, str]
) -> Mapping[str, str] | Problem:
    inherited = {key: render(row.default) for key, row in PROPERTIES.items()}
    kinds = {key: row.kind for key, row in PROPERTIES.items()}
    overrides = _changed({} if replace_all else present, wanted.changes, inherited, kinds)
    if isinstance(overrides, Problem):
        return overrides
    subscription = subscription_of(overrides)
    return subscription if isinstance(subscription, Problem) else overrides


def _change_topic(
    config: BrokerConfig, wanted: Alteration, replace_all: bool, present: Mapping[str, str]
) -> Mapping[str, str] | Problem:
    topic_config = TopicConfig(config, usable_topic_settings(wanted.name, present))
    inherited = {key: render(topic_config.value(key)) for key in TOPIC_PROPERTIES}
    kinds = {key: entry.row.kind for key, entry in TOPIC_PROPERTIES.items()}
    overrides = _changed({} if replace_all else present, wanted.changes, inherited, kinds)
    if isinstance(overrides, Problem):
        return overrides
    reason = check_new_topic_overrides(overrides)
    return overrides if reason is None else Problem(ErrorCode.invalid_config, reason)


def _change_broker(
    config: BrokerConfig, wanted: Alteration, replace_all: bool, present: Mapping[str, str]
) -> Mapping[str, str] | Problem:
    inherited = {key: render(config.value(key)) for key in DYNAMIC_BROKER_PROPERTIES}
    kinds = {key: row.kind for key, row in BROKER_PROPERTIES.items()}
    overrides = _changed({} if replace_all else present, wanted.changes, inherited, kinds)
    if isinstance(overrides, Problem):
        return overrides
    reason = check_broker_overrides(overrides)
    return overrides if reason is None else Problem(ErrorCode.invalid_config, reason)


def _changed(
    present: Mapping[str, str],
    changes: Sequence[AlterConfigOp],
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
