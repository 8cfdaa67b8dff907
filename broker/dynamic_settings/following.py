"""Applies the settings of topics, brokers and clients that change while the broker runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from highwater.broker.quota.client_quotas import ClientQuotas
from highwater.broker.quota.replication_throttle import ReplicationThrottles
from highwater.broker.runtime import Runtime
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.config import BrokerConfig, TopicConfig, check_broker_overrides, check_topic_overrides
from highwater.broker.settings.store import SettingsStore
from highwater.broker.topics.log_settings import log_config_of
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.topic import Topic

_logger = logging.getLogger(__name__)

_UNCLEAN = "unclean.leader.election.enable"


def usable_topic_settings(topic: str, overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Those that can be in force; what another version or a tool set else is said and left alone."""
    return _usable(f"topic {topic}", overrides, check_topic_overrides)


def take_up_broker_settings(config: BrokerConfig, broker_id: int, store: SettingsStore) -> None:
    """Use at the start what was set before for this broker, and for all."""
    for broker, overrides in store.broker_configs().items():
        if broker in ("", str(broker_id)):
            config.set_dynamic(broker, _usable_of_broker(broker, overrides))


def follow(
    runtime: Runtime,
    store: SettingsStore,
    partitions: Partitions,
    quotas: ClientQuotas,
    throttles: ReplicationThrottles,
    *,
    enable_unclean_election: Callable[[str | None], None],
    client_metrics_changed: Callable[[], None],
    group_settings_changed: Callable[[], None],
) -> None:
    """Apply all later changes of the store to the other parts.

    `enable_unclean_election` is called with the topic whose settings allow unclean elections from now on, None for all
    topics.
    """
    followed = _Followed(
        runtime,
        store,
        partitions,
        quotas,
        throttles,
        enable_unclean_election,
        client_metrics_changed,
        group_settings_changed,
    )
    store.when_changed.append(lambda path: _take_effect(followed, path))


class _Followed(NamedTuple):
    runtime: Runtime
    store: SettingsStore
    partitions: Partitions
    quotas: ClientQuotas
    throttles: ReplicationThrottles
    enable_unclean_election: Callable[[str | None], None]
    client_metrics_changed: Callable[[], None]
    group_settings_changed: Callable[[], None]


def _usable_of_broker(broker: str, overrides: Mapping[str, str]) -> dict[str, str]:
    return _usable(_name_of_broker(broker), overrides, check_broker_overrides)


def _usable(
    whose: str, overrides: Mapping[str, str], check: Callable[[Mapping[str, str]], str | None]
) -> dict[str, str]:
    usable = {}
    for name, text in overrides.items():
        if reason := check({name: text}):
            _logger.warning("%s: a dynamic setting is not used: %s", whose, reason)
        else:
            usable[name] = text
    return usable


def _name_of_broker(broker: str) -> str:
    return f"broker {broker}" if broker else "all brokers"


def _take_effect(parts: _Followed, path: str) -> None:
    name = path.rpartition("/")[2]
    if path.startswith(f"{metadata_tree.TOPIC_CONFIGS}/"):
        _topic_changed(parts, name)
    elif path.startswith(f"{metadata_tree.BROKER_CONFIGS}/"):
        broker = "" if name == metadata_tree.DEFAULT_ENTITY else name
        if broker in ("", str(parts.runtime.broker_id)):
            _broker_changed(parts, broker)
    elif path.startswith(f"{metadata_tree.CLIENT_METRICS_CONFIGS}/"):
        parts.client_metrics_changed()
    elif path.startswith(f"{metadata_tree.GROUP_CONFIGS}/"):
        parts.group_settings_changed()
    else:
        parts.quotas.change(parts.store.client_quotas())


def _topic_changed(parts: _Followed, name: str) -> None:
    config = TopicConfig(parts.runtime.config, usable_topic_settings(name, parts.store.topic_config(name)))
    topic = parts.partitions.topic(name)
    if topic is not None:
        topic.config = config
        _apply([topic])
        parts.throttles.topic_changed(name, config)
        _logger.info("topic %s has the settings %s now", name, config.overrides)
    if _UNCLEAN in config.overrides and config.boolean(_UNCLEAN):
        parts.enable_unclean_election(name)


def _broker_changed(parts: _Followed, broker: str) -> None:
    overrides = _usable_of_broker(broker, parts.store.broker_configs().get(broker, {}))
    was_unclean = parts.runtime.config.boolean(_UNCLEAN)
    parts.runtime.config.set_dynamic(broker, overrides)
    parts.partitions.log_directories.set_defaults(log_config_of(TopicConfig(parts.runtime.config, {})))
    _apply(parts.partitions.topics())
    _logger.info("%s: the dynamic settings are %s now", _name_of_broker(broker), overrides)
    if parts.runtime.config.boolean(_UNCLEAN) and not was_unclean:
        parts.enable_unclean_election(None)


def _apply(topics: Iterable[Topic]) -> None:
    for topic in topics:
        log_config = log_config_of(topic.config)
        for partition in topic.partitions.values():
            partition.log.config = log_config
            partition.require_in_sync(topic.config.integer("min.insync.replicas"))
