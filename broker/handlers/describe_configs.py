"""DescribeConfigs: v0-v4 (key 32)

Behaviour:
* Topics and this broker (resource types 2 and 4); all properties that config_table.py knows, or the requested ones;
  null and an empty list both request all. The levels of this broker's loggers (type 8, KIP-412). Subscriptions to
  metrics of clients (type 16, KIP-714), also one that does not exist: it has the defaults. Groups (type 32, KIP-848),
  of any name. Other types: INVALID_REQUEST, with words that name the type.
* Each value comes with its source; with synonyms, also with the values that it overrides.
* An empty broker name requests the dynamic settings of all brokers.
* A property is read-only if it cannot be changed while the broker runs.

Versions: v0 returns only whether a value is the default; v1 brings sources and synonyms; v3 documentation, which marks
properties that have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.dynamic_settings import loggers
from highwater.broker.dynamic_settings.altering import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, unserved
from highwater.broker.dynamic_settings.following import usable_topic_settings
from highwater.broker.group.consumer.settings import GROUP_PROPERTIES, name_of_broker
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.config import DYNAMIC_BROKER_PROPERTIES, BrokerConfig, Source, TopicConfig, render
from highwater.broker.settings.config_table import BROKER_PROPERTIES
from highwater.broker.settings.property_row import Kind, Property, Support, Value
from highwater.broker.settings.topic_properties import TOPIC_PROPERTIES
from highwater.broker.telemetry.subscriptions import PROPERTIES
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.topic_names import topic_name_problem


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    topics = [resource.resource_name for resource in request.resources if resource.resource_type == TOPIC]
    known = [name for name in paced(topics) if node.cluster.topic(name) is not None]
    deferred = Deferred()

    def describe(_: bool) -> None:
        deferred.complete(lambda: {"results": [_describe(node, resource, request) for resource in request.resources]})

    if known:
        # This broker may not know the settings of a topic that it has no replica of.
        node.store.read_topic_configs(known, describe)
    else:
        describe(True)
    return deferred.now_or_later()


def _describe(node: Node, resource: Any, request: Any) -> Answer:
    answer = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    if resource.resource_type == TOPIC:
        topic = node.cluster.topic(resource.resource_name)
        problem = topic_name_problem(resource.resource_name)
        if problem is not None:
            return answer | _problem(ErrorCode.invalid_topic_exception, problem)
        if topic is None:
            return answer | _problem(ErrorCode.unknown_topic_or_partition, "This server does not host this topic.")
        overrides = usable_topic_settings(topic.name, node.store.topic_config(topic.name))
        entries = describe_topic_config(TopicConfig(node.config, overrides))
    elif resource.resource_type in (BROKER, BROKER_LOGGER):
        may_be_empty = resource.resource_type == BROKER
        if resource.resource_name != str(node.broker_id) and (resource.resource_name or not may_be_empty):
            return answer | _problem(
                ErrorCode.invalid_request,
                f"Unexpected broker id, expected {node.broker_id}, but received {resource.resource_name}",
            )
        if resource.resource_type == BROKER_LOGGER:
            entries = _describe_loggers()
        elif resource.resource_name:
            entries = _describe_broker_config(node.config)
        else:
            entries = _describe_defaults(node.config)
    elif resource.resource_type == CLIENT_METRICS:
        if not resource.resource_name:
            return answer | _problem(ErrorCode.invalid_request, "Client metrics subscription name must not be empty")
        entries = _describe_client_metrics(
            node.store.own_configs(metadata_tree.CLIENT_METRICS_CONFIGS).get(resource.resource_name, {})
        )
    elif resource.resource_type == GROUP:
        if not resource.resource_name:
            return answer | _problem(ErrorCode.invalid_request, "Group name must not be empty")
        own = node.store.own_configs(metadata_tree.GROUP_CONFIGS).get(resource.resource_name, {})
        entries = _describe_group_config(node.config, own)
    else:
        return answer | _problem(*unserved(resource.resource_type))
    wanted = set(resource.configuration_keys or ())
    include_synonyms = getattr(request, "include_synonyms", False)
    configs = [
        entry if include_synonyms else {key: value for key, value in entry.items() if key != "synonyms"}
        for entry in entries
        if not wanted or entry["name"] in wanted
    ]
    return answer | {"configs": configs}


def _problem(error_code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": error_code, "error_message": message}


def describe_topic_config(config: TopicConfig) -> Iterator[dict[str, Any]]:
    for name, topic_property in TOPIC_PROPERTIES.items():
        synonyms: list[tuple[str, Value, Source]] = []
        if name in config.overrides:
            synonyms.append((name, config.value(name), Source.TOPIC))
        for broker_name, _ in topic_property.broker_properties:
            synonyms += [(broker_name, value, source) for value, source in config.broker.layers(broker_name)]
        for broker_name, _ in topic_property.broker_properties:
            default = BROKER_PROPERTIES[broker_name].default
            if default is not None:
                synonyms.append((broker_name, default, Source.DEFAULT))
        source = synonyms[0][2] if synonyms else Source.DEFAULT
        yield _entry(topic_property.row, config.value(name), source, synonyms, read_only=False)


def _describe_defaults(config: BrokerConfig) -> Iterator[dict[str, Any]]:
    source = Source.DYNAMIC_DEFAULT_BROKER
    for name, value in config.dynamic_defaults.items():
        yield _entry(BROKER_PROPERTIES[name], value, source, [(name, value, source)], read_only=False)


def _describe_broker_config(config: BrokerConfig) -> Iterator[dict[str, Any]]:
    for name, row in BROKER_PROPERTIES.items():
        synonyms = [(name, value, source) for value, source in config.layers(name)]
        if row.default is not None:
            synonyms.append((name, row.default, Source.DEFAULT))
        source = synonyms[0][2] if synonyms else Source.DEFAULT
        yield _entry(row, config.value(name), source, synonyms, read_only=name not in DYNAMIC_BROKER_PROPERTIES)


def _describe_client_metrics(settings: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, row in PROPERTIES.items():
        synonyms: list[tuple[str, Value, Source]] = [(name, row.default, Source.DEFAULT)]
        if name in settings:
            synonyms.insert(0, (name, settings[name], Source.CLIENT_METRICS))
        yield _entry(row, settings.get(name, row.default), synonyms[0][2], synonyms, read_only=False)


def _describe_group_config(config: BrokerConfig, own: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, row in GROUP_PROPERTIES.items():
        of_broker = name_of_broker(name)
        synonyms: list[tuple[str, Value, Source]] = [(name, own[name], Source.GROUP)] if name in own else []
        synonyms += [(of_broker, value, source) for value, source in config.layers(of_broker)]
        synonyms.append((of_broker, BROKER_PROPERTIES[of_broker].default, Source.DEFAULT))
        yield _entry(row, synonyms[0][1], synonyms[0][2], synonyms, read_only=False)


def _describe_loggers() -> Iterator[dict[str, Any]]:
    for name, level in loggers.levels().items():
        yield {"name": name, "value": level, "read_only": False, "config_source": Source.DYNAMIC_BROKER_LOGGER}


def _entry(
    row: Property, value: Value, source: Source, synonyms: Iterable[tuple[str, Value, Source]], *, read_only: bool
) -> dict[str, Any]:
    is_sensitive = row.kind is Kind.PASSWORD
    return {
        "name": row.name,
        "value": None if is_sensitive else render(value),
        "read_only": read_only,
        "is_default": source is Source.DEFAULT,
        "config_source": source,
        "is_sensitive": is_sensitive,
        "synonyms": [
            {"name": name, "value": None if is_sensitive else render(hidden), "source": hidden_source}
            for name, hidden, hidden_source in synonyms
        ],
        "config_type": row.kind,
        "documentation": None if row.support is Support.HONOURED else f"{row.support.value}: {row.why}",
    }
