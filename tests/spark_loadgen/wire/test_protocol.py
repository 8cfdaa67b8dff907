"""The wire driver's requests and answers, held to the schemas of kio."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import kio.schema.api_versions.v0.response as api_versions
import kio.schema.init_producer_id.v1.response as given
import kio.schema.metadata.v5.response as metadata
import kio.schema.produce.v7.response as produced
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v1.request import InitProducerIdRequest
from kio.schema.metadata.v5.request import MetadataRequest
from kio.schema.produce.v7.request import ProduceRequest
from kio.schema.request_header.v1.header import RequestHeader
from kio.serial import entity_reader, entity_writer

from highwater.spark_loadgen.wire.protocol import (
    Cluster,
    MalformedAnswerError,
    ProduceAnswer,
    ProducePrefix,
    correlation_of,
    init_producer_id_request,
    metadata_request,
    parse_api_versions,
    parse_init_producer_id,
    parse_metadata,
    parse_produce,
)


def read(frame: bytes, request: type[Any]) -> tuple[RequestHeader, Any]:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, size = entity_reader(RequestHeader)(frame, 4)
    body, rest = entity_reader(request)(frame, 4 + size)
    assert 4 + size + rest == len(frame)
    return header, body


def answer(entity: Any) -> bytes:
    buffer = io.BytesIO(b"\x00\x00\x00\x07")
    buffer.seek(4)
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def test_a_produce_request_is_what_the_schema_says() -> None:
    prefix = ProducePrefix("client", -1, 30_000, "topic", 3)
    frame = prefix.encode(9, 5)
    assert prefix.size_bytes == len(frame)
    header, body = read(frame + b"batch", ProduceRequest)
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (0, 7, 9)
    assert (header.client_id, body.transactional_id, body.acks) == ("client", None, -1)
    assert body.timeout == timedelta(seconds=30)
    ((topic,)) = body.topic_data
    ((partition,)) = topic.partition_data
    assert (topic.name, partition.index, partition.records) == ("topic", 3, b"batch")


def test_a_metadata_request_makes_no_topic() -> None:
    _, body = read(metadata_request(1, "client", ["a", "b"]), MetadataRequest)
    assert [topic.name for topic in body.topics] == ["a", "b"]
    assert body.allow_auto_topic_creation is False


def test_a_producer_id_is_asked_for_without_a_transaction() -> None:
    header, body = read(init_producer_id_request(4, "client"), InitProducerIdRequest)
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (22, 1, 4)
    assert body.transactional_id is None
    response: Any = given.InitProducerIdResponse
    encoded = answer(
        response(
            throttle_time=timedelta(),
            error_code=ErrorCode.coordinator_not_available,
            producer_id=1 << 40,
            producer_epoch=0,
        )
    )
    assert parse_init_producer_id(encoded) == (15, 1 << 40)


def test_answers_are_read_as_the_schema_has_them() -> None:
    versions = tuple(
        api_versions.ApiVersion(api_key=key, min_version=low, max_version=high)  # type: ignore[arg-type]
        for key, low, high in ((0, 3, 9), (3, 0, 12))
    )
    assert parse_api_versions(
        answer(api_versions.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=versions))
    ) == {0: (3, 9), 3: (0, 12)}
    partition: Any = metadata.MetadataResponsePartition
    topic: Any = metadata.MetadataResponseTopic
    broker: Any = metadata.MetadataResponseBroker
    replicas = {"replica_nodes": (1, 2), "isr_nodes": (2,), "offline_replicas": (1,)}
    response: Any = metadata.MetadataResponse
    cluster = response(
        throttle_time=timedelta(),
        brokers=(broker(node_id=2, host="h", port=9092, rack="r"),),
        cluster_id="c",
        controller_id=2,
        topics=(
            topic(
                error_code=ErrorCode.none,
                name="t",
                is_internal=False,
                partitions=(
                    partition(error_code=ErrorCode.none, partition_index=0, leader_id=2, **replicas),
                    partition(error_code=ErrorCode.leader_not_available, partition_index=1, leader_id=-1, **replicas),
                ),
            ),
            topic(error_code=ErrorCode.unknown_topic_or_partition, name="u", is_internal=False, partitions=()),
        ),
    )
    assert parse_metadata(answer(cluster)) == Cluster({2: ("h", 9092)}, {("t", 0): 2, ("t", 1): -1}, {"u": 3})


def test_a_produce_answer_gives_error_and_throttle() -> None:
    partition: Any = produced.PartitionProduceResponse
    topic: Any = produced.TopicProduceResponse
    response: Any = produced.ProduceResponse
    answered = partition(
        index=3, error_code=ErrorCode.not_leader_or_follower, base_offset=7, log_append_time=None, log_start_offset=0
    )
    encoded = answer(
        response(
            responses=(topic(name="t", partition_responses=(answered,)),), throttle_time=timedelta(milliseconds=12)
        )
    )
    assert correlation_of(encoded) == 7
    assert parse_produce(encoded) == ProduceAnswer(6, 12)
    for end in range(4, len(encoded)):
        with pytest.raises(MalformedAnswerError):
            parse_produce(encoded[:end])
