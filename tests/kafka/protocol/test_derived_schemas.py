"""The versions that kio lacks against bytes that Apache Kafka makes of them (golden/*.java: 3.9 older, 4.4 newer)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.primitives import Decoder
from tests.kafka.protocol.plain import plain

_ACL: Final = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
_DISABLED: Final = {"error_code": ErrorCode.security_disabled, "error_message": "no"}
_NEW_TOPIC: Final = {
    "name": "t",
    "num_partitions": -1,
    "replication_factor": -1,
    "assignments": [{"partition_index": 0, "broker_ids": [1, 2]}],
    "configs": [{"name": "k", "value": "v"}],
}
_NOT_CREATED: Final = {"name": "t", "error_code": ErrorCode.topic_already_exists}
_EPOCH_ASKED: Final = {"topics": [{"topic": "t", "partitions": [{"partition": 3, "leader_epoch": 5}]}]}
_EPOCH_END: Final = {"partition": 3, "leader_epoch": 5, "end_offset": 77}
_TOPIC_ID: Final = UUID(int=(1 << 64) + 2)
# What the Java programs say, in our words; an answer may tell more than the version has room for.
SAID: Final[dict[tuple[str, int], tuple[dict[str, Any], dict[str, Any]]]] = {
    ("list_offsets", 0): (
        {
            "replica_id": -1,
            "topics": [
                {"name": "t", "partitions": [{"partition_index": 3, "timestamp": -2, "max_num_offsets": 7}]},
            ],
        },
        {
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {
                            "partition_index": 3,
                            "error_code": ErrorCode.unknown_topic_or_partition,
                            "old_style_offsets": [9, 5],
                            "timestamp": -1,
                            "offset": -1,
                        }
                    ],
                }
            ]
        },
    ),
    ("create_topics", 0): (
        {"topics": [_NEW_TOPIC], "timeout": 1234},
        {"topics": [_NOT_CREATED | {"error_message": "there", "num_partitions": 1}]},
    ),
    ("create_topics", 1): (
        {"topics": [_NEW_TOPIC], "timeout": 1234, "validate_only": True},
        {"throttle_time": 11, "topics": [_NOT_CREATED | {"error_message": "there"}]},
    ),
    ("delete_topics", 0): (
        {"topic_names": ["t", "u"], "timeout": 1234},
        {"responses": [{"name": "t", "error_code": ErrorCode.unknown_topic_or_partition, "topic_id": None}]},
    ),
    ("offset_for_leader_epoch", 0): (_EPOCH_ASKED, {"topics": [{"topic": "t", "partitions": [_EPOCH_END]}]}),
    ("offset_for_leader_epoch", 1): (_EPOCH_ASKED, {"topics": [{"topic": "t", "partitions": [_EPOCH_END]}]}),
    ("write_txn_markers", 0): (
        {
            "markers": [
                {
                    "producer_id": 4000,
                    "producer_epoch": 2,
                    "transaction_result": True,
                    "topics": [{"name": "t", "partition_indexes": [0, 1]}],
                    "coordinator_epoch": 6,
                }
            ]
        },
        {
            "markers": [
                {
                    "producer_id": 4000,
                    "topics": [
                        {
                            "name": "t",
                            "partitions": [{"partition_index": 1, "error_code": ErrorCode.unknown_topic_or_partition}],
                        }
                    ],
                }
            ]
        },
    ),
    ("describe_acls", 0): (
        {
            "resource_type_filter": 2,
            "resource_name_filter": "t",
            "principal_filter": None,
            "host_filter": "*",
            "operation": 3,
            "permission_type": 1,
        },
        _DISABLED
        | {
            "throttle_time": 11,
            "resources": [{"resource_type": 2, "resource_name": "t", "pattern_type": 3, "acls": [_ACL]}],
        },
    ),
    ("create_acls", 0): (
        {"creations": [{"resource_type": 2, "resource_name": "t", **_ACL}]},
        {"throttle_time": 11, "results": [_DISABLED]},
    ),
    ("delete_acls", 0): (
        {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "t",
                    "principal_filter": "User:a",
                    "host_filter": None,
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
        {
            "throttle_time": 11,
            "filter_results": [{"matching_acls": [_DISABLED | {"resource_type": 2, "resource_name": "t"} | _ACL]}],
        },
    ),
    ("describe_configs", 0): (
        {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": ["k"]}]},
        {
            "throttle_time": 11,
            "results": [
                {
                    "resource_type": 2,
                    "resource_name": "t",
                    "configs": [{"name": "k", "value": "v", "is_default": True, "config_source": 5}],
                }
            ],
        },
    ),
    ("alter_replica_log_dirs", 0): (
        {"dirs": [{"path": "/d", "topics": [{"name": "t", "partitions": [0, 1]}]}]},
        {
            "throttle_time": 11,
            "results": [
                {"topic_name": "t", "partitions": [{"partition_index": 1, "error_code": ErrorCode.log_dir_not_found}]}
            ],
        },
    ),
    ("describe_log_dirs", 0): (
        {"topics": None},
        {
            "throttle_time": 11,
            "results": [
                {
                    "log_dir": "/d",
                    "topics": [
                        {
                            "name": "t",
                            "partitions": [
                                {"partition_index": 0, "partition_size": 12, "offset_lag": 1, "is_future_key": True}
                            ],
                        }
                    ],
                }
            ],
        },
    ),
    ("api_versions", 5): (
        {"client_software_name": "a-client", "client_software_version": "1.0", "cluster_id": "c", "node_id": 3},
        {
            "error_code": ErrorCode.rebootstrap_required,
            "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 5}],
            "throttle_time": 11,
        },
    ),
    ("delete_groups", 3): (
        {"groups_names": ["g", "h"]},
        {
            "throttle_time": 11,
            "results": [{"group_id": "g", "error_code": ErrorCode.non_empty_group, "error_message": "no"}],
        },
    ),
    ("txn_offset_commit", 6): (
        {
            "transactional_id": "x",
            "group_id": "g",
            "producer_id": 4000,
            "producer_epoch": 2,
            "generation_id": 7,
            "member_id": "m",
            "group_instance_id": "i",
            "topics": [
                {
                    "topic_id": _TOPIC_ID,
                    "partitions": [
                        {
                            "partition_index": 3,
                            "committed_offset": 77,
                            "committed_leader_epoch": 5,
                            "committed_metadata": "k",
                        }
                    ],
                }
            ],
        },
        {
            "throttle_time": 11,
            "topics": [
                {
                    "name": "t",
                    "topic_id": _TOPIC_ID,
                    "partitions": [{"partition_index": 3, "error_code": ErrorCode.group_id_not_found}],
                }
            ],
        },
    ),
}


def golden() -> dict[tuple[str, int, str], bytes]:
    folder = Path(__file__).parent / "golden"
    texts = ((folder / name).read_text() for name in ("older_versions.txt", "newer_versions.txt"))
    fields = (line.split() for text in texts for line in text.splitlines())
    return {(name, int(version), kind): bytes.fromhex(text) for name, version, kind, text in fields}


def test_kafka_says_all_that_is_told_here() -> None:
    assert {(name, version) for name, version, _ in golden()} == set(SAID)


@pytest.mark.parametrize(("name", "version"), SAID)
def test_requests_are_read_as_kafka_writes_them(name: str, version: int) -> None:
    flexible = cold._entity(name, version, EntityType.request).__flexible__
    said = golden()[name, version, "request"]
    decoder = Decoder(memoryview(said), flexible=flexible)
    request = cold.decode_request(name, version, decoder)
    assert decoder.remaining == 0
    assert cold.encode_request(name, version, plain(request)) == said
    assert cold.encode_request(name, version, SAID[name, version][0]) == said


@pytest.mark.parametrize(("name", "version"), SAID)
def test_answers_are_written_as_kafka_writes_them(name: str, version: int) -> None:
    assert cold.encode_response(name, version, SAID[name, version][1]) == golden()[name, version, "response"]
