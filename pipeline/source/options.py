"""The options of the source under the names of Spark's connector, checked before anything is read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from highwater.common.nearest import did_you_mean
from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka import settings
from highwater.pipeline.kafka.columns import DEFAULT_COLUMNS, check_columns
from highwater.pipeline.kafka.model import Edge
from highwater.pipeline.kafka.settings import PREFIX, Settings, settings_of
from highwater.pipeline.option_values import OptionValues
from highwater.pipeline.registry import client as registry
from highwater.pipeline.registry.decoding import KINDS, ColumnFormat, Formats
from highwater.pipeline.source.bounds import AtOffsets, Bound, ending_bound, starting_bound
from highwater.pipeline.source.offsets import read_assignment


@dataclass(frozen=True)
class Subscription:
    """Which partitions are read; exactly one of these is set."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def has(self, topic: str) -> bool:
        """Whether a partition of the topic can be read."""
        if self.pattern:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.names or any(topic == name for name, _ in self.partitions)

    def include(self, of: TopicPartition) -> bool:
        return self.has(of[0]) and (not self.partitions or of in self.partitions)


@dataclass(frozen=True)
class Options:
    """See docs/pipeline.md for what each means."""

    settings: Settings
    topics: Subscription
    starting: Bound
    ending: Bound
    later_than_all_is_latest: bool
    """Whether to begin at the latest offsets if no record is as late (startingOffsetsByTimestampStrategy)."""
    columns: tuple[str, ...]
    read_committed: bool
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    max_bytes_per_partition: int | None
    """Bytes in the log; see `source/sizes.py` for how they are known."""
    max_trigger_delay_ms: int
    fetch_bytes: int
    poll_timeout_ms: int | None
    """How long a task waits for records that are to come; None: for default.api.timeout.ms."""
    offset_attempts: int
    offset_retry_interval_ms: int
    """How often the driver asks for offsets before the query fails, and how long it waits in between."""
    commit_offsets: str
    """The group that a stream commits its offsets for; empty for none."""
    initial_offsets_location: str
    """The file in which a stream keeps where it began; empty for none."""
    resume_from: str
    """The stored progress of a sink at which a stream without a checkpoint begins; empty for none."""
    formats: Formats | None
    """The formats of keys and values whose schemas are in a registry."""


_FETCH_SIZES: Final = ("max.partition.fetch.bytes", "fetch.max.bytes")
_WITHOUT_EFFECT: Final = frozenset(
    {
        # Members of groups
        *("group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms"),
        *("max.poll.interval.ms", "partition.assignment.strategy", "session.timeout.ms", "auto.commit.interval.ms"),
        # How the Java client polls, caches, connects and counts
        *("allow.auto.create.topics", "check.crcs", "client.dns.lookup", "client.rack", "connections.max.idle.ms"),
        *("enable.metrics.push", "exclude.internal.topics", "fetch.max.wait.ms", "fetch.min.bytes"),
        *("auto.include.jmx.reporter", "max.poll.records", "metadata.max.age.ms", "metadata.recovery.strategy"),
        *("metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms"),
        *("receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.max.ms"),
        *("send.buffer.bytes", "socket.connection.setup.timeout.max.ms"),
    }
)
"""Kafka's names of what this client does not have. They change no record, so that a query of the connector runs on."""
_FORMATTED: Final = ("key", "value")
_OF_FORMATS: Final = ("subject", "onError", "message")
_NAMES: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "maxBytesPerPartition",
    "maxTriggerDelay",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix",
    "columns",
    "fetchBytes",
    "commitOffsets",
    "initialOffsetsLocation",
    "resumeFrom",
    *(f"{column}.{name}" for column in _FORMATTED for name in ("format", *_OF_FORMATS)),
    *(f"{registry.PREFIX}{name}" for name in registry.NAMES),
    "kafka.isolation.level",
    *(f"{PREFIX}{name}" for name in sorted({*settings.NAMES, *_FETCH_SIZES, *_WITHOUT_EFFECT})),
)
PROPER: Final = {name.lower(): name for name in _NAMES}
_OF_STREAMS_ALONE: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "maxTriggerDelay",
    "commitOffsets",
    "initialOffsetsLocation",
    "resumeFrom",
)
_OF_BATCHES_ALONE: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_REFUSED: Final = {
    "kafka.auto.offset.reset": "Instead set the source option 'startingOffsets' to 'earliest' or 'latest'",
    "kafka.key.deserializer": "Use DataFrame operations to explicitly deserialize the keys",
    "kafka.value.deserializer": "Use DataFrame operations to explicitly deserialize the values",
    "kafka.enable.auto.commit": "Spark's checkpoint holds the offsets; commitOffsets=GROUP commits them too",
    "kafka.interceptor.classes": "No client in the JVM could call them",
}
"""Kafka's names that Spark's connector refuses too. The messages begin as its messages do."""
_NOT_HERE: Final = {
    "topic": "it is of a sink; a source has subscribe, subscribePattern and assign",
    "path": "a topic has no path; call load() without one, and set subscribe",
}
_MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
_RETRY_INTERVAL_MS: Final = 1000
_FETCH_BYTES: Final = 4 << 20
_FETCH_BYTES_MAX: Final = 256 << 20


def read_options(given: Mapping[str, str], *, is_stream: bool) -> Options:
    """Read the options of a read or of a stream; upper and lower case in names mean the same.

    Raises SettingsError for an unknown option, for one that is not for this kind of read, and for a wrong value.
    """
    options = {name.lower(): value for name, value in given.items()}
    _check_names(options, is_stream=is_stream)
    if "kafka.bootstrap.servers" not in options:
        raise SettingsError("kafka.bootstrap.servers is missing; write it as HOST:PORT, several with commas between")
    take = OptionValues(options)
    starting = starting_bound(take, is_stream=is_stream)
    ending = Edge.LATEST if is_stream else ending_bound(take)
    at_least, at_most = take.count("minOffsetsPerTrigger"), take.count("maxOffsetsPerTrigger")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise SettingsError(f"minOffsetsPerTrigger={at_least} is above maxOffsetsPerTrigger={at_most}")
    found = Options(
        settings=settings_of(
            {name: value for name, value in options.items() if name.removeprefix(PREFIX) in settings.NAMES}
        ),
        topics=_topics(take),
        starting=starting,
        ending=ending,
        later_than_all_is_latest=take.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        columns=_columns(take),
        read_committed=take.choice("kafka.isolation.level", ("read_uncommitted", "read_committed")) == "read_committed",
        fail_on_data_loss=take.flag("failOnDataLoss", default=True),
        min_partitions=take.count("minPartitions"),
        max_records_per_partition=take.count("maxRecordsPerPartition"),
        max_offsets_per_trigger=at_most,
        min_offsets_per_trigger=at_least,
        max_bytes_per_trigger=take.count("maxBytesPerTrigger"),
        max_bytes_per_partition=take.count("maxBytesPerPartition"),
        max_trigger_delay_ms=take.duration_ms("maxTriggerDelay", _MAX_TRIGGER_DELAY_MS),
        fetch_bytes=_fetch_bytes(take),
        poll_timeout_ms=take.count("kafkaConsumer.pollTimeoutMs"),
        offset_attempts=take.count("fetchOffset.numRetries") or 1,
        offset_retry_interval_ms=take.count("fetchOffset.retryIntervalMs") or _RETRY_INTERVAL_MS,
        commit_offsets=take.text("commitOffsets"),
        initial_offsets_location=_local_file(take),
        resume_from=take.text("resumeFrom"),
        formats=_formats(take),
    )
    if is_stream:
        _check_start_can_be_kept(found)
    return found


def _check_names(options: Mapping[str, str], *, is_stream: bool) -> None:
    for name in options:
        if name in _REFUSED:
            raise SettingsError(f"Kafka option '{name.removeprefix(PREFIX)}' is not supported. {_REFUSED[name]}")
        if name in _NOT_HERE:
            raise SettingsError(f"{name} is not supported: {_NOT_HERE[name]}")
        if name not in PROPER:
            hint = did_you_mean(name, PROPER)
            raise SettingsError(f"option {name} is unknown{_proper_spelling(hint)}")
    for proper in _OF_BATCHES_ALONE if is_stream else _OF_STREAMS_ALONE:
        if proper.lower() in options:
            kind, other = ("a stream", "read") if is_stream else ("a read of a batch", "readStream")
            raise SettingsError(f"{proper} has no meaning for {kind}; leave it out, or use spark.{other}")


def _proper_spelling(hint: str) -> str:
    for lower, proper in PROPER.items():
        if hint.endswith(f" {lower}?"):
            return f"{hint.removesuffix(lower + '?')}{proper}?"
    return hint


def _topics(take: OptionValues) -> Subscription:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if name in take]
    if len(given) != 1:
        raise SettingsError(
            f"{' and '.join(given)} exclude each other; keep one"
            if given
            else f"no topic is named; set one of {', '.join(names)}"
        )
    name, text = given[0], take.text(given[0])
    if name == "assign":
        return Subscription(partitions=take.parsed(name, read_assignment))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise SettingsError("subscribe is empty; write topics with commas between")
        return Subscription(names=topics)
    try:
        re.compile(text)
    except re.error as error:
        raise SettingsError(f"subscribePattern={text} is not a regular expression: {error}") from None
    if not text:
        raise SettingsError("subscribePattern is empty; write a regular expression of topics")
    return Subscription(pattern=text)


def _columns(take: OptionValues) -> tuple[str, ...]:
    has_headers = take.flag("includeHeaders", default=False)
    if "columns" not in take:
        return (*DEFAULT_COLUMNS, "headers") if has_headers else DEFAULT_COLUMNS
    if has_headers:
        raise SettingsError("columns and includeHeaders exclude each other; name headers among columns")
    return check_columns([name.strip() for name in take.text("columns").split(",") if name.strip()])


def _formats(take: OptionValues) -> Formats | None:
    named = {name: f"{registry.PREFIX}{name}" for name in registry.NAMES}
    properties = {name: take.text(option) for name, option in named.items() if option in take}
    asked = [column for column in _FORMATTED if f"{column}.format" in take]
    if not asked:
        for column in _FORMATTED:
            for name in _OF_FORMATS:
                if f"{column}.{name}" in take:
                    raise SettingsError(f"{column}.{name} needs {column}.format, one of {', '.join(KINDS)}")
        return None
    if not properties.get("url"):
        raise SettingsError(f"{asked[0]}.format needs {registry.PREFIX}url, the address of a schema registry")
    columns = tuple(
        ColumnFormat(
            column,
            take.choice(f"{column}.format", KINDS),
            take.text(f"{column}.subject") or _subject(take, column),
            take.choice(f"{column}.onError", ("fail", "null")) == "null",
            take.text(f"{column}.message"),
        )
        for column in asked
    )
    return Formats(registry.RegistrySettings(tuple(sorted(properties.items()))), columns)


def _subject(take: OptionValues, column: str) -> str:
    """The name that serialisers use by default (TopicNameStrategy)."""
    topics = _topics(take)
    names = {*topics.names, *(topic for topic, _ in topics.partitions)}
    if len(names) != 1:
        raise SettingsError(f"{column}.format: several topics can be read; name the schema with {column}.subject")
    return f"{names.pop()}-{column}"


def _fetch_bytes(take: OptionValues) -> int:
    if "fetchBytes" not in take:
        # One partition is fetched at a time, so that both of Kafka's limits mean the same.
        sizes = [size for name in _FETCH_SIZES if (size := take.count(f"{PREFIX}{name}")) is not None]
        return min(sizes, default=_FETCH_BYTES)
    found = take.count("fetchBytes") or _FETCH_BYTES
    if found > _FETCH_BYTES_MAX:
        raise SettingsError(f"fetchBytes={found} is above {_FETCH_BYTES_MAX}; 4194304 is fast already")
    return found


def _local_file(take: OptionValues) -> str:
    text = take.text("initialOffsetsLocation").removeprefix("file://").removeprefix("file:")
    if "://" in text:
        raise SettingsError(
            f"initialOffsetsLocation={text} is not a file of the driver's host; "
            "set commitOffsets=GROUP instead, which keeps the first offsets on the brokers"
        )
    return text


def _check_start_can_be_kept(options: Options) -> None:
    """Spark asks where a stream begins again after a crash in its first batch: the answer must be the same."""
    if options.starting == Edge.EARLIEST or (
        options.commit_offsets or options.initial_offsets_location or options.resume_from
    ):
        return
    if isinstance(options.starting, AtOffsets) and Edge.LATEST not in options.starting.edges.values():
        return
    raise SettingsError(
        "a stream that begins at latest or at a time has to keep where it began, or a crash in its first batch would "
        "skip records; set commitOffsets=GROUP, or initialOffsetsLocation=FILE (a new file for each new checkpoint), "
        "or startingOffsets=earliest"
    )
