"""The answers that are read by hand, against kio's own writers: every field, in every version."""

from __future__ import annotations

import io
import struct
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from highwater.kafka.client.request import Request, UnexpectedAnswer, read_answer
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.primitives import Decoder
from highwater.kafka.requests.list_offsets import EARLIEST, Listed, all_at, list_offsets
from highwater.kafka.requests.metadata import BrokerRow, PartitionRow, TopicRow, metadata
from highwater.kafka.requests.offset_fetch import offset_fetch
from highwater.monitor.kafka_source.configs import BROKER, TOPIC, describe_configs
from highwater.monitor.kafka_source.groups import assigned_to, consumer_group_describe, describe_groups, list_groups
from highwater.monitor.kafka_source.log_dirs import describe_log_dirs
from highwater.monitor.model import ConfigValue, LogDirectory, Member


def answered(request: Request[Any], version: int, fields: dict[str, Any]) -> Any:
    """What the request makes of an answer with these fields; an answer that is cut off is none."""
    flexible = request.api.is_flexible(version)
    frame = struct.pack(">i", 7) + (b"\0" if flexible else b"") + cold.encode_response(request.schema, version, fields)
    with pytest.raises(UnexpectedAnswer):
        read_answer(request, version, 7, memoryview(frame[:-2]))
    return read_answer(request, version, 7, memoryview(frame))


def asked(request: Request[Any], version: int) -> Any:
    """The request as kio reads it."""
    decoder = Decoder(memoryview(request.encode(version)), flexible=request.api.is_flexible(version))
    found = cold.decode_request(request.schema, version, decoder)
    assert decoder.remaining == 0
    return found


@pytest.mark.parametrize("version", range(9, 13))
def test_metadata(version: int) -> None:
    partitions = [
        {
            "error_code": ErrorCode.none,
            "partition_index": index,
            "leader_id": 2,
            "leader_epoch": 5,
            "replica_nodes": (2, 3),
            "isr_nodes": (2,),
            "offline_replicas": (3,),
        }
        for index in (1, 0)
    ]
    topic = {"name": "t", "topic_id": UUID(int=1), "is_internal": True, "partitions": partitions}
    broken = {"error_code": ErrorCode.leader_not_available, "name": "u"}
    found = answered(
        metadata(),
        version,
        {
            "brokers": [{"node_id": 2, "host": "h", "port": 9092, "rack": "r"}, {"node_id": 3, "host": "i", "port": 1}],
            "cluster_id": "c",
            "controller_id": 3,
            "topics": [topic, broken],
        },
    )
    assert found.brokers == [BrokerRow(2, "h", 9092, "r"), BrokerRow(3, "i", 1, "")]
    assert (found.cluster_id, found.controller) == ("c", 3)
    rows = [PartitionRow(index, 2, 5, (2, 3), (2,), (3,)) for index in (0, 1)]
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ" if version >= 10 else ""
    assert found.topics == [TopicRow("t", topic_id, True, 0, rows), TopicRow("u", "", False, 5, [])]
    assert asked(metadata(), version).topics is None


@pytest.mark.parametrize("version", range(4, 8))
def test_list_offsets(version: int) -> None:
    request = list_offsets(all_at({"t": [0, 1], "u": [2]}, EARLIEST), read_committed=True)
    sent = asked(request, version)
    assert (sent.replica_id, sent.isolation_level) == (-1, 1)
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in sent.topics] == [
        ("t", [0, 1]),
        ("u", [2]),
    ]
    assert {(each.timestamp, each.current_leader_epoch) for topic in sent.topics for each in topic.partitions} == {
        (-2, -1)
    }
    partitions = [
        {"partition_index": 0, "offset": 1 << 40},
        {"partition_index": 1, "error_code": ErrorCode.not_leader_or_follower, "offset": -1},
    ]
    found = answered(list_offsets({}), version, {"topics": [{"name": "t", "partitions": partitions}]})
    assert found == {"t": {0: Listed(0, -1, 1 << 40, -1), 1: Listed(6, -1, -1, -1)}}


def test_offset_fetch() -> None:
    sent = asked(offset_fetch(["g", "ħ"]), 8)
    assert [(group.group_id, group.topics) for group in sent.groups] == [("g", None), ("ħ", None)]
    assert not sent.require_stable
    partitions = [
        {"partition_index": 3, "committed_offset": 9, "metadata": "m"},
        {"partition_index": 4, "committed_offset": -1, "metadata": ""},
        {"partition_index": 5, "committed_offset": 7, "error_code": ErrorCode.unstable_offset_commit},
        {"partition_index": 6, "committed_offset": 0, "metadata": None},
    ]
    groups = [
        {"group_id": "g", "topics": [{"name": "t", "partitions": partitions}]},
        {"group_id": "h", "error_code": ErrorCode.group_authorization_failed, "topics": []},
    ]
    found = answered(offset_fetch([]), 8, {"groups": groups})
    assert found == {"g": (0, {("t", 3): (9, "m"), ("t", 6): (0, "")}), "h": (30, {})}


@pytest.mark.parametrize("version", range(3, 6))
def test_list_groups(version: int) -> None:
    groups = [
        {"group_id": "a", "protocol_type": "consumer", "group_state": "Stable", "group_type": "Classic"},
        {"group_id": "b", "protocol_type": "connect", "group_state": "Stable", "group_type": "Classic"},
        {"group_id": "c", "protocol_type": "", "group_state": "Empty", "group_type": "Classic"},
        {"group_id": "d", "protocol_type": "share", "group_state": "Stable", "group_type": "Share"},
    ]
    found = answered(list_groups(), version, {"error_code": ErrorCode.none, "groups": groups})
    assert found.error_code == 0
    state = "Stable" if version >= 4 else ""
    assert found.groups[0] == ("a", state, "classic")
    assert [group.name for group in found.groups] == (["a", "c", "d"] if version >= 5 else ["a", "c"])


ASSIGNMENT = struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">iii", 2, 4, 1) + struct.pack(">i", -1)


def test_describe_groups() -> None:
    member = {
        "member_id": "m",
        "group_instance_id": "i",
        "client_id": "c",
        "client_host": "/10.0.0.1",
        "member_metadata": b"",
        "member_assignment": ASSIGNMENT,
    }
    waiting = member | {"member_id": "n", "group_instance_id": None, "member_assignment": b""}
    groups = [
        {"group_id": "g", "group_state": "Stable", "protocol_data": "range", "members": [member, waiting]},
        {"group_id": "h", "error_code": ErrorCode.not_coordinator, "group_state": "", "members": []},
    ]
    found = answered(describe_groups(["g"]), 5, {"groups": groups})
    assert found["g"] == (
        0,
        "Stable",
        "range",
        (Member("m", "c", "10.0.0.1", "i", (("t", 1), ("t", 4))), Member("n", "c", "10.0.0.1")),
    )
    assert found["h"].error_code == 16
    assert list(asked(describe_groups(["g"]), 5).groups) == ["g"]


@pytest.mark.parametrize("garbage", [b"\0", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\xff\xff", ASSIGNMENT[:12]])
def test_an_assignment_of_another_protocol_is_empty(garbage: bytes) -> None:
    assert assigned_to(memoryview(garbage)) == ()


def test_consumer_group_describe() -> None:
    kip_848: Any = import_module("kio.schema.consumer_group_describe.v0.response")
    assignment = kip_848.Assignment(
        topic_partitions=(kip_848.TopicPartitions(topic_id=UUID(int=1), topic_name="t", partitions=(1, 0)),)
    )
    more = kip_848.TopicPartitions(topic_id=UUID(int=2), topic_name="u", partitions=(0,))
    member = kip_848.Member(
        member_id="m",
        instance_id=None,
        rack_id=None,
        member_epoch=1,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("t",),
        subscribed_topic_regex=None,
        assignment=assignment,
        target_assignment=kip_848.Assignment(topic_partitions=(*assignment.topic_partitions, more)),
    )
    group = kip_848.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id="g",
        group_state="Reconciling",
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="uniform",
        members=(member,),
        authorized_operations=0,
    )
    frame = io.BytesIO(struct.pack(">ib", 7, 0))
    frame.seek(0, io.SEEK_END)
    answer = kip_848.ConsumerGroupDescribeResponse(throttle_time=timedelta(), groups=(group,))
    entity_writer(kip_848.ConsumerGroupDescribeResponse)(frame, answer)
    found = read_answer(consumer_group_describe(["g"]), 0, 7, memoryview(frame.getvalue()))
    member = Member("m", "c", "h", "", (("t", 0), ("t", 1)), (("u", 0),))
    assert found == {"g": (0, "Reconciling", "uniform", (member,))}


@pytest.mark.parametrize("version", range(2, 5))
def test_describe_log_dirs(version: int) -> None:
    partitions = [
        {"partition_index": 0, "partition_size": 100, "offset_lag": 5, "is_future_key": False},
        {"partition_index": 1, "partition_size": 200, "offset_lag": 0, "is_future_key": True},
    ]
    results = [
        {
            "error_code": ErrorCode.none,
            "log_dir": "/a",
            "topics": [{"name": "t", "partitions": partitions}],
            "total_bytes": 1000,
            "usable_bytes": 300,
        },
        {"error_code": ErrorCode.kafka_storage_error, "log_dir": "/b", "topics": []},
    ]
    found = answered(describe_log_dirs(), version, {"results": results})
    space = (1000, 300) if version >= 4 else (None, None)
    assert found.directories[0] == LogDirectory("/a", "", *space)
    assert found.directories[1].error == "KAFKA_STORAGE_ERROR (56)"
    assert found.replicas == {("t", 0): (100, 5)}
    assert asked(describe_log_dirs(), version).topics is None


def test_describe_configs() -> None:
    def entry(name: str, value: str | None, source: int, *synonyms: tuple[str, int], secret: bool = False) -> Any:
        return {
            "name": name,
            "value": value,
            "config_source": source,
            "is_sensitive": secret,
            "synonyms": [{"name": name, "value": text, "source": of} for text, of in synonyms],
        }

    results = [
        {
            "resource_type": TOPIC,
            "resource_name": "t",
            "configs": [
                entry("retention.ms", "5", 1, ("5", 1), ("6", 4), ("7", 5)),
                entry("segment.bytes", "9", 5, ("9", 5)),
                entry("segment.ms", "1", 1) | {"synonyms": [{"name": "log.roll.hours", "value": "2", "source": 5}]},
            ],
        },
        {
            "resource_type": BROKER,
            "resource_name": "1",
            "configs": [
                entry("log.dirs", "/a", 4, ("/a", 4), ("/tmp", 5)),
                entry("ssl.key.password", None, 4, secret=True),
            ],
        },
        {
            "error_code": ErrorCode.topic_authorization_failed,
            "error_message": "no",
            "resource_type": TOPIC,
            "resource_name": "u",
            "configs": [],
        },
    ]
    found = answered(describe_configs([]), 4, {"results": results})
    assert found[TOPIC, "t"].config == {
        "retention.ms": ConfigValue("5", "DYNAMIC_TOPIC_CONFIG", "6"),
        "segment.bytes": ConfigValue("9", "DEFAULT_CONFIG", "9"),
        "segment.ms": ConfigValue("1", "DYNAMIC_TOPIC_CONFIG", "7200000"),
    }
    assert found[BROKER, "1"].config == {
        "log.dirs": ConfigValue("/a", "STATIC_BROKER_CONFIG", "/tmp"),
        "ssl.key.password": ConfigValue(None, "STATIC_BROKER_CONFIG", None, is_sensitive=True),
    }
    assert found[TOPIC, "u"][:2] == (29, "no")
    sent = asked(describe_configs([(TOPIC, "t"), (BROKER, "1")]), 4)
    assert [(each.resource_type, each.resource_name, each.configuration_keys) for each in sent.resources] == [
        (TOPIC, "t", None),
        (BROKER, "1", None),
    ]
    assert (sent.include_synonyms, sent.include_documentation) == (True, False)
