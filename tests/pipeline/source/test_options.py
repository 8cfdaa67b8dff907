"""The options of the source: what they mean, and which are refused with which words."""

from __future__ import annotations

import re

import pytest

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.columns import DEFAULT_COLUMNS
from highwater.pipeline.kafka.model import EARLIEST, LATEST
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.source.bounds import AtOffsets, AtTime
from highwater.pipeline.source.options import Options, Subscription, read_options

LEAST = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}


def batch(**given: str) -> Options:
    return read_options({**LEAST, **{name.replace("__", "."): value for name, value in given.items()}}, is_stream=False)


def stream(**given: str) -> Options:
    return read_options({**LEAST, **given}, is_stream=True)


def test_what_is_read_without_options() -> None:
    found = batch()
    assert found.settings.bootstrap_servers == (("h", 9092),)
    assert found.topics == Subscription(names=("t",))
    assert (found.starting, found.ending) == (EARLIEST, LATEST)
    assert found.columns == DEFAULT_COLUMNS
    assert found.fail_on_data_loss
    assert not found.read_committed
    assert (found.min_partitions, found.max_records_per_partition, found.fetch_bytes) == (None, None, 4 << 20)


def test_names_arrive_in_lower_case() -> None:
    options = {"KAFKA.BOOTSTRAP.SERVERS": "h:1", "subscribepattern": "t.*", "STARTINGOFFSETS": "earliest"}
    found = read_options({**options, "includeheaders": "TRUE", "minpartitions": "3"}, is_stream=True)
    assert found.topics == Subscription(pattern="t.*")
    assert found.columns == (*DEFAULT_COLUMNS, "headers")
    assert found.min_partitions == 3


@pytest.mark.parametrize(
    ("given", "starting"),
    [
        ({"startingOffsets": '{"t":{"0":5,"1":-2}}'}, AtOffsets(Offsets({("t", 0): 5}), {("t", 1): EARLIEST})),
        ({"startingOffsets": '{"t":{"0":5},"#ids":{"t":"x"}}'}, AtOffsets(Offsets({("t", 0): 5}, {"t": "x"}))),
        ({"startingTimestamp": "1000"}, AtTime(1000)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":1000}}'}, AtTime({("t", 0): 1000})),
        # The same order of precedence as Spark's connector.
        ({"startingTimestamp": "7", "startingOffsetsByTimestamp": '{"t":{"0":1000}}'}, AtTime(7)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":9}}', "startingOffsets": "earliest"}, AtTime({("t", 0): 9})),
    ],
)
def test_where_a_read_begins(given: dict[str, str], starting: object) -> None:
    assert batch(**given).starting == starting


def test_where_a_read_ends() -> None:
    assert batch(endingOffsets='{"t":{"0":-1}}').ending == AtOffsets(Offsets({}), {("t", 0): LATEST})
    assert batch(endingTimestamp="5").ending == AtTime(5)


def test_limits_of_a_stream() -> None:
    found = stream(
        startingOffsets="earliest", minOffsetsPerTrigger="10", maxOffsetsPerTrigger="20", maxTriggerDelay="2m"
    )
    assert (found.min_offsets_per_trigger, found.max_offsets_per_trigger) == (10, 20)
    assert found.max_trigger_delay_ms == 120_000
    assert stream(startingOffsets="earliest").max_trigger_delay_ms == 15 * 60_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscirbe": "t"}, "option subscirbe is unknown; did you mean subscribe?"),
        ({"maxoffsetpertrigger": "1"}, "did you mean maxOffsetsPerTrigger?"),
        ({"kafka.bootstrap.server": "h:1"}, "did you mean kafka.bootstrap.servers?"),
        ({"bootstrap.servers": "h:1"}, "did you mean kafka.bootstrap.servers?"),
        ({"topic": "t"}, "topic is not supported: it is of a sink"),
        ({"kafka.auto.offset.reset": "latest"}, "Kafka option 'auto.offset.reset' is not supported. Instead set the"),
        ({"kafka.key.deserializer": "x"}, "Use DataFrame operations to explicitly deserialize the keys"),
        ({"kafka.value.deserializer": "x"}, "Use DataFrame operations to explicitly deserialize the values"),
        ({"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
        ({"kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported"),
        ({"kafka.max.pol.records": "1"}, "did you mean kafka.max.poll.records?"),
        ({"maxBytesPerTrigger": "5"}, "maxBytesPerTrigger has no meaning for a read of a batch"),
        ({"maxBytesPerPartition": "1k"}, "maxBytesPerPartition=1k is not a positive whole number"),
        ({"kafkaConsumer.pollTimeoutMs": "-1"}, "kafkaConsumer.pollTimeoutMs=-1 is not a positive whole number"),
        ({"subscribe": " , "}, "subscribe is empty"),
        ({"subscribePattern": "t"}, "subscribe and subscribePattern exclude each other"),
        ({"minPartitions": "0"}, "minPartitions=0 is not a positive whole number"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss=maybe is neither true nor false"),
        ({"kafka.isolation.level": "serializable"}, "none of read_uncommitted, read_committed"),
        ({"columns": "offset,vaule"}, "columns: vaule is unknown; did you mean value?"),
        ({"columns": "offset", "includeHeaders": "true"}, "exclude each other"),
        ({"startingOffsets": "latest"}, "which would be empty"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets: t-0: -1 (latest)"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "startingOffsets: t-0: -3 is not an offset"),
        ({"startingOffsets": "first"}, "startingOffsets=first is neither earliest, latest"),
        ({"startingOffsets": '{"t":5}'}, "startingOffsets: t: offsets are written as"),
        ({"startingTimestamp": "today"}, "not a time in ms since 1970"),
        ({"endingOffsets": "earliest"}, "which would be empty"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger has no meaning for a read of a batch"),
        ({"fetchBytes": str(1 << 40)}, "fetchBytes="),
    ],
)
def test_what_a_read_refuses(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        read_options({**LEAST, **given}, is_stream=False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets has no meaning for a stream"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger=9 is above"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay=soon is not a time"),
        ({"initialOffsetsLocation": "s3a://bucket/x"}, "not a file of the driver's host"),
    ],
)
def test_what_a_stream_refuses(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        stream(**{"startingOffsets": "earliest", **given})


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ({}, False),
        ({"startingOffsets": "latest"}, False),
        ({"startingOffsets": '{"t":{"0":-1}}'}, False),
        ({"startingTimestamp": "5"}, False),
        ({"startingOffsets": "earliest"}, True),
        ({"startingOffsets": '{"t":{"0":4}}'}, True),
        ({"commitOffsets": "g"}, True),
        ({"startingTimestamp": "5", "initialOffsetsLocation": "file:///tmp/x"}, True),
    ],
)
def test_a_stream_has_to_begin_at_the_same_place_after_a_crash(given: dict[str, str], is_kept: bool) -> None:
    if is_kept:
        stream(**given)
        return
    with pytest.raises(SettingsError, match="has to keep where it began"):
        stream(**given)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(SettingsError, match="no topic is named; set one of subscribe"):
        read_options({"kafka.bootstrap.servers": "h:1"}, is_stream=False)
    with pytest.raises(SettingsError, match=r"kafka\.bootstrap\.servers is missing"):
        read_options({"subscribe": "t"}, is_stream=False)


def test_no_password_is_in_an_error_or_in_the_text_of_options() -> None:
    options = {
        **LEAST,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'
        ),
    }
    assert "hunter2" not in repr(read_options(options, is_stream=False))


def test_settings_of_kafkas_client() -> None:
    found = batch(
        kafka__max__partition__fetch__bytes="1048576",
        kafka__fetch__max__bytes="2097152",
        kafka__session__timeout__ms="10000",
        kafka__max__poll__records="20000",
        kafka__group__id="g",
    )
    assert found.fetch_bytes == 1 << 20
    assert batch(kafka__fetch__max__bytes="5", fetchBytes="7").fetch_bytes == 7
    given = {"fetchOffset.numRetries": "3", "fetchOffset.retryIntervalMs": "10", "kafkaConsumer.pollTimeoutMs": "512"}
    found = stream(startingOffsets="earliest", **given)
    assert (found.offset_attempts, found.offset_retry_interval_ms, found.poll_timeout_ms) == (3, 10, 512)


def test_limits_by_bytes() -> None:
    found = stream(startingOffsets="earliest", maxBytesPerTrigger="1000", maxBytesPerPartition="10")
    assert (found.max_bytes_per_trigger, found.max_bytes_per_partition) == (1000, 10)
    assert batch(maxBytesPerPartition="10").max_bytes_per_partition == 10
