"""What the configuration of a topic means to its logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from highwater.broker.log.config import LogConfig
from highwater.broker.settings.config import BrokerConfig, TopicConfig, check_topic_overrides
from highwater.broker.settings.property_row import INT64_MAX
from highwater.broker.settings.store import MetadataError
from highwater.broker.topics.topic import TopicRecord
from highwater.kafka.records.batch import Codec, TimestampType

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""The codec of each compression.type; `producer`, which is not here, leaves it to the producer."""
_COMPRESSION_LEVELS: Final = {Codec.GZIP: "compression.gzip.level", Codec.ZSTD: "compression.zstd.level"}


def _compression_level(topic: TopicConfig, compression: Codec | None) -> int | None:
    name = None if compression is None else _COMPRESSION_LEVELS.get(compression)
    return None if name is None else topic.integer(name)


def log_configs_of(config: BrokerConfig, topics: Iterable[TopicRecord]) -> dict[str, LogConfig]:
    """The settings of the logs of all topics; raises MetadataError where a topic has one that this broker refuses."""
    topics = list(topics)
    for topic in topics:
        if reason := check_topic_overrides(topic.config):
            raise MetadataError(
                f"the metadata of topic {topic.name}: {reason}; mend that, or start the broker it is of"
            )
    return {topic.name: log_config_of(TopicConfig(config, topic.config)) for topic in topics}


def log_config_of(topic: TopicConfig) -> LogConfig:
    """The settings of the logs of a topic."""
    append_time = topic.value("message.timestamp.type") == "LogAppendTime"
    policy = topic.value("cleanup.policy")
    cleanup_policy = tuple(policy) if isinstance(policy, list) else (str(policy),)
    max_compaction_lag_ms = topic.integer("max.compaction.lag.ms")
    difference_max_ms = topic.integer("message.timestamp.difference.max.ms")
    before_max_ms = topic.integer("message.timestamp.before.max.ms")
    after_max_ms = topic.integer("message.timestamp.after.max.ms")
    compression = _CODECS.get(str(topic.value("compression.type")))
    segment_ms = topic.integer("segment.ms")
    if "compact" in cleanup_policy:
        # Only sealed segments are compacted (KIP-354).
        segment_ms = min(segment_ms, max_compaction_lag_ms)
    return LogConfig(
        segment_bytes=topic.integer("segment.bytes"),
        segment_ms=segment_ms,
        segment_jitter_ms=topic.integer("segment.jitter.ms"),
        index_interval_bytes=topic.integer("index.interval.bytes"),
        segment_index_bytes=topic.integer("segment.index.bytes"),
        max_message_bytes=topic.integer("max.message.bytes"),
        flush_messages=topic.integer("flush.messages"),
        flush_ms=topic.integer("flush.ms"),
        preallocate=bool(topic.value("preallocate")),
        message_timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
        retention_ms=topic.integer("retention.ms"),
        retention_bytes=topic.integer("retention.bytes"),
        file_delete_delay_ms=topic.integer("file.delete.delay.ms"),
        cleanup_policy=cleanup_policy,
        delete_retention_ms=topic.integer("delete.retention.ms"),
        min_cleanable_dirty_ratio=topic.number("min.cleanable.dirty.ratio"),
        min_compaction_lag_ms=topic.integer("min.compaction.lag.ms"),
        max_compaction_lag_ms=max_compaction_lag_ms,
        # The newer two hide the older one, which they replace (KIP-937).
        message_timestamp_before_max_ms=difference_max_ms if before_max_ms == INT64_MAX else before_max_ms,
        message_timestamp_after_max_ms=difference_max_ms if after_max_ms == INT64_MAX else after_max_ms,
        compression=compression,
        compression_level=_compression_level(topic, compression),
    )
