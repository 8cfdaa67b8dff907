"""Fetch: the records of one partition, for a consumer without a session."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request
from highwater.kafka.protocol import fetch
from highwater.kafka.protocol.primitives import Decoder
from highwater.kafka.requests.broker_error import LEFT_OUT, BrokerError, error_of


@dataclass(frozen=True, slots=True)
class Fetch:
    """A request for records: `max_bytes` at most, but the first batch in any case.

    The broker waits `max_wait_ms` for `min_bytes`. With `topic_id`, a topic that was deleted and created again is
    UNKNOWN_TOPIC_ID.
    """

    topic: str
    partition: int
    offset: int
    read_committed: bool = False
    max_bytes: int = 4 << 20
    min_bytes: int = 1
    max_wait_ms: int = 500
    topic_id: UUID | None = None

    @property
    def of(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Fetched:
    """The records from the batch of the offset on; the first batch may begin before it, the last may be cut off.

    aborted: (producer id, first offset) of aborted transactions; None if uncommitted records were asked for too.
    log_start_offset: −1 if the broker does not report it.
    """

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] | None


def fetch_records(wanted: Fetch, leader_epoch: int = -1) -> Request[Fetched | BrokerError]:
    """Fetch without a session, by the topic's id if it is given and the broker knows ids (Kafka 3.1)."""
    asked = fetch.FetchPartition(wanted.partition, leader_epoch, wanted.offset, -1, wanted.max_bytes)

    def encode(version: int) -> bytes:
        has_id = wanted.topic_id is not None and version >= fetch.TOPIC_IDS_FROM
        named = wanted.topic_id if has_id else wanted.topic
        assert named is not None
        return fetch.encode_consumer_request(
            fetch.FetchRequest(
                fetch.CONSUMER_REPLICA_ID,
                wanted.max_wait_ms,
                wanted.min_bytes,
                wanted.max_bytes,
                int(wanted.read_committed),
                0,
                -1,
                [(named, [asked])],
                [],
                "",
            ),
            version,
        )

    def decode(decoder: Decoder, version: int) -> Fetched | BrokerError:
        error_code, partitions = fetch.decode_consumer_response(decoder, version)
        if error := error_of(error_code):
            return error
        found = next((each for each in partitions if each.partition == wanted.partition), None)
        if found is None:
            return LEFT_OUT
        if found.error_code is not ErrorCode.none:
            return BrokerError(found.error_code)
        aborted = found.aborted_transactions
        return Fetched(
            memoryview(found.records),
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            tuple(aborted or ()) if wanted.read_committed else None,
        )

    most = fetch.FOLLOWER_VERSION if wanted.topic_id is not None else fetch.FLEXIBLE_FROM
    return Request("fetch", fetch.FLEXIBLE_FROM, most, encode, decode)
