"""What the monitor's JSON says that is not what Apache Kafka's tools say of the same cluster at rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from tests.compat.monitor import kafka_tools
from tests.compat.monitor.cluster import GROUPS, Watched
from tests.monitor.test_serve import Browser
from tests.waiting import wait_until

Differences = Iterator[str]
_LARGEST = 1000


def agree(what: str, differences: Callable[[], Differences]) -> None:
    """Wait until nothing differs: log directories and settings are asked for every fourth tick only."""
    newest: list[str] = []

    def is_equal() -> bool:
        newest[:] = differences()
        return not newest

    try:
        wait_until(is_equal, what, 120)
    except TimeoutError:
        raise AssertionError(f"{what}: {len(newest)} differ: {'; '.join(newest[:5])}") from None


def rows(pages: Browser, table: str, **query: object) -> list[dict[str, Any]]:
    asked = "&".join(f"{name}={quote(str(value))}" for name, value in {"rows": _LARGEST, **query}.items())
    found: list[dict[str, Any]] = pages.json(f"/api/v1/{table}?{asked}")["rows"]
    return found


def _has(theirs: Mapping[Any, Any] | list[Any], *wanted: object) -> None:
    """What is read from a tool must hold what the cluster was filled with: else nothing is compared."""
    lacking = [each for each in wanted if each not in theirs]
    assert not lacking, f"the tool does not tell of {lacking}"


def _differing(name: str, theirs: Mapping[Any, Any], ours: Mapping[Any, Any]) -> Differences:
    for key in sorted(theirs.keys() | ours.keys(), key=str):
        if theirs.get(key) != ours.get(key):
            yield f"{name} {key}: the tool says {theirs.get(key)}, the monitor {ours.get(key)}"


def check_topics(cluster: Watched) -> None:
    """kafka-topics --describe."""
    topics, partitions = kafka_tools.describe_topics(cluster.bootstrap)
    their_topics = {
        row["Topic"]: (row["TopicId"], int(row["PartitionCount"]), int(row["ReplicationFactor"])) for row in topics
    }
    their_partitions = {
        (row["Topic"], int(row["Partition"])): (row["Leader"], _ids(row["Replicas"]), sorted(_ids(row["Isr"])))
        for row in partitions
    }
    _has(their_topics, "orders", "empty")
    _has(their_partitions, *(("orders", number) for number in range(3)))

    def differences() -> Differences:
        ours = {r["topic"]: (r["topic_id"], r["partitions"], r["replication"]) for r in rows(cluster.pages, "topics")}
        yield from _differing("topic", their_topics, ours)
        our_partitions = {
            (name, row["partition"]): (str(row["leader"]), row["replicas"].split(), sorted(row["isr"].split()))
            for name in their_topics
            if name in ours
            for row in rows(cluster.pages, "topic/partitions", name=name)
        }
        yield from _differing("partition", their_partitions, our_partitions)

    agree("kafka-topics --describe", differences)


def _ids(text: str) -> list[str]:
    return [each for each in text.strip().split(",") if each]


def check_groups(cluster: Watched) -> None:
    """kafka-consumer-groups --describe --all-groups, with --state and --members."""
    lags = kafka_tools.describe_groups(cluster.bootstrap)
    states = kafka_tools.describe_group_states(cluster.bootstrap)
    members = kafka_tools.describe_groups(cluster.bootstrap, "--members")
    their_lags = {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): (
            _number(row["CURRENT-OFFSET"]),
            _number(row["LOG-END-OFFSET"]),
            _number(row["LAG"]),
            row["CONSUMER-ID"].strip("-"),
            row["CLIENT-ID"].strip("-"),
            row["HOST"].lstrip("-/"),
        )
        for row in lags
    }
    their_states = {name: (one.state, one.members, one.coordinator, one.assignor) for name, one in states.items()}
    their_members = {
        (row["GROUP"], row["CONSUMER-ID"]): (row["CLIENT-ID"], row["HOST"].lstrip("/"), int(row["#PARTITIONS"]))
        for row in members
    }
    _has(their_lags, *((name, "orders", 0) for name in GROUPS))
    _has(their_states, *GROUPS)
    _has([name for name, _ in their_members], "busy")

    def differences() -> Differences:
        groups = {row["group"]: row for row in rows(cluster.pages, "groups")}
        ours = {n: (r["state"], r["members"], r["coordinator"], r["protocol"]) for n, r in groups.items()}
        yield from _differing("group", their_states, ours)
        our_lags = {
            (name, row["topic"], row["partition"]): tuple(
                row[key] for key in ("committed", "end", "lag", "member_id", "client_id", "host")
            )
            for name in groups
            for row in rows(cluster.pages, "group/partitions", name=name)
        }
        yield from _differing("lag", their_lags, our_lags)
        our_members = {
            (name, row["member_id"]): (row["client_id"], row["host"], row["partitions"])
            for name in groups
            for row in rows(cluster.pages, "group/members", name=name)
        }
        yield from _differing("member", their_members, our_members)

    agree("kafka-consumer-groups --describe --all-groups", differences)


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def check_log_dirs(cluster: Watched) -> None:
    """kafka-log-dirs --describe."""
    found = kafka_tools.describe_log_dirs(cluster.bootstrap)["brokers"]
    replicas = {
        (broker["broker"], replica["partition"]): replica["size"]
        for broker in found
        for directory in broker["logDirs"]
        for replica in directory["partitions"]
    }
    paths = {broker["broker"]: sorted(directory["logDir"] for directory in broker["logDirs"]) for broker in found}
    _has([partition for _, partition in replicas], "orders-0", "orders-1", "orders-2")
    sizes = {node: sum(size for (broker, _), size in replicas.items() if broker == node) for node in paths}

    def differences() -> Differences:
        brokers = {row["broker"]: row for row in rows(cluster.pages, "brokers")}
        yield from _differing("size of broker", sizes, {node: row["size"] for node, row in brokers.items()})
        ours = {
            node: sorted(row["path"] for row in rows(cluster.pages, "broker/directories", id=node)) for node in brokers
        }
        yield from _differing("log directories of broker", paths, ours)
        leaders = {
            f"{row['topic']}-{each['partition']}": (each["leader"], each["size"])
            for row in rows(cluster.pages, "topics")
            for each in rows(cluster.pages, "topic/partitions", name=row["topic"])
        }
        theirs = {name: (leader, replicas.get((leader, name))) for name, (leader, _) in leaders.items()}
        yield from _differing("size of the leader of", theirs, leaders)

    agree("kafka-log-dirs --describe", differences)


def check_configs(cluster: Watched) -> None:
    """kafka-configs --describe --all of a topic and of each broker."""
    nodes = [str(row["broker"]) for row in rows(cluster.pages, "brokers")]
    assert nodes, "the monitor shows no broker"
    theirs = {("topic", "orders"): kafka_tools.describe_configs(cluster.bootstrap, "topics", "orders")}
    theirs |= {("broker", node): kafka_tools.describe_configs(cluster.bootstrap, "brokers", node) for node in nodes}

    for settings in theirs.values():
        _has(settings, "min.insync.replicas")

    def differences() -> Differences:
        for (kind, name), settings in theirs.items():
            query = {"name": name} if kind == "topic" else {"id": name}
            ours = {row["setting"]: row for row in rows(cluster.pages, f"{kind}/config", **query)}
            shown = {key: row["value"] for key, row in ours.items() if row["value"] != "(secret)"}
            # The tool prints `null` where the broker has no value.
            said = {key: "–" if each.value == "null" else each.value for key, each in settings.items()}
            yield from _differing(f"setting of {kind} {name}", said, shown)
            sources = {key: each.source for key, each in settings.items() if each.source}
            yield from _differing(
                f"source of {kind} {name}", sources, {key: ours[key]["source"] for key in sources if key in ours}
            )

    agree("kafka-configs --describe --all", differences)
