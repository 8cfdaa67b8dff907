"""Topics: made, told of, deleted; the cluster; what a plain listener makes of SASL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker.handlers.harness import versions
from tests.compat.apache_kafka.answers.script import NO_SUCH_ID, THEN, Fields, Script, id_of, wait_for


def new_topic(
    name: str, partitions: int = 2, replicas: int = 1, assignments: Sequence[Fields] = (), **config: Any
) -> Fields:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": assignments,
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in config.items()],
    }


def at(index: int, *brokers: int) -> Fields:
    return {"partition_index": index, "broker_ids": brokers}


def _takes_topics(script: Script) -> bool:
    """Kafka listens before it has told its controller that it is there."""
    answer = script.quietly("create_topics", 5, topics=[new_topic("first")], timeout=30_000)
    return answer.topics[0].error_code in (ErrorCode.none, ErrorCode.topic_already_exists)


def creating(script: Script) -> None:
    script.note("CreateTopics")
    script.until(lambda: _takes_topics(script))
    fresh: list[str] = []
    for version in versions("create_topics"):
        name = f"new-{version}"
        fresh.append(name)
        script.ask(
            "create_topics", version, "a new one", topics=[new_topic(name, 2, retention_ms="5000")], timeout=30_000
        )
    defaults = new_topic("all-defaults", -1, -1)
    script.ask("create_topics", 7, "all defaults", topics=[defaults], timeout=30_000)
    plain = ("t", "u", "compacted", "small", "append-time", "bounded", "gone")
    configs: dict[str, Fields] = {
        "compacted": {"cleanup_policy": "compact"},
        "small": {"max_message_bytes": "300"},
        "append-time": {"message_timestamp_type": "LogAppendTime"},
        "bounded": {"message_timestamp_after_max_ms": "1000", "message_timestamp_before_max_ms": "1000"},
    }
    # Records are of 2023, and a broker first looks for old ones 30 s after its start: a slow host is not done then.
    topics = [new_topic(name, 2, retention_ms="-1", **configs.get(name, {})) for name in plain]
    script.quietly("create_topics", 5, topics=topics, timeout=30_000)
    wait_for(script, "all-defaults", *plain, *fresh)
    script.each("create_topics", "one that is there", topics=[new_topic("t")], timeout=30_000)

    def one(told: str, *topics: Fields, timeout: int = 30_000, validate_only: bool = False) -> None:
        script.ask("create_topics", 7, told, topics=topics, timeout=timeout, validate_only=validate_only)

    for name in ("", ".", "..", "x" * 250, "a b", "ü", "x" * 249):
        one(f"name {name[:3]!r} of {len(name)}", new_topic(name), validate_only=True)
    one("the name of Kafka's metadata", new_topic("__cluster_metadata"), validate_only=True)
    one("names that collide", new_topic("all.defaults"), new_topic("all_defaults"))
    one("the same twice", new_topic("twice"), new_topic("twice"), new_topic("once-4"))
    one("nothing")
    for partitions in (0, -2, 10_001):
        one(f"{partitions} partitions", new_topic("bad", partitions), validate_only=True)
    for replicas in (0, -2, 2):
        one(f"{replicas} replicas", new_topic("bad", 1, replicas), validate_only=True)
    assignments: Mapping[str, Sequence[Fields]] = {
        "good": (at(0, 0), at(1, 0)),
        "not from 0": (at(1, 0),),
        "a gap": (at(0, 0), at(2, 0)),
        "negative": (at(-1, 0), at(0, 0)),
        "the same partition twice": (at(0, 0), at(0, 0)),
        "the same broker twice": (at(0, 0, 0),),
        "no broker": (at(0),),
        "unknown broker": (at(0, 7),),
        "uneven": (at(0, 0), at(1, 0, 7)),
    }
    for told, assignment in assignments.items():
        one(f"assigned: {told}", new_topic("bad", -1, -1, assignment), validate_only=True)
    one("assigned with counts", new_topic("bad", 1, 1, (at(0, 0),)), validate_only=True)
    one("assigned with a count of replicas", new_topic("bad", -1, 1, (at(0, 0),)), validate_only=True)
    for name, value in (
        ("no.such", "1"),
        ("retention.ms", "abc"),
        ("retention.ms", ""),
        ("retention.ms", None),
        ("retention.ms", " 7 "),
        ("retention.ms", "-2"),
        ("retention.bytes", "1.5"),
        ("cleanup.policy", "nope"),
        ("cleanup.policy", "compact, delete"),
        ("cleanup.policy", ""),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "3"),
        ("compression.type", "lz5"),
        ("compression.gzip.level", "99"),
        ("segment.bytes", "1"),
        ("max.message.bytes", "-1"),
        ("message.timestamp.type", "Nope"),
        ("unclean.leader.election.enable", "maybe"),
        ("unclean.leader.election.enable", "TRUE"),
        ("leader.replication.throttled.replicas", "xx"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:0,1:0"),
        ("remote.storage.enable", "true"),
        ("remote.storage.enable", "false"),
        ("local.retention.ms", "5"),
        ("message.format.version", "3.0"),
        ("message.downconversion.enable", "false"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("max.compaction.lag.ms", "0"),
        ("min.compaction.lag.ms", "-1"),
        ("preallocate", "true"),
        ("flush.messages", "0"),
    ):
        topic = new_topic("bad", 1) | {"configs": [{"name": name, "value": value}]}
        one(f"{name}={value!r}", topic, validate_only=True)
    both = [{"name": "retention.ms", "value": value} for value in ("1", "2")]
    one("a setting twice", new_topic("bad") | {"configs": both}, validate_only=True)
    one(
        "lags that contradict",
        new_topic("bad", max_compaction_lag_ms="5", min_compaction_lag_ms="9"),
        validate_only=True,
    )
    one("one that is there, only to validate", new_topic("t"), validate_only=True)
    one("an internal one", new_topic("__consumer_offsets"), validate_only=True)


def telling(script: Script) -> None:
    script.note("Metadata, DescribeCluster, ApiVersions, SASL on a plain listener")
    flags = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    for told, names in (
        ("of t", ["t"]),
        ("of t, twice", ["t", "t"]),
        ("of a bad name", ["a b"]),
        ("of ''", [""]),
    ):
        script.each("metadata", told, topics=[{"name": name} for name in names], **flags)
    script.each("metadata", "of nowhere", since=4, topics=[{"name": "nowhere"}], **flags)
    script.each("metadata", "of none", since=1, topics=[], **flags)
    for version in (1, 9, 12):
        answer = script.quietly("metadata", version, topics=None, **flags)
        found = sorted(topic.name for topic in answer.topics)
        script.lines.append(f"metadata v{version} of all{THEN}{' '.join(found)}")
    answer = script.quietly("metadata", 0, topics=[], **flags)
    script.lines.append(f"metadata v0 of []{THEN}{' '.join(sorted(topic.name for topic in answer.topics))}")
    for version in (10, 11, 12):
        script.ask("metadata", version, "by id", topics=[{"name": None, "topic_id": id_of(script, "t")}], **flags)
        script.ask("metadata", version, "by no id", topics=[{"name": None, "topic_id": NO_SUCH_ID}], **flags)
        script.ask("metadata", version, "neither", topics=[{"name": None}], **flags)
        both = {"name": "t", "topic_id": NO_SUCH_ID}
        script.ask("metadata", version, "both", topics=[both], **flags)
    script.ask("metadata", 12, "made when asked for", topics=[{"name": "auto"}], allow_auto_topic_creation=True)
    wait_for(script, "auto")
    script.ask("metadata", 12, "made when asked for, bad", topics=[{"name": "a b"}], allow_auto_topic_creation=True)
    for endpoint_type in (0, 1, 2, 3):
        for version in (0, 1):
            told = f"endpoints {endpoint_type}"
            fields = {"include_cluster_authorized_operations": True, "endpoint_type": endpoint_type}
            if endpoint_type == 1 or version:
                script.ask("describe_cluster", version, told, **fields)
    for software in ("", "-", "a b", "librdkafka"):
        answer = script.quietly("api_versions", 3, client_software_name=software, client_software_version="1")
        script.lines.append(f"api_versions v3 of {software!r}{THEN}{answer.error_code.name}")
    script.each("sasl_handshake", "on a plain listener", mechanism="PLAIN")
    script.each("sasl_authenticate", "on a plain listener", auth_bytes=b"x")


def deleting(script: Script) -> None:
    script.note("DeleteTopics")

    def delete(told: str, *topics: Fields, version: int = 6) -> None:
        fields = {"topics": topics, "topic_names": [topic["name"] for topic in topics], "timeout": 30_000}
        script.ask("delete_topics", version, told, **fields)

    for version in versions("delete_topics"):
        delete("one", {"name": f"new-{version}", "topic_id": None}, version=version)
        delete("one again", {"name": f"new-{version}", "topic_id": None}, version=version)
        delete("bad name", {"name": "a b", "topic_id": None}, version=version)
    delete("by id", {"name": None, "topic_id": id_of(script, "auto")})
    delete("by no id", {"name": None, "topic_id": NO_SUCH_ID})
    delete("both", {"name": "t", "topic_id": id_of(script, "u")})
    delete("neither", {"name": None, "topic_id": None})
    delete("the same twice", {"name": "u", "topic_id": None}, {"name": "u", "topic_id": None})
    # Kafka's controller finds the name of an id until it has come to the deletion, after the answer.
    gone = [{"name": None, "topic_id": id_of(script, "u")}]

    def is_forgotten() -> bool:
        (found,) = script.quietly("delete_topics", 6, topics=gone, topic_names=[], timeout=30_000).responses
        return found.error_code is ErrorCode.unknown_topic_id

    script.until(is_forgotten)
    delete("by name and by id", {"name": "u", "topic_id": None}, {"name": None, "topic_id": id_of(script, "u")})
    delete("''", {"name": "", "topic_id": None})
    delete("nothing")
