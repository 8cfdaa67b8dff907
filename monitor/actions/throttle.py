"""Sets and removes the throttle of moves (KIP-73), or leaves the cluster as it was."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from highwater.admin.replication_throttle import RATES, REPLICAS, throttled_replicas
from highwater.common.quantities import BYTE_RATE, SIZE, Quantity
from highwater.common.topic_partition import TopicPartition
from highwater.common.units import count_text
from highwater.monitor.actions.cluster import ActionCluster
from highwater.monitor.actions.plan import ActionError, Outcome, PlannedChange
from highwater.monitor.actions.requests import Resource, Settings, incremental_alter_configs
from highwater.monitor.kafka_source.configs import BROKER, TOPIC, describe_configs
from highwater.monitor.kafka_source.parts import refusal
from highwater.monitor.model import ConfigValue

_DIRECTORY_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_OF_BROKER: Final = (*RATES, _DIRECTORY_RATE)
_TOPICS_AT_ONCE: Final = 500
_NO_ANSWER: Final = "no answer: "
_NOT_SET: Final = "not set"
_MOST: Final = 2**63 - 1
_THROTTLE: Final = Quantity(
    {"": 1, **SIZE.units, **BYTE_RATE.units}, "a throttle: write bytes per second, such as 50MiB"
)


def rate_of(text: str) -> int | None:
    """Bytes per second, from `50MiB`, `50 MiB/s` or `52428800`; None if it is empty. Raises ActionError."""
    if not text:
        return None
    amount = _THROTTLE.amount(text)
    if amount is None or not 1 <= amount <= _MOST:
        raise ActionError(f"{text!r} is not {_THROTTLE.form}.")
    return int(amount)


@dataclass(frozen=True, slots=True)
class ReplicationThrottle:
    """Settings of topics and brokers as they are to be, and as they are."""

    wanted: Mapping[Resource, Settings] = field(default_factory=dict)
    before: Mapping[Resource, Settings] = field(default_factory=dict)
    """Those of a topic or broker itself: None where it has none of its own."""

    @property
    def changes(self) -> tuple[PlannedChange, ...]:
        return tuple(_change(resource, self.before[resource], wanted) for resource, wanted in self.wanted.items())


def to_set(
    cluster: ActionCluster,
    rate: int,
    planned: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> ReplicationThrottle:
    """For planned moves and for those that run, at `rate` bytes per second in and out of each broker."""
    topics, brokers = throttled_replicas(planned, current, cluster.moves())
    # A broker that is away moves nothing, and takes no setting.
    there = sorted(brokers & set(cluster.alive))
    wanted: dict[Resource, Settings] = {(TOPIC, topic): settings for topic, settings in sorted(topics.items())}
    wanted |= {(BROKER, str(broker)): dict.fromkeys(RATES, str(rate)) for broker in there}
    before = _described(cluster, sorted(topics), there)
    made = ReplicationThrottle(
        wanted, {each: {name: before[each].get(name) for name in wanted[each]} for each in wanted}
    )
    for resource, error in _alter(cluster, wanted, is_trial=True).items():
        if error:
            raise ActionError(f"This cluster cannot throttle: {_name(resource)} would refuse it: {error}.")
    return made


def to_remove(cluster: ActionCluster, topics: Collection[str] | None = None) -> ReplicationThrottle:
    """Return the throttle to remove: from all live brokers, and from `topics`, or from all topics that have one."""
    names = [each.name for each in cluster.row.topics if not each.error_code]
    chosen = sorted(names if topics is None else set(names) & set(topics))
    before = {each: own for each, own in _described(cluster, chosen, cluster.alive).items() if own}
    return ReplicationThrottle({each: dict.fromkeys(own) for each, own in before.items()}, before)


def apply(cluster: ActionCluster, throttle: ReplicationThrottle) -> None:
    """Set all of it or nothing. Raises ActionError."""
    errors = _alter(cluster, throttle.wanted, is_trial=False)
    failed = next((resource for resource, error in errors.items() if error), None)
    if failed is not None:
        # Where no answer came it may have been set.
        refused = {each for each, error in errors.items() if error and not error.startswith(_NO_ANSWER)}
        left = take_back(cluster, throttle, refused)
        raise ActionError(f"The throttle was refused by {_name(failed)}: {errors[failed]}. Nothing was moved{left}.")


def take_back(cluster: ActionCluster, throttle: ReplicationThrottle, unchanged: Collection[Resource] = ()) -> str:
    """Set what was there before. Returns the end of a sentence that says what could not be."""
    before = {each: settings for each, settings in throttle.before.items() if each not in unchanged}
    errors = _alter(cluster, before, is_trial=False)
    failed = [_name(resource) for resource, error in errors.items() if error]
    return f", but a throttle is left at {', '.join(failed)}" if failed else ", and no throttle is left"


def remove(cluster: ActionCluster, throttle: ReplicationThrottle) -> list[Outcome]:
    return [Outcome(_title(each), error) for each, error in _alter(cluster, throttle.wanted, is_trial=False).items()]


def _described(cluster: ActionCluster, topics: Sequence[str], brokers: Sequence[int]) -> dict[Resource, dict[str, str]]:
    """Return the throttle's settings that each topic and broker has of its own."""
    found: dict[Resource, dict[str, str]] = {}
    anyone = _anyone(cluster)
    asked: list[tuple[int, list[Resource], Iterable[str]]] = [
        (anyone, [(TOPIC, name) for name in topics[at : at + _TOPICS_AT_ONCE]], REPLICAS)
        for at in range(0, len(topics), _TOPICS_AT_ONCE)
    ]
    asked += [(broker, [(BROKER, str(broker))], _OF_BROKER) for broker in brokers]
    for node_id, resources, names in asked:
        for resource, described in cluster.ask(node_id, describe_configs(resources, tuple(names))).items():
            if described.error_code:
                why = refusal(described.error_code, described.message)
                raise ActionError(f"The settings of {_name(resource)} are not known: {why}.")
            found[resource] = {name: value.value or "" for name, value in described.config.items() if _is_own(value)}
    return found


def _is_own(value: ConfigValue) -> bool:
    return value.source in ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG")


def _alter(cluster: ActionCluster, wanted: Mapping[Resource, Settings], *, is_trial: bool) -> dict[Resource, str]:
    """The error of each. A broker takes its own settings alone; those of topics go together to any."""
    groups: dict[tuple[int, int], dict[Resource, Settings]] = {}
    for (kind, name), settings in wanted.items():
        node_id = int(name) if kind == BROKER else _anyone(cluster)
        groups.setdefault((kind, node_id), {})[kind, name] = settings
    errors: dict[Resource, str] = {}
    for (_, node_id), resources in groups.items():
        try:
            answer = cluster.ask(node_id, incremental_alter_configs(resources, is_trial=is_trial))
        except ActionError as error:
            answer = dict.fromkeys(resources, f"{_NO_ANSWER}{str(error).rstrip('.')}")
        errors |= {each: answer.get(each, "it did not mention it") for each in resources}
    return errors


def _anyone(cluster: ActionCluster) -> int:
    return cluster.row.controller if cluster.row.controller in cluster.alive else cluster.alive[0]


def _change(resource: Resource, before: Settings, wanted: Settings) -> PlannedChange:
    return PlannedChange(_title(resource), _shown(before), _shown(wanted), ", ".join(wanted))


def _shown(settings: Settings) -> str:
    values = [
        None if value is None else f"{name.split('.')[0]} {_value(name, value)}" for name, value in settings.items()
    ]
    return "; ".join(value or _NOT_SET for value in dict.fromkeys(values))


def _value(name: str, value: str) -> str:
    if name in _OF_BROKER and value.isdecimal():
        return f"{count_text(int(value))} bytes/s"
    return value or "none"


def _title(resource: Resource) -> str:
    return f"throttle of {_name(resource)}"


def _name(resource: Resource) -> str:
    return f"{'broker' if resource[0] == BROKER else 'topic'} {resource[1]}"
