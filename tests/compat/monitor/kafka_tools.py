"""What Apache Kafka's tools print of a cluster, as values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.compat.apache_kafka.case import succeed

_TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"
_CONFIGS: Final = "kafka.admin.ConfigCommand"
_STATE: Final = re.compile(r"^(\S+)\s+\S+\s+\((-?\d+)\)\s+(?:(\S+)\s+)?([A-Z]\w+)\s+(\d+)\s*$")
_SETTING: Final = re.compile(r"^\s+(\S+?)=(.*) sensitive=(true|false) synonyms=\{(.*)\}$")

Rows = list[dict[str, str]]


class Setting(NamedTuple):
    """`source`: that of the value in force; empty if the tool names none."""

    value: str
    source: str


def describe_topics(bootstrap: str) -> tuple[Rows, Rows]:
    """kafka-topics --describe: one row for each topic, and one for each partition."""
    text = succeed(_TOPICS, "--bootstrap-server", bootstrap, "--describe")
    rows = [dict(re.findall(r"(\w+): ?([^\t]*)", line)) for line in text.splitlines() if "Topic: " in line]
    return [row for row in rows if "PartitionCount" in row], [row for row in rows if "Partition" in row]


def describe_groups(bootstrap: str, *options: str) -> Rows:
    """kafka-consumer-groups --describe --all-groups: rows by the titles of their columns."""
    found: Rows = []
    titles: Sequence[str] = ()
    for line in _groups(bootstrap, *options).splitlines():
        words = line.split()
        if words[:1] == ["GROUP"]:
            titles = words
        elif titles and len(words) == len(titles):
            found.append(dict(zip(titles, words, strict=True)))
    return found


class GroupState(NamedTuple):
    coordinator: int
    assignor: str
    state: str
    members: int


def describe_group_states(bootstrap: str) -> Mapping[str, GroupState]:
    """kafka-consumer-groups --describe --all-groups --state."""
    found = {}
    for line in _groups(bootstrap, "--state").splitlines():
        match = _STATE.match(line)
        if match:
            name, coordinator, assignor, state, members = match.groups()
            found[name] = GroupState(int(coordinator), (assignor or "").strip("-"), state, int(members))
    return found


def _groups(bootstrap: str, *options: str) -> str:
    return succeed(_GROUPS, "--bootstrap-server", bootstrap, "--describe", "--all-groups", *options)


def describe_log_dirs(bootstrap: str) -> Any:
    """kafka-log-dirs --describe: its JSON."""
    text = succeed(_LOG_DIRS, "--bootstrap-server", bootstrap, "--describe")
    return json.loads(next(line for line in text.splitlines() if line.startswith("{")))


def describe_configs(bootstrap: str, kind: str, name: str) -> Mapping[str, Setting]:
    """kafka-configs --describe --all, without what is sensitive."""
    text = succeed(
        _CONFIGS, "--bootstrap-server", bootstrap, "--describe", "--all", "--entity-type", kind, "--entity-name", name
    )
    found = {}
    for line in text.splitlines():
        match = _SETTING.match(line)
        if match and match[3] == "false":
            found[match[1]] = Setting(match[2], match[4].partition(":")[0])
    return found
