"""What Kafka's znodes mean, in words: of a path what it is for, and of its data what it says. Pure.

Paths are those of kafka.zk.ZkData 3.9. Data that are not what Kafka writes give no sentence and no error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

from highwater.common.units import count_text, plural
from highwater.monitor.zookeeper.changes import changed_entity

_MOST_NAMED: Final = 10
Sentences = list[str]
_Match = re.Match[str]


@dataclass(frozen=True, slots=True)
class Meaning:
    title: str
    """What the znode is, such as `registration of broker 1`."""
    purpose: str = ""
    """What it is for, in a sentence."""
    sentences: tuple[str, ...] = ()
    """What its data say."""


@dataclass(frozen=True, slots=True)
class _Known:
    pattern: re.Pattern[str]
    title: str
    """A format with the groups of the pattern."""
    purpose: str = ""
    decode: Callable[[Any, _Match], Sentences] | None = None


def title(path: str) -> str:
    """Empty for a path that is not Kafka's."""
    found = _find(path)
    return "" if found is None else _title(*found)


def meaning(path: str, data: bytes) -> Meaning | None:
    """Return the meaning of data whose secrets are hidden; None for a path that is not Kafka's."""
    found = _find(path)
    if found is None:
        return None
    known, match = found
    sentences: Sentences = []
    if known.decode is not None and data:
        try:
            sentences = known.decode(json.loads(data), match)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, OSError):
            sentences = ["The data are not what Kafka writes here."]
    return Meaning(_title(known, match), known.purpose, tuple(sentences))


def _find(path: str) -> tuple[_Known, _Match] | None:
    for known in _TABLE:
        if match := known.pattern.fullmatch(path):
            return known, match
    return None


def _title(known: _Known, match: _Match) -> str:
    return known.title.format(**{key: unquote(value) for key, value in match.groupdict().items()})


# -- What data say -----------------------------------------------------------------------------------------------------


def _time(ms: object) -> str:
    return f"{datetime.fromtimestamp(int(str(ms)) / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _ids(values: Sequence[object]) -> str:
    return ",".join(str(int(str(each))) for each in values) or "none"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return "; ".join(names[:_MOST_NAMED]) + (f" and {count_text(more)} more" if more > 0 else "")


def _cluster_id(value: Any, _: _Match) -> Sentences:
    return [f"The cluster id is {value['id']}."]


def _controller(value: Any, _: _Match) -> Sentences:
    found = [f"Broker {int(value['brokerid'])} has been the controller since {_time(value['timestamp'])}."]
    if int(value.get("kraftControllerEpoch", -1)) >= 0:
        found.append(f"A migration to KRaft is under way: the quorum's epoch is {int(value['kraftControllerEpoch'])}.")
    return found


def _epoch(value: Any, _: _Match) -> Sentences:
    return [f"The controller of term {int(value)} was elected; requests of earlier controllers are refused."]


def _broker(value: Any, _: _Match) -> Sentences:
    protocols = value.get("listener_security_protocol_map", {})
    listeners = [
        f"{each} ({protocols.get(str(each).partition('://')[0], 'protocol not known')})" for each in value["endpoints"]
    ]
    found = [f"It registered at {_time(value['timestamp'])} and listens at {', '.join(listeners)}."]
    if value.get("rack"):
        found.append(f"Its rack is {value['rack']}.")
    if int(value.get("jmx_port", -1)) > 0:
        found.append(f"Its JMX port is {int(value['jmx_port'])}.")
    return found


def _topic(value: Any, _: _Match) -> Sentences:
    partitions: Mapping[str, Sequence[int]] = value["partitions"]
    factors = sorted({len(replicas) for replicas in partitions.values()})
    factor = (
        f"replication factor {' to '.join(map(str, dict.fromkeys((factors[0], factors[-1]))))}"
        if factors
        else "no replica"
    )
    found = [
        f"{plural(len(partitions), 'partition')}, {factor}. The first replica of each one is its preferred leader."
    ]
    if value.get("topic_id"):
        found.append(f"The topic id is {value['topic_id']}.")
    ordered = sorted(partitions.items(), key=lambda each: int(each[0]))
    listed = [f"{number} on {_ids(replicas)}" for number, replicas in ordered]
    found.append(f"Partitions and their brokers: {_named(listed)}.")
    for key, verb in (("adding_replicas", "gets"), ("removing_replicas", "loses")):
        moving = [f"{number} {verb} {_ids(brokers)}" for number, brokers in sorted(value.get(key, {}).items())]
        if moving:
            found.append(f"A reassignment is under way: partition {_named(moving)}.")
    return found


def _state(value: Any, _: _Match) -> Sentences:
    leader = int(value["leader"])
    leads = f"Broker {leader} leads" if leader >= 0 else "No broker leads"
    found = [
        f"{leads}, with leader epoch {int(value['leader_epoch'])}. In sync: {_ids(value['isr'])}.",
        f"The controller of epoch {int(value['controller_epoch'])} wrote this.",
    ]
    if int(value.get("leader_recovery_state", 0)) == 1:
        found.append("The leader was elected uncleanly and recovers: records may be lost.")
    return found


def _moves(value: Any, _: _Match) -> Sentences:
    listed = [f"{each['topic']}-{int(each['partition'])} to {_ids(each['replicas'])}" for each in value["partitions"]]
    return [f"{plural(len(listed), 'partition')} to be moved: {_named(listed)}."]


def _partitions(value: Any, _: _Match) -> Sentences:
    listed = [f"{each['topic']}-{int(each['partition'])}" for each in value["partitions"]]
    return [f"{plural(len(listed), 'partition')}: {_named(listed)}."]


def _config(value: Any, _: _Match) -> Sentences:
    config: Mapping[str, str] = value["config"]
    if not config:
        return ["Nothing is set: every setting has its default."]
    return [f"{plural(len(config), 'setting')}: {_named([f'{key} = {text}' for key, text in sorted(config.items())])}."]


def _change(value: Any, _: _Match) -> Sentences:
    entity = changed_entity(json.dumps(value).encode())
    return [f"The settings of {unquote(entity)} were changed; every broker reads them again."] if entity else []


def _block(value: Any, _: _Match) -> Sentences:
    first, last = int(value["block_start"]), int(value["block_end"])
    return [f"Broker {int(value['broker'])} has the newest block: {count_text(first)} to {count_text(last)}."]


def _feature(value: Any, _: _Match) -> Sentences:
    status = {0: "disabled", 1: "enabled"}.get(int(value["status"]), f"in status {int(value['status'])}")
    features = [f"{name} {text}" for name, text in sorted(value.get("features", {}).items())]
    return [f"Feature versioning is {status}; finalised features: {_named(features) or 'none'}."]


def _levels(value: Any, _: _Match) -> Sentences:
    levels = [f"{name} {int(level)}" for name, level in sorted(value["levels"].items())]
    return [f"Finalised levels, in epoch {int(value['epoch'])}: {_named(levels) or 'none'}."]


def _log_dir(value: Any, _: _Match) -> Sentences:
    return [f"A log directory of broker {int(value['broker'])} failed."]


def _acls(value: Any, _: _Match) -> Sentences:
    listed = [
        f"{str(each['permissionType']).lower()} {each['principal']} from {each.get('host', '*')} to {each['operation']}"
        for each in value["acls"]
    ]
    return [f"{plural(len(listed), 'rule')}: {_named(listed)}."]


def _acl_change(value: Any, _: _Match) -> Sentences:
    return [
        f"The rules of {value['resourceType']} {value['name']} ({value.get('patternType', 'LITERAL')}) were changed."
    ]


def _migration(value: Any, _: _Match) -> Sentences:
    controller, epoch = int(value["kraft_controller_id"]), int(value["kraft_controller_epoch"])
    copied = int(value["kraft_metadata_offset"])
    return [f"Controller {controller} of the quorum, epoch {epoch}, has copied up to offset {copied}."]


# -- Paths -------------------------------------------------------------------------------------------------------------

_TOPIC: Final = "/brokers/topics/(?P<topic>[^/]+)"
_CONFIG_KINDS: Final = "topics|brokers|clients|users|ips|client-metrics|groups"
_NOTIFIED: Final = "Each child is a notification; the controller or the brokers remove it when it was seen."


def _known(
    pattern: str, title: str, purpose: str = "", decode: Callable[[Any, _Match], Sentences] | None = None
) -> _Known:
    return _Known(re.compile(pattern, re.DOTALL), title, purpose, decode)


_TABLE: Final = (
    _known("/", "root of the cluster", "All of the cluster's metadata are below it."),
    _known("/admin", "work for the controller"),
    _known("/admin/delete_topics", "topics to be deleted", "Each child is a topic whose replicas are being removed."),
    _known("/admin/delete_topics/(?P<topic>[^/]+)", "topic {topic} is to be deleted"),
    _known(
        "/admin/reassign_partitions",
        "reassignment of partitions",
        "It exists while old tools move partitions.",
        _moves,
    ),
    _known(
        "/admin/preferred_replica_election",
        "request for preferred leaders",
        "The controller elects them and removes the znode.",
        _partitions,
    ),
    _known("/brokers", "brokers and topics"),
    _known(
        "/brokers/ids",
        "registered brokers",
        "Each child is a broker that is alive: it vanishes with the broker's session.",
    ),
    _known("/brokers/ids/(?P<id>[^/]+)", "registration of broker {id}", "", _broker),
    _known(
        "/brokers/seqid", "source of broker ids", "Its version numbers brokers that have no broker.id of their own."
    ),
    _known("/brokers/topics", "topics", "Each child is a topic."),
    _known(_TOPIC, "replicas of topic {topic}", "", _topic),
    _known(f"{_TOPIC}/partitions", "partitions of topic {topic}"),
    _known(f"{_TOPIC}/partitions/(?P<partition>[0-9]+)", "partition {topic}-{partition}"),
    _known(
        f"{_TOPIC}/partitions/(?P<partition>[0-9]+)/state",
        "state of partition {topic}-{partition}",
        "Leader and in-sync replicas. The version of the znode is the partition epoch.",
        _state,
    ),
    _known("/cluster", "the cluster itself"),
    _known("/cluster/id", "cluster id", "", _cluster_id),
    _known("/config", "settings that are changed while brokers run"),
    _known(
        "/config/changes",
        "notifications of changed settings",
        "Brokers read them; the controller removes those older than 15 minutes.",
    ),
    _known("/config/changes/(?P<name>[^/]+)", "notification of changed settings", "", _change),
    _known(
        "/config/users/(?P<user>[^/]+)",
        "quotas and SCRAM credentials of user {user}",
        "Credentials are never shown.",
        _config,
    ),
    _known("/config/users/(?P<user>[^/]+)/clients", "quotas of user {user} by client"),
    _known(
        "/config/users/(?P<user>[^/]+)/clients/(?P<client>[^/]+)",
        "quotas of user {user} with client {client}",
        "",
        _config,
    ),
    _known(
        "/config/(?P<kind>topics|brokers)/(?P<name>[^/]+)",
        "settings of {kind}: {name}",
        "Secrets in them are never shown.",
        _config,
    ),
    _known("/config/(?P<kind>clients|ips)/(?P<name>[^/]+)", "quotas of {kind}: {name}", "", _config),
    _known(
        f"/config/(?P<kind>{_CONFIG_KINDS})",
        "settings of {kind}",
        "Each child has settings of its own; <default> is for all others.",
    ),
    _known(f"/config/(?P<kind>{_CONFIG_KINDS})/(?P<name>[^/]+)", "settings of {kind}: {name}", "", _config),
    _known(
        "/consumers",
        "old consumers",
        "Groups of clients before Kafka 0.9 kept their offsets here; today they are in __consumer_offsets.",
    ),
    _known("/consumers/(?P<group>[^/]+)(?:/.*)?", "old consumer, group {group}"),
    _known(
        "/controller",
        "the controller",
        "The broker that creates this znode is the controller until its session ends.",
        _controller,
    ),
    _known("/controller_epoch", "term of the controller", "", _epoch),
    _known("/delegation_token", "delegation tokens", "Their data are never shown."),
    _known("/delegation_token/tokens", "delegation tokens", "Their names and data are never shown."),
    _known("/delegation_token/.+", "delegation token", "Its data are never shown."),
    _known("/feature", "features of the cluster", "", _feature),
    _known("/highwater", "what brokers of Highwater keep beside Kafka's znodes"),
    _known("/highwater/features", "features that brokers of Highwater have finalised", "", _levels),
    _known("/isr_change_notification", "notifications of changed in-sync replicas", _NOTIFIED),
    _known("/isr_change_notification/(?P<name>[^/]+)", "in-sync replicas were changed", "", _partitions),
    _known("/kafka-acl", "rules of access (ACLs)", "By type of resource."),
    _known("/kafka-acl/(?P<kind>[^/]+)", "rules of access to each {kind}"),
    _known("/kafka-acl/(?P<kind>[^/]+)/(?P<name>[^/]+)", "rules of access to {kind} {name}", "", _acls),
    _known("/kafka-acl-extended", "rules of access by prefix"),
    _known("/kafka-acl-extended/(?P<pattern>[^/]+)", "rules of access by {pattern} name"),
    _known("/kafka-acl-extended/(?P<pattern>[^/]+)/(?P<kind>[^/]+)", "rules of access to each {kind}, {pattern}"),
    _known(
        "/kafka-acl-extended/(?P<pattern>[^/]+)/(?P<kind>[^/]+)/(?P<name>[^/]+)",
        "rules of access to {kind} {name}, {pattern}",
        "",
        _acls,
    ),
    _known("/kafka-acl(?:-extended)?-changes", "notifications of changed rules of access", _NOTIFIED),
    _known("/kafka-acl-changes/(?P<name>[^/]+)", "rules of access were changed"),
    _known("/kafka-acl-extended-changes/(?P<name>[^/]+)", "rules of access were changed", "", _acl_change),
    _known(
        "/latest_producer_id_block",
        "block of producer ids",
        "Brokers take ids for producers from here, 1,000 at a time.",
        _block,
    ),
    _known("/log_dir_event_notification", "notifications of failed log directories", _NOTIFIED),
    _known("/log_dir_event_notification/(?P<name>[^/]+)", "a log directory failed", "", _log_dir),
    _known(
        "/migration", "migration to KRaft", "How far the quorum of controllers has copied the metadata.", _migration
    ),
    _known("/zookeeper(?:/.*)?", "ZooKeeper's own", "Quotas and configuration of ZooKeeper itself."),
)
