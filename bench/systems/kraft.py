"""Who is the active controller of a KRaft cluster.

Its brokers report any live broker as the controller to clients that ask for Metadata, and the active controller to
those that ask for the state of the quorum (DescribeQuorum, KIP-595).
"""

from __future__ import annotations

import io
import socket
from typing import Final

from kio.schema.describe_quorum.v0 import request as asked
from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from highwater.spark_loadgen.wire.connection import addresses_of, exchange, first_to_answer
from highwater.spark_loadgen.wire.protocol import LENGTH, api_versions_request, parse_api_versions, request

_DESCRIBE_QUORUM: Final = 55
_VERSION: Final = 0
_METADATA_LOG: Final = TopicName("__cluster_metadata")
_CLIENT_ID: Final = "highwater-bench"
# Ends the header of a flexible request, and begins the rest of that of its answer.
_NO_TAGS: Final = b"\x00"


def active_controller(bootstrap_servers: str) -> int | None:
    """Its number; -1 while there is none, None when this is no KRaft cluster. Raises OSError when nobody answers."""

    def ask(connection: socket.socket) -> int | None:
        spoken = parse_api_versions(exchange(connection, api_versions_request(1, _CLIENT_ID)))
        if _DESCRIBE_QUORUM not in spoken:
            return None
        body = io.BytesIO()
        partition = asked.PartitionData(partition_index=i32(0))
        topic = asked.TopicData(topic_name=_METADATA_LOG, partitions=(partition,))
        entity_writer(asked.DescribeQuorumRequest)(body, asked.DescribeQuorumRequest(topics=(topic,)))
        frame = request(_DESCRIBE_QUORUM, _VERSION, 2, _CLIENT_ID, _NO_TAGS + body.getvalue())
        answer, _ = entity_reader(DescribeQuorumResponse)(exchange(connection, frame), LENGTH.size + len(_NO_TAGS))
        return next((told.leader_id for topic in answer.topics for told in topic.partitions), -1)

    return first_to_answer(addresses_of(bootstrap_servers), ask)
