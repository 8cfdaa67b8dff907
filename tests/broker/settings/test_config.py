from __future__ import annotations

from pathlib import Path

import pytest

from highwater.broker.settings.config import (
    BrokerConfig,
    ConfigError,
    Setting,
    TopicConfig,
    check_new_topic_overrides,
    check_topic_overrides,
    parse_property_option,
    read_properties_file,
    render,
)
from highwater.broker.settings.config_table import BROKER_PROPERTIES, property_named
from highwater.broker.settings.property_row import Kind, Property, Support
from highwater.broker.settings.topic_properties import TOPIC_PROPERTIES

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9.1-properties.tsv"
# Where a default is our own; the reasons stand in broker/settings/config_table.py.
OWN_DEFAULTS = {
    "group.consumer.assignors",
    "listeners",
    "log.dir",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
}
KAFKA_4_PROPERTIES = {
    "group.consumer.assignment.interval.ms",
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.migration.policy",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.regex.refresh.interval.ms",
}
OWN_PROPERTIES = {
    "audit.log.file",
    "highwater.client.telemetry",
    "highwater.process",
    "highwater.processes",
    "inter.broker.listener.exclusive",
    "metrics.listener",
    "zookeeper.sasl.jaas.config",
    "zookeeper.sasl.jaas.config.file",
}
# Kafka's, read by its authorizer and not by KafkaConfig.
AUTHORIZERS_PROPERTIES = {
    "super.users",
    "allow.everyone.if.no.acl.found",
    "authorizer.zookeeper.url",
    "authorizer.zookeeper.connection.timeout.ms",
    "authorizer.zookeeper.session.timeout.ms",
    "authorizer.zookeeper.max.in.flight.requests",
}
# Kafka's, though only while the broker runs.
DYNAMIC_PROPERTIES = {"leader.replication.throttled.rate", "follower.replication.throttled.rate"}


def config(**properties: str) -> BrokerConfig:
    return BrokerConfig(Setting("test", name.replace("_", "."), text) for name, text in properties.items())


def test_the_table_is_kafkas() -> None:
    rows = [line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    kafka = {(scope, name): (kind, default, valid) for scope, name, kind, default, valid in rows}
    ours: list[tuple[str, Property]] = [("broker", row) for row in BROKER_PROPERTIES.values()]
    ours += [("topic", entry.row) for entry in TOPIC_PROPERTIES.values()]
    for scope, row in ours:
        if row.name in OWN_PROPERTIES | DYNAMIC_PROPERTIES | AUTHORIZERS_PROPERTIES | KAFKA_4_PROPERTIES:
            continue
        kind, default, valid = kafka[scope, row.name]
        assert row.kind is Kind[kind.upper()], row.name
        if row.name not in OWN_DEFAULTS and row.kind is not Kind.CLASS:
            text = render(row.default)
            expected = str(float(default)) if row.kind is Kind.DOUBLE else default
            assert (text if text is not None else "null") == expected, row.name
        if row.support is Support.HONOURED and valid.startswith("[") and ",...," not in valid and ",...]" not in valid:
            assert set(row.choices) == set(valid.strip("[]").split(", ")), row.name
        if row.support is Support.HONOURED and valid.endswith(",...]"):
            assert row.low == float(valid.strip("[]").split(",")[0]), row.name


def test_every_property_of_kafka_is_known() -> None:
    rows = [line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    unknown = [row[1] for row in rows if row[0] == "broker" and property_named(row[1]) is None]
    assert unknown == []


def test_what_is_of_a_cluster_is_warned_of_in_a_broker_that_runs_alone() -> None:
    assert config(zookeeper_session_timeout_ms="9000", broker_rack="a").warnings == [
        "test: zookeeper.session.timeout.ms has no effect: a broker without zookeeper.connect runs alone"
    ]
    assert config(zookeeper_session_timeout_ms="9000", zookeeper_connect="localhost:2181").warnings == []


def test_unknown_properties_are_told_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig([Setting("server.properties:7", "log.segment.byte", "1")])
    assert str(caught.value) == (
        "server.properties:7: log.segment.byte is not a property of a Kafka broker; did you mean log.segment.bytes?"
    )


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("num.partitions", "many", "'many' is not a whole number"),
        ("num.partitions", "0", "0 is below the least allowed, 1"),
        ("num.partitions", "2147483648", "out of the range of a int"),
        ("auto.create.topics.enable", "yes", "neither true nor false"),
        ("log.message.timestamp.type", "Now", "is not one of CreateTime, LogAppendTime"),
        ("zookeeper.ssl.crl.enable", "true", "not supported"),
        ("ssl.cipher.suites", "A", "not supported"),
        ("ssl.keystore.locatoin", "/k", "did you mean ssl.keystore.location"),
        ("listener.name.x.num.partitions", "3", "not a property"),
        ("process.roles", "broker", "not supported"),
    ],
)
def test_bad_values_are_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        BrokerConfig([Setting("here:1", name, text)])
    assert str(caught.value).startswith(f"here:1: {name}")


def test_known_properties_without_effect_are_warned_of() -> None:
    warnings = config(num_io_threads="8", background_threads="9", num_partitions="3").warnings
    assert len(warnings) == 2
    assert warnings[0].startswith("test: num.io.threads has no effect")


def test_the_last_setting_of_a_name_wins() -> None:
    settings = [Setting("file:1", "num.partitions", "2"), Setting("--property", "num.partitions", "5")]
    assert BrokerConfig(settings).integer("num.partitions") == 5


def test_topics_take_the_brokers_values_in_kafkas_order_of_precedence() -> None:
    assert TopicConfig(BrokerConfig(), {}).value("retention.ms") == 168 * 3_600_000
    assert TopicConfig(config(log_retention_hours="1"), {}).value("retention.ms") == 3_600_000
    both = config(log_retention_hours="1", log_retention_ms="5")
    assert TopicConfig(both, {}).value("retention.ms") == 5
    assert TopicConfig(both, {"retention.ms": "-1"}).value("retention.ms") == -1
    assert TopicConfig(config(log_roll_hours="2"), {}).integer("segment.ms") == 7_200_000
    assert TopicConfig(config(log_flush_scheduler_interval_ms="9"), {}).integer("flush.ms") == 9


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"retention.hours": "1"}, "Unknown topic config name: retention.hours"),
        ({"segment.bytes": "1"}, "below the least allowed"),
        ({"segment.bytes": None}, "Null value not supported"),
        ({"cleanup.policy": "compact,shred"}, "is not one of compact, delete"),
        ({"remote.storage.enable": "true"}, "not supported"),
        ({"compression.type": "brotli"}, "is not one of uncompressed, zstd"),
        ({"leader.replication.throttled.replicas": "0:1,1"}, "'1' is not of the form"),
        # A number that Python refuses to read would fail wherever the topic is taken up.
        ({"leader.replication.throttled.replicas": f"{5_000 * '9'}:1"}, "is not of the form"),
        ({"follower.replication.throttled.replicas": f"0:{5_000 * '9'}"}, "is not of the form"),
    ],
)
def test_bad_topic_overrides(overrides: dict[str, str | None], reason: str) -> None:
    problem = check_topic_overrides(overrides)
    assert problem is not None
    assert reason in problem


def test_good_topic_overrides() -> None:
    assert check_topic_overrides({"cleanup.policy": "compact,delete", "segment.bytes": "14"}) is None
    lags = {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"}
    assert check_topic_overrides(lags) is None, "a topic may have them already"
    assert check_new_topic_overrides(lags) == (
        "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (5)"
    )
    assert check_new_topic_overrides({"min.compaction.lag.ms": "9"}) is None
    assert check_new_topic_overrides({"min.compaction.lag.ms": "x"}) == check_topic_overrides(
        {"min.compaction.lag.ms": "x"}
    )
    for throttled in ("", "*", "0:1", "0:1, 12:3"):
        assert check_topic_overrides({"follower.replication.throttled.replicas": throttled}) is None


def test_a_bad_escape_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a=1\nb=\\u12")
    with pytest.raises(ConfigError, match=r"f:2: .*four hexadecimal"):
        read_properties_file(path)


def test_settings_of_a_file_carry_their_place(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# hello\nnum.partitions=4\n")
    assert read_properties_file(path) == [Setting(f"{path}:2", "num.partitions", "4")]
    with pytest.raises(ConfigError, match="cannot read the configuration file"):
        read_properties_file(tmp_path / "missing")


def test_property_options() -> None:
    assert parse_property_option("a=b=c") == Setting("--property", "a", "b=c")
    with pytest.raises(ConfigError, match="name=value"):
        parse_property_option("a")
