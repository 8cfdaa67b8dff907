"""What a controller and its brokers ask each other, against Apache Kafka 3.9's bytes (golden/ClusterVersions.java)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import CLUSTER_APIS
from highwater.kafka.protocol.primitives import Decoder
from tests.kafka.protocol.plain import plain

_TOPIC_ID: Final = UUID(int=0x0123456789ABCDEF_0FEDCBA987654321)
_CONTROLLER: Final = {"controller_id": 5, "controller_epoch": 7, "broker_epoch": 123456789012}
_BROKER: Final = {"broker_id": 5, "broker_epoch": 123456789012}
_NAMED: Final = {"topic_name": "t"}
_LEADER_AND_ISR: Final = {
    "partition_index": 3,
    "controller_epoch": 7,
    "leader": 1,
    "leader_epoch": 9,
    "isr": [1, 2],
    "partition_epoch": 11,
    "replicas": [1, 2, 4],
    "is_new": True,
}
_REASSIGNED: Final = {"adding_replicas": [4], "removing_replicas": [2], "leader_recovery_state": 1}
_PARTITION_METADATA: Final = {
    "partition_index": 3,
    "controller_epoch": 7,
    "leader": 1,
    "leader_epoch": 9,
    "isr": [1, 2],
    "zk_version": 11,
    "replicas": [1, 2, 4],
    "offline_replicas": [4],
}
# What ClusterVersions.java says, in our words: all that any version has room for.
SAID: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "leader_and_isr": (
        _CONTROLLER
        | {
            "type": 1,
            "ungrouped_partition_states": [_NAMED | _LEADER_AND_ISR],
            "topic_states": [
                {"topic_name": "t", "topic_id": _TOPIC_ID, "partition_states": [_LEADER_AND_ISR | _REASSIGNED]}
            ],
            "live_leaders": [{"broker_id": 1, "host_name": "h", "port": 9092}],
        },
        {
            "error_code": ErrorCode.stale_controller_epoch,
            "partition_errors": [
                {"topic_name": "t", "partition_index": 3, "error_code": ErrorCode.kafka_storage_error}
            ],
            "topics": [
                {
                    "topic_id": _TOPIC_ID,
                    "partition_errors": [{"partition_index": 3, "error_code": ErrorCode.kafka_storage_error}],
                }
            ],
        },
    ),
    "stop_replica": (
        _CONTROLLER
        | {
            "delete_partitions": True,
            "ungrouped_partitions": [{"topic_name": "t", "partition_index": 3}],
            "topics": [{"name": "t", "partition_indexes": [3, 4]}],
            "topic_states": [
                {
                    "topic_name": "t",
                    "partition_states": [{"partition_index": 3, "leader_epoch": 9, "delete_partition": True}],
                }
            ],
        },
        {
            "error_code": ErrorCode.stale_controller_epoch,
            "partition_errors": [
                {"topic_name": "t", "partition_index": 3, "error_code": ErrorCode.fenced_leader_epoch}
            ],
        },
    ),
    "update_metadata": (
        _CONTROLLER
        | {
            "type": 2,
            "ungrouped_partition_states": [_NAMED | _PARTITION_METADATA],
            "topic_states": [{"topic_name": "t", "topic_id": _TOPIC_ID, "partition_states": [_PARTITION_METADATA]}],
            "live_brokers": [
                {
                    "id": 1,
                    "v0_host": "h",
                    "v0_port": 9092,
                    "endpoints": [{"port": 9092, "host": "h", "listener": "INSIDE", "security_protocol": 3}],
                    "rack": "r",
                },
                {"id": 2},
            ],
        },
        {"error_code": ErrorCode.stale_broker_epoch},
    ),
    "controlled_shutdown": (
        _BROKER,
        {"error_code": ErrorCode.not_controller, "remaining_partitions": [{"topic_name": "t", "partition_index": 3}]},
    ),
    "alter_partition": (
        _BROKER
        | {
            "topics": [
                {
                    "topic_name": "t",
                    "topic_id": _TOPIC_ID,
                    "partitions": [
                        {
                            "partition_index": 3,
                            "leader_epoch": 9,
                            "new_isr": [1, 2],
                            "new_isr_with_epochs": [{"broker_id": 1}, {"broker_id": 2, "broker_epoch": 44}],
                            "leader_recovery_state": 1,
                            "partition_epoch": 11,
                        }
                    ],
                }
            ]
        },
        {
            "throttle_time": 11,
            "error_code": ErrorCode.not_controller,
            "topics": [
                {
                    "topic_name": "t",
                    "topic_id": _TOPIC_ID,
                    "partitions": [
                        {
                            "partition_index": 3,
                            "error_code": ErrorCode.ineligible_replica,
                            "leader_id": 1,
                            "leader_epoch": 9,
                            "isr": [1, 2],
                            "leader_recovery_state": 1,
                            "partition_epoch": 12,
                        }
                    ],
                }
            ],
        },
    ),
    "allocate_producer_ids": (
        _BROKER,
        {
            "throttle_time": 11,
            "error_code": ErrorCode.stale_broker_epoch,
            "producer_id_start": 5000,
            "producer_id_len": 1000,
        },
    ),
}
_FLEXIBLE_FROM: Final = {api.name: api.flexible_from for api in CLUSTER_APIS.values()}


def golden() -> dict[tuple[str, int, str], bytes]:
    lines = (Path(__file__).parent / "golden" / "cluster_versions.txt").read_text().splitlines()
    fields = (line.split() for line in lines)
    return {(name, int(version), kind): bytes.fromhex(text) for name, version, kind, text in fields}


VERSIONS: Final = [(api.name, version) for api in CLUSTER_APIS.values() for version in range(api.max_version + 1)]


def decoder(name: str, version: int, kind: str) -> Decoder:
    return Decoder(memoryview(golden()[name, version, kind]), flexible=version >= _FLEXIBLE_FROM[name])


def test_kafka_says_all_versions() -> None:
    assert {(name, version) for name, version, _ in golden()} == set(VERSIONS)
    assert {api.name for api in CLUSTER_APIS.values()} == set(SAID)


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_requests_are_written_and_read_as_by_kafka(name: str, version: int) -> None:
    bytes_of_kafka = golden()[name, version, "request"]
    assert cold.encode_request(name, version, SAID[name][0]) == bytes_of_kafka
    body = decoder(name, version, "request")
    assert cold.encode_request(name, version, plain(cold.decode_request(name, version, body))) == bytes_of_kafka
    assert body.remaining == 0


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_answers_are_written_and_read_as_by_kafka(name: str, version: int) -> None:
    bytes_of_kafka = golden()[name, version, "response"]
    assert cold.encode_response(name, version, SAID[name][1]) == bytes_of_kafka
    body = decoder(name, version, "response")
    assert cold.encode_response(name, version, plain(cold.decode_response(name, version, body))) == bytes_of_kafka
    assert body.remaining == 0
