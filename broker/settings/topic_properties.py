"""The properties of a topic, and the broker's properties that give their defaults."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from highwater.broker.settings.property_row import (
    BOOLEAN,
    COMPRESSION_TYPES,
    DOUBLE,
    INT,
    INT64_MAX,
    LIST,
    LONG,
    ONE_BATCH_FORMAT,
    ONE_LZ4,
    STRING,
    Property,
    honoured,
    in_a_cluster,
    no_effect,
    refused,
)

_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000


class TopicProperty(NamedTuple):
    """A property of a topic. Its default is the first of its broker properties that is set, else that one's default."""

    row: Property
    broker_properties: tuple[tuple[str, int], ...] = ()
    """(name, factor): the broker's property in its own unit times the factor is the topic's value."""

    @property
    def name(self) -> str:
        return self.row.name


def _topic(row: Property, *broker_properties: str | tuple[str, int]) -> TopicProperty:
    return TopicProperty(row, tuple(p if isinstance(p, tuple) else (p, 1) for p in broker_properties))


TOPIC_PROPERTIES: Final = {
    entry.name: entry
    for entry in (
        _topic(honoured("flush.messages", LONG, INT64_MAX, 1), "log.flush.interval.messages"),
        _topic(honoured("flush.ms", LONG, INT64_MAX, 0), "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        _topic(honoured("index.interval.bytes", INT, 4096, 0), "log.index.interval.bytes"),
        _topic(honoured("max.message.bytes", INT, 1_048_588, 0), "message.max.bytes"),
        _topic(
            honoured("message.timestamp.type", STRING, "CreateTime", None, None, "CreateTime", "LogAppendTime"),
            "log.message.timestamp.type",
        ),
        _topic(honoured("min.insync.replicas", INT, 1, 1), "min.insync.replicas"),
        _topic(honoured("preallocate", BOOLEAN, False), "log.preallocate"),
        _topic(honoured("segment.bytes", INT, 1_073_741_824, 14), "log.segment.bytes"),
        _topic(honoured("segment.index.bytes", INT, 10_485_760, 4), "log.index.size.max.bytes"),
        _topic(honoured("segment.ms", LONG, 604_800_000, 1), "log.roll.ms", ("log.roll.hours", _HOUR_MS)),
        _topic(honoured("compression.type", STRING, "producer", None, None, *COMPRESSION_TYPES), "compression.type"),
        _topic(honoured("compression.gzip.level", INT, -1, -1, 9), "compression.gzip.level"),
        _topic(honoured("compression.zstd.level", INT, 3, -131_072, 22), "compression.zstd.level"),
        _topic(no_effect("compression.lz4.level", INT, 9, ONE_LZ4), "compression.lz4.level"),
        _topic(
            honoured("cleanup.policy", LIST, "delete", None, None, "compact", "delete"),
            "log.cleanup.policy",
        ),
        _topic(honoured("retention.bytes", LONG, -1, -1), "log.retention.bytes"),
        _topic(
            honoured("retention.ms", LONG, 604_800_000, -1),
            "log.retention.ms",
            ("log.retention.minutes", _MINUTE_MS),
            ("log.retention.hours", _HOUR_MS),
        ),
        _topic(honoured("file.delete.delay.ms", LONG, 60_000, 0), "log.segment.delete.delay.ms"),
        _topic(
            honoured("segment.jitter.ms", LONG, 0, 0),
            "log.roll.jitter.ms",
            ("log.roll.jitter.hours", _HOUR_MS),
        ),
        _topic(
            honoured("delete.retention.ms", LONG, 86_400_000, 0),
            "log.cleaner.delete.retention.ms",
        ),
        _topic(
            honoured("max.compaction.lag.ms", LONG, INT64_MAX, 1),
            "log.cleaner.max.compaction.lag.ms",
        ),
        _topic(
            honoured("min.compaction.lag.ms", LONG, 0, 0),
            "log.cleaner.min.compaction.lag.ms",
        ),
        _topic(
            honoured("min.cleanable.dirty.ratio", DOUBLE, 0.5, 0, 1),
            "log.cleaner.min.cleanable.ratio",
        ),
        *(
            _topic(honoured(name, LONG, INT64_MAX, 0), "log." + name)
            for name in (
                "message.timestamp.after.max.ms",
                "message.timestamp.before.max.ms",
                "message.timestamp.difference.max.ms",
            )
        ),
        _topic(in_a_cluster("unclean.leader.election.enable", BOOLEAN, False), "unclean.leader.election.enable"),
        *(
            _topic(in_a_cluster(name, LIST, "")._replace(item_pattern=re.compile(r"\*|[0-9]{1,10}:[0-9]{1,10}")))
            for name in ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
        ),
        _topic(no_effect("message.downconversion.enable", BOOLEAN, True, ONE_BATCH_FORMAT)),
        _topic(no_effect("message.format.version", STRING, "3.0-IV1", ONE_BATCH_FORMAT)),
        _topic(refused("remote.storage.enable", BOOLEAN, False, "tiered storage is not supported")),
    )
}
