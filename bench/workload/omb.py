"""Translates workload and driver files of OpenMessaging Benchmark (OMB) into a workload file.

Every key is either translated, or named in a note: a key that is dropped silently would change the measurement without
a trace. A key that OMB does not have is an error (OMB itself ignores a misspelt one). OMB's keys: `Workload.java` and
the Kafka driver's `Config.java` of openmessaging/benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from highwater.bench.workload.client_properties import PropertyError, Role, is_of_a_connection, to_librdkafka
from highwater.bench.workload.yaml_document import read_document
from highwater.common import quantities
from highwater.common.errors import UsageError
from highwater.common.java_properties import MalformedEscape, parse_properties
from highwater.common.nearest import nearest

_WORKLOAD_KEYS: Final = (
    "name", "topics", "partitionsPerTopic", "keyDistributor", "messageSize", "useRandomizedPayloads",
    "randomBytesRatio", "randomizedPayloadPoolSize", "payloadFile", "subscriptionsPerTopic", "producersPerTopic",
    "consumerPerSubscription", "producerRate", "consumerBacklogSizeGB", "backlogDrainRatio", "testDurationMinutes",
    "warmupDurationMinutes",
)  # fmt: skip
_DRIVER_KEYS: Final = (
    "name", "driverClass", "reset", "replicationFactor", "topicConfig", "commonConfig", "producerConfig",
    "consumerConfig",
)  # fmt: skip
_KAFKA_DRIVER: Final = "io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver"
# OMB draws its keys from this many (`KeyDistributor.UNIQUE_COUNT`).
_OMB_KEYS: Final = 10_000
# One task serves many topics, where OMB creates a client for each; more tasks than this would be of no use.
TASKS_MAX: Final = 64
NAME_MAX: Final = 64
_STAMP_BYTES: Final = 24
# Properties of Java's client -> librdkafka's name.
_RENAMED: Final = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
}
_SET_BY_THE_RUN: Final = ("bootstrap.servers", "auto.offset.reset", "enable.auto.commit", "group.id")


@dataclass(slots=True)
class Translation:
    """A workload document, and notes about the differences from the original."""

    document: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def import_omb(workload_file: Path, driver_file: Path | None = None, *, own_broker: bool = False) -> Translation:
    """Translate a workload file and its Kafka driver file. Raises UsageError.

    With a driver file the system is the cluster that it names, unless `own_broker`.
    """
    workload = read_document(workload_file).data
    _check_keys(workload, _WORKLOAD_KEYS, workload_file)
    translation = Translation(_base(workload, workload_file))
    _records(workload, workload_file, translation)
    _load(workload, translation)
    _clients(workload, translation)
    if driver_file is not None:
        driver = read_document(driver_file).data
        _check_keys(driver, _DRIVER_KEYS, driver_file)
        _driver(driver, driver_file, translation, own_broker=own_broker)
    return translation


def as_text(translation: Translation, workload_file: Path) -> str:
    """The translation as a workload file, its notes as comments at the top."""
    import yaml

    head = [
        f"# Imported from OpenMessaging Benchmark's {workload_file.name}.",
        *(f"# - {n}" for n in translation.notes),
    ]
    return "\n".join(head) + "\n" + yaml.safe_dump(translation.document, sort_keys=False, allow_unicode=True, width=100)


def _check_keys(data: Mapping[str, Any], known: tuple[str, ...], file: Path) -> None:
    for key in data:
        if key not in known:
            near = nearest(str(key), known)
            hint = f'; did you mean "{near}"?' if near else f"; known are {', '.join(known)}"
            raise UsageError(f"{file}: {key}: OpenMessaging Benchmark has no such key{hint}")


def _number(data: Mapping[str, Any], key: str, file: Path, default: float | None = None) -> Any:
    value = data.get(key, default)
    if value is None:
        raise UsageError(f"{file}: {key} is missing")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{file}: {key}: {value!r} is not a number")
    return value


def _base(workload: Mapping[str, Any], file: Path) -> dict[str, Any]:
    measure_s = round(_number(workload, "testDurationMinutes", file) * 60)
    warmup_s = round(_number(workload, "warmupDurationMinutes", file, 1) * 60)
    return {
        "schema": "bench.workload/1",
        "name": f"omb-{file.stem}"[:NAME_MAX],
        "purpose": str(workload.get("name", file.stem)),
        "topics": {
            "count": _number(workload, "topics", file),
            "partitions": _number(workload, "partitionsPerTopic", file),
        },
        "producers": {"count": _number(workload, "producersPerTopic", file)},
        "consumers": {
            "groups": _number(workload, "subscriptionsPerTopic", file),
            "per_group": _number(workload, "consumerPerSubscription", file),
        },
        "records": {"size": quantities.format_size(_number(workload, "messageSize", file))},
        "load": {"rate": _number(workload, "producerRate", file)},
        "phases": {
            "warmup": quantities.format_duration_s(warmup_s),
            "measure": quantities.format_duration_s(measure_s),
        },
    }


def _records(workload: Mapping[str, Any], file: Path, translation: Translation) -> None:
    records = translation.document["records"]
    if workload["messageSize"] < _STAMP_BYTES:
        raise UsageError(
            f"{file}: messageSize: {workload['messageSize']} bytes are too few for the stamp of {_STAMP_BYTES} bytes "
            "by which loss and latency are measured; use a larger size"
        )
    if workload.get("useRandomizedPayloads"):
        records["compress_ratio"] = float(_number(workload, "randomBytesRatio", file, 0.0))
        translation.notes.append(
            "randomizedPayloadPoolSize: the pool here has 4 MiB of values, so that no batch has a value twice"
        )
    elif (name := workload.get("payloadFile")) is not None:
        found = next((path for path in _payload_places(file, str(name)) if path.is_file()), None)
        if found is not None:
            records["payload_file"] = str(found)
        else:
            records["compress_ratio"] = 1.0
            translation.notes.append(
                f"payloadFile {name} was not found near the workload file; values are generated, entirely random"
            )
    match workload.get("keyDistributor", "NO_KEY"):
        case "NO_KEY":
            pass
        case "KEY_ROUND_ROBIN":
            records["keys"] = {"round_robin": _OMB_KEYS}
        case "RANDOM_NANO":
            records["keys"] = {"random": {"n": _OMB_KEYS}}
        case other:
            raise UsageError(f"{file}: keyDistributor: {other!r} is not one of NO_KEY, KEY_ROUND_ROBIN, RANDOM_NANO")


def _payload_places(file: Path, name: str) -> list[Path]:
    """The paths to try: OMB is started in the folder above its `workloads/`, and paths are relative to that folder."""
    folder = file.absolute().parent
    return [folder / name, folder.parent / name, Path.cwd() / name]


def _load(workload: Mapping[str, Any], translation: Translation) -> None:
    rate = translation.document["load"]["rate"]
    if rate > 0:
        translation.document["load"] = {"rate": quantities.format_rate(round(rate))}
        return
    translation.document["load"] = {"model": "closed"}
    translation.notes.append(
        "producerRate 0: OMB looks for the highest rate; this file sends as fast as the client takes records, and "
        "`highwater bench search` finds the highest sustained rate"
    )


def _clients(workload: Mapping[str, Any], translation: Translation) -> None:
    document = translation.document
    topics, producers, consumers = document["topics"], document["producers"], document["consumers"]
    producers_in_all = topics["count"] * producers["count"]
    per_group_in_all = topics["count"] * consumers["per_group"]
    partitions_in_all = topics["count"] * topics["partitions"]
    groups = max(1, consumers["groups"])
    producers["count"] = min(producers_in_all, TASKS_MAX)
    consumers["per_group"] = min(per_group_in_all, partitions_in_all, max(1, TASKS_MAX // groups))
    if consumers["groups"] == 0 or per_group_in_all == 0:
        document["consumers"] = {"groups": 0}
    if producers["count"] < producers_in_all:
        translation.notes.append(
            f"OMB creates {producers_in_all} producers; here {producers['count']} tasks serve all topics"
        )
    if 0 < consumers["per_group"] < per_group_in_all:
        translation.notes.append(
            f"OMB creates {per_group_in_all} consumers of each subscription; here {consumers['per_group']} tasks read "
            "all"
        )
    backlog_gib = workload.get("consumerBacklogSizeGB", 0)
    if backlog_gib:
        consumers["start"] = {"after_backlog": f"{backlog_gib}GiB"}
        translation.notes.append(
            "OMB continues a test until the backlog is drained; here the measured phase keeps its length, and the "
            "report says when the consumers caught up"
        )
    if workload.get("backlogDrainRatio", 1.0) != 1.0:
        translation.notes.append("backlogDrainRatio is left out: the drain is measured to its end")


def _driver(driver: Mapping[str, Any], file: Path, translation: Translation, *, own_broker: bool) -> None:
    name = driver.get("driverClass")
    if name != _KAFKA_DRIVER:
        raise UsageError(f"{file}: driverClass: {name!r} is not the Kafka driver; only {_KAFKA_DRIVER} can be imported")
    document = translation.document
    document["name"] = f"{document['name']}--{file.stem}"[:NAME_MAX]
    replication = int(_number(driver, "replicationFactor", file, 1))
    document["topics"]["replication"] = replication
    if topic_config := _properties(driver, "topicConfig", file):
        document["topics"]["config"] = topic_config
    common = _properties(driver, "commonConfig", file)
    servers = common.get("bootstrap.servers")
    roles: tuple[tuple[Role, str, str], ...] = (
        ("producer", "producers", "producerConfig"),
        ("consumer", "consumers", "consumerConfig"),
    )
    of_connections: dict[str, None] = {}
    for role, section, key in roles:
        given = common | _properties(driver, key, file)
        for name in filter(is_of_a_connection, list(given)):
            of_connections[name] = None
            del given[name]
        if client := _client(role, given, translation, f"{key} of {file.name}"):
            document[section]["client"] = client
    if of_connections:
        translation.notes.append(
            f"{file.name}: {', '.join(of_connections)}: left out; properties of the connection are in a separate file, "
            "which no result contains: --command-config FILE"
        )
    if own_broker or not servers:
        document["system"] = {"kind": "highwater", "nodes": replication}
    else:
        document["system"] = {"kind": "external", "bootstrap_servers": servers}


def _properties(driver: Mapping[str, Any], key: str, file: Path) -> dict[str, str]:
    """Parse a text of java.util.Properties, as OMB does. Raises UsageError without the line, which may be a secret."""
    try:
        parsed = parse_properties(str(driver.get(key) or ""))
    except MalformedEscape as error:
        raise UsageError(f"{file}: {key}: {error}; write each backslash of a value twice") from None
    for item in parsed:
        if item.is_bare:
            raise UsageError(f"{file}: {key}: line {item.line} of its value is not of the form name=value")
    return {item.name: item.value.strip() for item in parsed}


def _client(role: Role, given: Mapping[str, str], translation: Translation, where: str) -> dict[str, str]:
    """Returns the properties that librdkafka has, by its names; notes name the others."""
    kept: dict[str, str] = {}
    for name, value in given.items():
        if name in _SET_BY_THE_RUN:
            continue
        new_name, new_value = _RENAMED.get(name, name), value
        if name == "buffer.memory":
            new_value = str(max(1, int(value) // 1024))
        if new_name == "batch.size":
            new_value = quantities.format_size(max(1, int(value)))
        try:
            to_librdkafka(role, {new_name: new_value})
        except PropertyError as problem:
            translation.notes.append(f"{where}: {name} is left out: {problem.text}")
            continue
        kept[new_name] = new_value
    return kept
