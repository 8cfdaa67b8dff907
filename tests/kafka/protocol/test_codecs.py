"""The hand-written codecs of Produce, Fetch and Metadata against kio's generated ones."""

from __future__ import annotations

import contextlib
import datetime
import io
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import Records

from highwater.kafka.protocol import cold, fetch, metadata, produce
from highwater.kafka.protocol.apis import APIS
from highwater.kafka.protocol.frame import Parts
from highwater.kafka.protocol.primitives import ZERO_UUID, Decoder, MalformedRequestError

st.register_type_strategy(Records, st.binary(max_size=300).map(Records.parse))

API_BY_NAME = {api.name: api for api in APIS.values()}
MODULES: dict[str, Any] = {"produce": produce, "fetch": fetch, "metadata": metadata}
# kio lists no Metadata v0 request whose topics are null, and Produce 0 to 2 are not served by anybody.
VERSIONS = [
    (name, version)
    for name in MODULES
    for version in range(API_BY_NAME[name].max_version + 1)
    if API_BY_NAME[name].serves(version)
]

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=20)
errors = st.sampled_from(list(ErrorCode))
records = st.binary(max_size=300)
fuzz = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def kio_class(name: str, version: int, kind: EntityType) -> Any:
    return cold._entity(name, version, kind)


def encoded(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def decoded(name: str, version: int, parts: Parts) -> Any:
    raw = b"".join(bytes(part) for part in parts)
    entity, size = entity_reader(kio_class(name, version, EntityType.response))(raw, 0)
    assert size == len(raw), "bytes are left after the answer"
    return entity


def milliseconds(duration: datetime.timedelta) -> int:
    return duration // datetime.timedelta(milliseconds=1)


def decode(name: str, version: int, raw: bytes) -> Any:
    """Decode a request that does not begin at the beginning of its buffer, as behind a header."""
    decoder = Decoder(memoryview(b"header" + raw), len(b"header"), flexible=API_BY_NAME[name].is_flexible(version))
    return MODULES[name].decode_request(decoder, version)


@pytest.mark.parametrize("version", [v for n, v in VERSIONS if n == "produce"])
@fuzz
@given(data=st.data())
def test_produce_requests(version: int, data: st.DataObject) -> None:
    request = data.draw(st.from_type(kio_class("produce", version, EntityType.request)))
    ours = decode("produce", version, encoded(request))
    assert ours.transactional_id == request.transactional_id
    assert (ours.acks, ours.timeout_ms) == (request.acks, milliseconds(request.timeout))
    assert [
        (topic, [(index, None if records is None else bytes(records)) for index, records in partitions])
        for topic, partitions in ours.topics
    ] == [
        (key_of(topic, version), [(p.index, p.records) for p in topic.partition_data]) for topic in request.topic_data
    ]


def key_of(topic: Any, version: int) -> str | UUID:
    """What kio has for a topic of Produce."""
    return topic.name if version < produce.TOPIC_IDS_FROM else topic.topic_id or ZERO_UUID


produced = st.builds(
    produce.PartitionProduced,
    int32s,
    errors,
    int64s,
    st.just(-1) | st.integers(0, 2**40),
    int64s,
    st.none() | names,
    st.lists(st.tuples(int32s, names), max_size=3),
)


@pytest.mark.parametrize("version", [v for n, v in VERSIONS if n == "produce"])
@fuzz
@given(data=st.data())
def test_produce_responses(version: int, data: st.DataObject) -> None:
    keys: st.SearchStrategy[str | UUID] = names if version < produce.TOPIC_IDS_FROM else st.uuids(allow_nil=True)
    topics = data.draw(st.lists(st.tuples(keys, st.lists(produced, max_size=3)), max_size=3))
    answer = decoded("produce", version, produce.encode_response(topics, version))
    assert [key_of(topic, version) for topic in answer.responses] == [key for key, _ in topics]
    theirs = [entry for topic in answer.responses for entry in topic.partition_responses]
    ours = [entry for _, entries in topics for entry in entries]
    for one, other in zip(ours, theirs, strict=True):
        assert (one.partition, one.error_code, one.base_offset) == (other.index, other.error_code, other.base_offset)
        time_ms = -1 if other.log_append_time is None else round(other.log_append_time.timestamp() * 1000)
        assert one.log_append_time_ms == time_ms
        if version >= 5:
            assert one.log_start_offset == other.log_start_offset
        if version >= 8:
            assert one.error_message == other.error_message
            told = [(error.batch_index, error.batch_index_error_message) for error in other.record_errors]
            assert told == one.record_errors


@pytest.mark.parametrize("version", [v for n, v in VERSIONS if n == "fetch"])
@fuzz
@given(data=st.data())
def test_fetch_requests(version: int, data: st.DataObject) -> None:
    request = data.draw(st.from_type(kio_class("fetch", version, EntityType.request)))
    ours = decode("fetch", version, encoded(request))
    replica = (request.replica_state.replica_id, request.replica_state.replica_epoch) if version >= 15 else None
    assert (ours.replica_id, ours.replica_epoch) == (replica or (request.replica_id, -1))
    assert (ours.max_wait_ms, ours.min_bytes) == (milliseconds(request.max_wait), request.min_bytes)
    assert (ours.max_bytes, ours.isolation_level) == (request.max_bytes, request.isolation_level)
    if version >= 7:
        assert (ours.session_id, ours.session_epoch) == (request.session_id, request.session_epoch)
        assert ours.forgotten == [
            (((topic.topic_id or ZERO_UUID) if version >= 13 else topic.topic), partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ]
    if version >= 11:
        assert ours.rack_id == request.rack_id
    assert len(ours.topics) == len(request.topics)
    for one, other in zip(ours.topics, request.topics, strict=True):
        topic, partitions = one
        assert topic == ((other.topic_id or ZERO_UUID) if version >= 13 else other.topic)
        for mine, theirs in zip(partitions, other.partitions, strict=True):
            assert mine.partition == theirs.partition
            assert mine.fetch_offset == theirs.fetch_offset
            assert mine.partition_max_bytes == theirs.partition_max_bytes
            assert mine.current_leader_epoch == getattr(theirs, "current_leader_epoch", -1)
            assert mine.last_fetched_epoch == getattr(theirs, "last_fetched_epoch", -1)
            assert mine.log_start_offset == getattr(theirs, "log_start_offset", -1)


fetched = st.builds(
    fetch.PartitionFetched,
    int32s,
    errors,
    int64s,
    int64s,
    int64s,
    records,
    st.none() | st.lists(st.tuples(int64s, int64s), max_size=3),
    st.none() | st.tuples(st.integers(0, 2**31 - 1), int64s),
    int32s,
)


@pytest.mark.parametrize("version", [v for n, v in VERSIONS if n == "fetch"])
@fuzz
@given(
    topics=st.lists(st.tuples(names, st.uuids(), st.lists(fetched, max_size=3)), max_size=3),
    error=errors,
    session_id=int32s,
)
def test_fetch_responses(
    version: int, topics: list[tuple[str, UUID, list[fetch.PartitionFetched]]], error: ErrorCode, session_id: int
) -> None:
    by_id = version >= fetch.TOPIC_IDS_FROM
    keyed: list[tuple[str | UUID, list[fetch.PartitionFetched]]] = [
        (topic_id if by_id else name, entries) for name, topic_id, entries in topics
    ]
    answer = decoded("fetch", version, fetch.encode_response(keyed, version, error_code=error, session_id=session_id))
    if version >= 7:
        assert (answer.error_code, answer.session_id) == (error, session_id)
    assert [topic.topic_id if by_id else topic.topic for topic in answer.responses] == [key for key, _ in keyed]
    theirs = [entry for topic in answer.responses for entry in topic.partitions]
    ours = [entry for _, entries in keyed for entry in entries]
    for one, other in zip(ours, theirs, strict=True):
        assert (one.partition, one.error_code) == (other.partition_index, other.error_code)
        assert (one.high_watermark, one.last_stable_offset) == (other.high_watermark, other.last_stable_offset)
        assert one.records == other.records
        aborted = other.aborted_transactions
        assert one.aborted_transactions == (
            None if aborted is None else [(entry.producer_id, entry.first_offset) for entry in aborted]
        )
        if version >= 5:
            assert one.log_start_offset == other.log_start_offset
        if version >= 11:
            assert one.preferred_read_replica == other.preferred_read_replica
        if version >= 12:
            diverging = (other.diverging_epoch.epoch, other.diverging_epoch.end_offset)
            assert one.diverging_epoch == (None if diverging == (-1, -1) else diverging)


asked = st.builds(
    fetch.FetchRequest,
    int32s,
    st.integers(0, 2**31 - 1),
    int32s,
    int32s,
    st.integers(-128, 127),
    int32s,
    int32s,
    st.lists(
        st.tuples(
            st.uuids().filter(lambda topic_id: topic_id != ZERO_UUID),
            st.lists(st.builds(fetch.FetchPartition, int32s, int32s, int64s, int32s, int32s, int64s), max_size=3),
        ),
        max_size=3,
    ),
    st.dictionaries(st.uuids(), st.lists(int32s, min_size=1, max_size=3), max_size=2).map(
        lambda topics: [(topic, partition) for topic, partitions in topics.items() for partition in partitions]
    ),
    names,
    int64s,
)


def asked_values(request: fetch.FetchRequest) -> tuple[Any, ...]:
    wanted = [(topic, [values(each, _PARTITION_FIELDS) for each in partitions]) for topic, partitions in request.topics]
    return values(request, _REQUEST_FIELDS), wanted


_REQUEST_FIELDS: Final = (
    *("replica_id", "max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch"),
    *("forgotten", "rack_id", "replica_epoch"),
)
_PARTITION_FIELDS: Final = (
    *("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "partition_max_bytes"),
    "log_start_offset",
)


def values(of: object, names: tuple[str, ...]) -> list[Any]:
    return [getattr(of, name) for name in names]


@settings(parent=fuzz, max_examples=50)
@given(request=asked)
def test_what_followers_ask(request: fetch.FetchRequest) -> None:
    raw = fetch.encode_follower_request(request)
    assert asked_values(decode("fetch", fetch.FOLLOWER_VERSION, raw)) == asked_values(request)
    entity, size = entity_reader(kio_class("fetch", fetch.FOLLOWER_VERSION, EntityType.request))(raw, 0)
    assert size == len(raw)
    assert [topic.topic_id for topic in entity.topics] == [topic for topic, _ in request.topics]


@settings(parent=fuzz, max_examples=50)
@given(data=st.data())
def test_what_followers_are_answered(data: st.DataObject) -> None:
    answer = data.draw(st.from_type(kio_class("fetch", fetch.FOLLOWER_VERSION, EntityType.response)))
    ours = fetch.decode_follower_response(memoryview(encoded(answer)))
    assert (ours.error_code, ours.session_id) == (answer.error_code, answer.session_id)
    assert [topic_id for topic_id, _ in ours.topics] == [topic.topic_id or ZERO_UUID for topic in answer.responses]
    mine = [entry for _, entries in ours.topics for entry in entries]
    theirs = [entry for topic in answer.responses for entry in topic.partitions]
    for one, other in zip(mine, theirs, strict=True):
        assert (one.partition, one.error_code) == (other.partition_index, other.error_code)
        assert (one.high_watermark, one.last_stable_offset) == (other.high_watermark, other.last_stable_offset)
        assert (one.log_start_offset, one.preferred_read_replica) == (
            other.log_start_offset,
            other.preferred_read_replica,
        )
        assert bytes(one.records) == (other.records or b"")
        diverging = (other.diverging_epoch.epoch, other.diverging_epoch.end_offset)
        assert one.diverging_epoch == (None if diverging == (-1, -1) else diverging)
        assert one.aborted_transactions == [
            (entry.producer_id, entry.first_offset) for entry in other.aborted_transactions or ()
        ]


@settings(parent=fuzz, max_examples=50)
@given(data=st.data(), at=st.integers(0, 200))
def test_answers_cut_off_are_malformed_to_followers(data: st.DataObject, at: int) -> None:
    raw = encoded(data.draw(st.from_type(kio_class("fetch", fetch.FOLLOWER_VERSION, EntityType.response))))
    with contextlib.suppress(MalformedRequestError):
        fetch.decode_follower_response(memoryview(raw[:at]))


@pytest.mark.parametrize("version", [v for n, v in VERSIONS if n == "metadata"])
@fuzz
@given(data=st.data())
def test_metadata_requests(version: int, data: st.DataObject) -> None:
    request = data.draw(st.from_type(kio_class("metadata", version, EntityType.request)))
    ours = decode("metadata", version, encoded(request))
    wants_all = request.topics is None or (version == 0 and not request.topics)
    expected = (
        None
        if wants_all
        else [(topic.name, (getattr(topic, "topic_id", None) or ZERO_UUID)) for topic in request.topics]
    )
    assert (None if ours.topics is None else [tuple(topic) for topic in ours.topics]) == expected
    assert ours.allow_auto_topic_creation == getattr(request, "allow_auto_topic_creation", True)
    for flag in ("include_cluster_authorized_operations", "include_topic_authorized_operations"):
        assert getattr(ours, flag) == getattr(request, flag, False)


ids = st.lists(int32s, max_size=3)
described = st.builds(
    metadata.TopicMetadata,
    errors,
    names,
    st.uuids(),
    st.booleans(),
    st.lists(st.builds(metadata.PartitionMetadata, errors, int32s, int32s, int32s, ids, ids, ids), max_size=3),
    int32s,
)
clusters = st.builds(
    metadata.ClusterMetadata,
    st.lists(st.builds(metadata.BrokerMetadata, int32s, names, int32s, st.none() | names), max_size=3),
    st.none() | names,
    int32s,
    st.lists(described, max_size=3),
    int32s,
)


@pytest.mark.parametrize("version", [v for n, v in VERSIONS if n == "metadata"])
@fuzz
@given(cluster=clusters)
def test_metadata_responses(version: int, cluster: metadata.ClusterMetadata) -> None:
    answer = decoded("metadata", version, metadata.encode_response(cluster, version))
    for broker, theirs in zip(cluster.brokers, answer.brokers, strict=True):
        assert (broker.node_id, broker.host, broker.port) == (theirs.node_id, theirs.host, theirs.port)
        if version >= 1:
            assert broker.rack == theirs.rack
    if version >= 1:
        assert cluster.controller_id == answer.controller_id
    if version >= 2:
        assert cluster.cluster_id == answer.cluster_id
    if 8 <= version <= 10:
        assert cluster.authorized_operations == answer.cluster_authorized_operations
    if version >= 13:
        assert answer.error_code == ErrorCode.none
    for topic, other in zip(cluster.topics, answer.topics, strict=True):
        assert (topic.error_code, topic.name) == (other.error_code, other.name)
        if version >= 1:
            assert topic.is_internal == other.is_internal
        if version >= 8:
            assert topic.authorized_operations == other.topic_authorized_operations
        if version >= 10:
            assert topic.topic_id == (other.topic_id or ZERO_UUID)
        for partition, mirrored in zip(topic.partitions, other.partitions, strict=True):
            assert (partition.error_code, partition.partition) == (mirrored.error_code, mirrored.partition_index)
            assert partition.leader_id == mirrored.leader_id
            assert tuple(partition.replicas) == mirrored.replica_nodes
            assert tuple(partition.in_sync_replicas) == mirrored.isr_nodes
            if version >= 5:
                assert tuple(partition.offline_replicas) == mirrored.offline_replicas
            if version >= 7:
                assert partition.leader_epoch == mirrored.leader_epoch


def test_a_topic_without_a_name_is_answered_in_every_version() -> None:
    nameless = metadata.TopicMetadata(ErrorCode.unknown_topic_id, None, UUID(int=7))
    for version in (10, 11, 12):
        parts = metadata.encode_response(metadata.ClusterMetadata([], None, 0, [nameless]), version)
        assert decoded("metadata", version, parts).topics[0].topic_id == UUID(int=7)


@pytest.mark.parametrize(("name", "version"), VERSIONS)
@fuzz
@given(data=st.data())
def test_requests_cut_short_are_malformed_not_misread(name: str, version: int, data: st.DataObject) -> None:
    raw = encoded(data.draw(st.from_type(kio_class(name, version, EntityType.request))))
    cut = data.draw(st.integers(0, len(raw) - 1)) if raw else 0
    if raw:
        with pytest.raises(MalformedRequestError):
            decode(name, version, raw[:cut])


@pytest.mark.parametrize(("name", "version"), VERSIONS)
@fuzz
@given(raw=st.binary(max_size=200))
def test_garbage_is_decoded_or_malformed(name: str, version: int, raw: bytes) -> None:
    with contextlib.suppress(MalformedRequestError):
        decode(name, version, raw)


def test_every_hand_written_version_is_one_that_kio_knows() -> None:
    for name, version in VERSIONS:
        assert version in schema_name_map[name]
