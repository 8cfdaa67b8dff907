"""What logs make of the settings of their topics."""

from __future__ import annotations

import pytest

from highwater.broker.log.config import LogConfig
from highwater.broker.settings.config import BrokerConfig, TopicConfig
from highwater.broker.topics.log_settings import log_config_of
from highwater.kafka.records.batch import Codec

CONFIG = BrokerConfig()


def of(**settings: str) -> LogConfig:
    return log_config_of(TopicConfig(CONFIG, {name.replace("_", "."): text for name, text in settings.items()}))


def test_a_topic_of_which_nothing_is_set_has_kafkas_defaults() -> None:
    assert of() == LogConfig()


@pytest.mark.parametrize(("policy", "segment_ms"), [("delete", 5000), ("compact", 3000), ("compact,delete", 3000)])
def test_what_must_be_compacted_soon_is_sealed_soon(policy: str, segment_ms: int) -> None:
    """KIP-354."""
    settings = of(cleanup_policy=policy, segment_ms="5000", max_compaction_lag_ms="3000")
    assert (settings.segment_ms, settings.max_compaction_lag_ms) == (segment_ms, 3000)


def test_the_newer_bounds_of_timestamps_hide_the_older_one_each_for_itself() -> None:
    """KIP-937."""
    settings = of(message_timestamp_difference_max_ms="9", message_timestamp_after_max_ms="5")
    assert (settings.message_timestamp_before_max_ms, settings.message_timestamp_after_max_ms) == (9, 5)


@pytest.mark.parametrize(
    ("compression_type", "codec", "level"),
    [("producer", None, None), ("uncompressed", Codec.NONE, None), ("gzip", Codec.GZIP, 7), ("zstd", Codec.ZSTD, 9)],
)
def test_a_level_is_that_of_the_topics_own_codec(compression_type: str, codec: Codec | None, level: int | None) -> None:
    settings = of(compression_type=compression_type, compression_gzip_level="7", compression_zstd_level="9")
    assert (settings.compression, settings.compression_level) == (codec, level)
