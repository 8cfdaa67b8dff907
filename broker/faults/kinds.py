"""The table of all kinds of faults: what each does, its APIs and its parameters.

docs/faults.md shows this table; `python -m tests.faults_page` writes it.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.faults import effects
from highwater.broker.faults.effects import Effect
from highwater.broker.faults.request import API_NAMES, CONNECT, FaultRequest
from highwater.common.nearest import did_you_mean
from highwater.common.yaml_part import Part
from highwater.kafka.protocol import cold

Values = Mapping[str, Any]
ERRORS: Final = {error.name.upper(): error for error in ErrorCode if error is not ErrorCode.none}
ALL: Final = tuple(API_NAMES)
_PARTITIONS: Final = ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch")
_MEMBER: Final = ("JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit")
_GROUP: Final = (*_MEMBER, "LeaveGroup", "OffsetFetch", "DescribeGroups", "ConsumerGroupDescribe")
_TRANSACTION: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit")
_COORDINATED: Final = (*_GROUP, "DeleteGroups", *_TRANSACTION)
_BROKER_LISTS: Final = ("Metadata", "DescribeCluster", "FindCoordinator")
_FENCED_FROM: Final = {"InitProducerId": 4, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2, "EndTxn": 2}
"""The versions from which PRODUCER_FENCED stands for INVALID_PRODUCER_EPOCH (KIP-588)."""
_MS: Final = 1 << 31


class Parameter(NamedTuple):
    says: str
    read: Callable[[Part, str], Any]
    default: str = "required"
    """Its text in the table."""


class FaultKind(NamedTuple):
    name: str
    apis: tuple[str, ...]
    says: str
    make: Callable[[Values, FaultRequest], tuple[Effect, ...]]
    parameters: Mapping[str, Parameter] = {}
    fits: Callable[[Values, FaultRequest], bool] = lambda values, request: True
    """Whether a request of these APIs can have the fault: older versions lack fields, or a limit is not reached."""

    def read(self, part: Part) -> dict[str, Any]:
        part.check_keys(("kind", *self.parameters))
        return {name: parameter.read(part, name) for name, parameter in self.parameters.items()}


def _number(says: str, least: int, default: int | None = None) -> Parameter:
    shown = "required" if default is None else str(default)
    return Parameter(says, lambda part, key: part.integer(key, least, default), shown)


def read_error(part: Part, key: str) -> ErrorCode:
    text = part.text(key)
    if text not in ERRORS:
        part.fail(key, f"Kafka has no error {text}{did_you_mean(text.upper(), ERRORS)}")
    return ERRORS[text]


def read_api(part: Part, key: str, name: str, known: Collection[str]) -> str:
    if name not in known:
        part.fail(key, f"there is no API {name}{did_you_mean(name, known)}")
    return name


def _read_versions(part: Part, key: str) -> dict[int, int]:
    inner = part.part(key)
    return {API_NAMES[read_api(inner, name, name, API_NAMES)].key: inner.integer(name, 0) for name in part.texts(key)}


def _always(*made: Effect) -> Callable[[Values, FaultRequest], tuple[Effect, ...]]:
    return lambda values, request: made


def _fails(name: str, apis: tuple[str, ...], error: ErrorCode, says: str) -> FaultKind:
    return FaultKind(name, apis, f"{says} Answers `{error.name.upper()}`.", _always(effects.Fail(error)))


def _rewrites(change: Callable[..., Any], *names: str) -> Callable[[Values, FaultRequest], tuple[Effect, ...]]:
    def make(values: Values, request: FaultRequest) -> tuple[Effect, ...]:
        arguments = {name: values[name] for name in names}
        return (effects.Rewrite(functools.partial(change, topic=values["topic"], **arguments)),)

    return make


# Changes of decoded answers


def _throttled(answer: Any, topic: str, *, ms: int) -> Any:
    return dataclasses.replace(answer, throttle_time=type(answer.throttle_time)(milliseconds=ms))


@functools.cache
def has_throttle_time(name: str, version: int) -> bool:
    return "throttle_time" in cold.response_type(name, version).__dataclass_fields__


def _of_topics(
    answer: Any, topic: str, change_topic: Callable[[Any], Any], change_partition: Callable[[Any], Any]
) -> Any:
    """Change the topics of a Metadata answer that the rule names, and their partitions."""

    def changed(found: Any) -> Any:
        if not fnmatchcase(found.name or "", topic):
            return found
        found = change_topic(found)
        return dataclasses.replace(found, partitions=tuple(map(change_partition, found.partitions)))

    return dataclasses.replace(answer, topics=tuple(map(changed, answer.topics)))


def _old_leader(answer: Any, topic: str, *, broker: int) -> Any:
    def moved(partition: Any) -> Any:
        others = [each.node_id for each in answer.brokers if each.node_id != partition.leader_id]
        leader = broker if broker >= 0 else min(others, default=partition.leader_id + 1)
        return dataclasses.replace(partition, leader_id=type(partition.leader_id)(leader))

    return _of_topics(answer, topic, lambda found: found, moved)


def _no_leader(answer: Any, topic: str) -> Any:
    error = ErrorCode.leader_not_available

    def without(partition: Any) -> Any:
        return dataclasses.replace(partition, error_code=error, leader_id=type(partition.leader_id)(-1))

    return _of_topics(answer, topic, lambda found: found, without)


def _no_topic(answer: Any, topic: str) -> Any:
    def missing(found: Any) -> Any:
        return dataclasses.replace(found, error_code=ErrorCode.unknown_topic_or_partition, partitions=())

    return _of_topics(answer, topic, missing, lambda partition: partition)


def _wrong_port(answer: Any, topic: str, *, port: int) -> Any:
    """Replace the port of each broker in an answer."""
    changes: dict[str, Any] = {}
    for name in answer.__dataclass_fields__:
        if name in ("brokers", "coordinators"):
            changes[name] = tuple(_wrong_port(each, topic, port=port) for each in getattr(answer, name))
        elif name == "port":
            changes[name] = type(answer.port)(port)
    return dataclasses.replace(answer, **changes)


def _lower_versions(answer: Any, topic: str, *, versions: Mapping[int, int]) -> Any:
    def lowered(each: Any) -> Any:
        most = versions.get(each.api_key, each.max_version)
        return dataclasses.replace(each, max_version=type(each.max_version)(min(most, each.max_version)))

    return dataclasses.replace(answer, api_keys=tuple(map(lowered, answer.api_keys)))


def _fetched(change: Callable[[Any], Any]) -> Callable[[Any, str], Any]:
    """Change the partitions of a Fetch answer; those of topics that have an id alone all together."""

    def changed(answer: Any, topic: str) -> Any:
        responses = (
            dataclasses.replace(found, partitions=tuple(map(change, found.partitions)))
            if fnmatchcase(getattr(found, "topic", topic), topic)
            else found
            for found in answer.responses
        )
        return dataclasses.replace(answer, responses=tuple(responses))

    return changed


def _corrupt(partition: Any) -> Any:
    records = partition.records
    if not records:
        return partition
    damaged = bytearray(records)
    damaged[-2] ^= 0xFF  # of a value, where a record has no headers: a client that checks no CRC delivers it
    return dataclasses.replace(partition, records=type(records)(bytes(damaged)))


def _empty(partition: Any) -> Any:
    return partition if not partition.records else dataclasses.replace(partition, records=type(partition.records)(b""))


# Changes of the bytes of an answer


def _wrong_correlation_id(answer: bytes, random: Random) -> bytes:
    return answer[:4] + bytes([answer[4] ^ 0x40]) + answer[5:]


def _garbage(answer: bytes, random: Random) -> bytes:
    return answer[:8] + random.randbytes(len(answer) - 8)


def _wrong_length(answer: bytes, random: Random, bytes_more: int) -> bytes:
    return max(0, len(answer) - 4 + bytes_more).to_bytes(4, "big") + answer[4:]


def _duplicate(answer: bytes, random: Random) -> bytes:
    return answer * 2


def _fenced(values: Values, request: FaultRequest) -> tuple[Effect, ...]:
    is_newer = request.version >= _FENCED_FROM.get(request.name, _MS)
    return (effects.Fail(ErrorCode.producer_fenced if is_newer else ErrorCode.invalid_producer_epoch),)


def _unknown_producer(values: Values, request: FaultRequest) -> tuple[Effect, ...]:
    is_produce = request.name == "Produce"
    return (effects.Fail(ErrorCode.unknown_producer_id if is_produce else ErrorCode.invalid_producer_id_mapping),)


_ANY_MS: Final = _number("Milliseconds.", 1)
_ERROR: Final = Parameter("The error by Kafka's name, such as `NOT_LEADER_OR_FOLLOWER`.", read_error)

KINDS: Final = {
    kind.name: kind
    for kind in (
        FaultKind(
            "error",
            ALL,
            "Answers with an error, and does not handle the request. All partitions, topics or groups of the request "
            "have the error. A Produce with `acks=0`, which has no answer, ends its connection as with Kafka.",
            lambda values, request: (effects.Fail(values["error"]),),
            {"error": _ERROR},
        ),
        FaultKind(
            "error_after",
            ALL,
            "Handles the request, so that records are appended and offsets committed, and answers with an error.",
            lambda values, request: (effects.Report(values["error"]),),
            {"error": _ERROR},
        ),
        FaultKind(
            "delay_before",
            ALL,
            "Handles the request later. Requests behind it on its connection wait too, as with Kafka.",
            lambda values, request: (effects.Delay(before_ms=values["ms"]),),
            {"ms": _ANY_MS},
        ),
        FaultKind(
            "delay_after",
            ALL,
            "Handles the request at once, and answers later.",
            lambda values, request: (effects.Delay(after_ms=values["ms"]),),
            {"ms": _ANY_MS},
        ),
        FaultKind(
            "drop_before", ALL, "Closes the connection before the request is handled.", _always(effects.Drop(False))
        ),
        FaultKind(
            "drop_after",
            ALL,
            "Handles the request, and closes the connection in place of the answer.",
            _always(effects.Drop(True)),
        ),
        FaultKind(
            "black_hole",
            ALL,
            "Neither handles the request nor answers it. The connection stays open and answers nothing more.",
            _always(effects.Silence(False)),
        ),
        FaultKind(
            "no_answer",
            ALL,
            "Handles the request, and never answers it. The connection stays open and answers nothing more.",
            _always(effects.Silence(True)),
        ),
        FaultKind(
            "cut_answer",
            ALL,
            "Sends the first part of the answer, and closes the connection.",
            lambda values, request: (effects.Cut(values["percent"]),),
            {"percent": _number("How much of the answer is sent.", 0, 50)},
        ),
        FaultKind(
            "wrong_correlation_id",
            ALL,
            "Answers with a correlation id that the client did not send.",
            _always(effects.Spoil(_wrong_correlation_id)),
        ),
        FaultKind(
            "garbage",
            ALL,
            "Answers with random bytes behind the right length and correlation id.",
            _always(effects.Spoil(_garbage)),
        ),
        FaultKind(
            "wrong_length",
            ALL,
            "The length before the answer is wrong, so that the client waits for more or reads a broken frame.",
            lambda values, request: (effects.Spoil(functools.partial(_wrong_length, bytes_more=values["bytes"])),),
            {"bytes": _number("How much longer than the answer; negative for shorter.", -_MS, 16)},
        ),
        FaultKind("duplicate_answer", ALL, "Sends the answer two times.", _always(effects.Spoil(_duplicate))),
        FaultKind(
            "swap_answers",
            ALL,
            "Sends the answer after the next one of the connection, which the protocol forbids.",
            lambda values, request: (effects.Swap(values["wait_ms"]),),
            {"wait_ms": _number("How long to wait for the next answer.", 1, 1000)},
        ),
        FaultKind(
            "duplicate_request",
            ALL,
            "Handles the request two times, as if a retry had been delivered too: a Produce without idempotence "
            "appends its records twice.",
            _always(effects.Twice()),
        ),
        FaultKind(
            "slow_bytes",
            (CONNECT, *ALL),
            "Sends no more than this on the connection, from this request on until it closes.",
            lambda values, request: (effects.Slow(values["bytes_per_s"]),),
            {"bytes_per_s": _number("Bytes per second.", 1)},
        ),
        FaultKind(
            "refuse_connection",
            (CONNECT,),
            "Closes the connection as soon as it is made.",
            _always(effects.Drop(False)),
        ),
        FaultKind(
            "connection_limit",
            (CONNECT,),
            "Closes each connection above so many.",
            _always(effects.Drop(False)),
            {"most": _number("How many connections may be open at a time.", 0)},
            lambda values, request: request.open_connections > values["most"],
        ),
        FaultKind(
            "throttle",
            tuple(name for name in ALL if name not in ("SaslHandshake", "SaslAuthenticate", "WriteTxnMarkers")),
            "Answers with this `throttle_time_ms`, in the versions that have it. The broker does not slow down itself.",
            _rewrites(_throttled, "ms"),
            {"ms": _ANY_MS},
            lambda values, request: request.api is not None and has_throttle_time(request.api.name, request.version),
        ),
        FaultKind(
            "old_leader",
            ("Metadata",),
            "Another broker is the leader of the partitions: one that exists in a cluster, else one that does not.",
            _rewrites(_old_leader, "broker"),
            {"broker": _number("The id of that broker; −1: any other.", -1, -1)},
        ),
        FaultKind("leader_unknown", ("Metadata",), "The partitions have no leader.", _rewrites(_no_leader)),
        FaultKind("missing_topic", ("Metadata",), "The topics do not exist.", _rewrites(_no_topic)),
        FaultKind(
            "wrong_port",
            _BROKER_LISTS,
            "All brokers have this port.",
            _rewrites(_wrong_port, "port"),
            {"port": _number("The port.", 1, 1)},
        ),
        _fails("not_leader", _PARTITIONS, ErrorCode.not_leader_or_follower, "The leader has moved."),
        _fails("not_coordinator", _COORDINATED, ErrorCode.not_coordinator, "The coordinator has moved."),
        _fails(
            "coordinator_not_available",
            ("FindCoordinator", *_COORDINATED),
            ErrorCode.coordinator_not_available,
            "The coordinator is not there.",
        ),
        _fails(
            "coordinator_loading",
            _COORDINATED,
            ErrorCode.coordinator_load_in_progress,
            "The coordinator reads its partition.",
        ),
        _fails(
            "rebalance",
            ("Heartbeat", "SyncGroup", "OffsetCommit"),
            ErrorCode.rebalance_in_progress,
            "Makes the member join its group again.",
        ),
        _fails("unknown_member", _MEMBER, ErrorCode.unknown_member_id, "The group has removed the member."),
        FaultKind(
            "producer_fenced",
            ("Produce", *_TRANSACTION),
            "Another producer has the transactional id. Answers `PRODUCER_FENCED`, or `INVALID_PRODUCER_EPOCH` to "
            "Produce, TxnOffsetCommit and older versions.",
            _fenced,
        ),
        FaultKind(
            "unknown_producer",
            ("Produce", *_TRANSACTION),
            "The producer id has expired. Answers `UNKNOWN_PRODUCER_ID` to Produce, and `INVALID_PRODUCER_ID_MAPPING` "
            "to the others.",
            _unknown_producer,
        ),
        _fails(
            "offset_out_of_range", ("Fetch", "ListOffsets"), ErrorCode.offset_out_of_range, "The log was truncated."
        ),
        FaultKind(
            "log_start_moves",
            ("Produce", "Fetch", "ListOffsets"),
            "Deletes all records of the topics that the request names, before it is handled.",
            _always(effects.MoveLogStart()),
        ),
        FaultKind(
            "corrupt_records",
            ("Fetch",),
            "Flips the bits of the last byte but one of the records; an answer without records stays as it is.",
            _rewrites(_fetched(_corrupt)),
        ),
        FaultKind("empty_fetch", ("Fetch",), "Answers without the records.", _rewrites(_fetched(_empty))),
        FaultKind(
            "disk_full",
            ("Produce",),
            "Writes to the log fail with ENOSPC while the request is handled.",
            _always(effects.Disk(errno.ENOSPC)),
        ),
        FaultKind(
            "slow_fsync",
            ("Produce",),
            "The next flush of a log takes this much longer. `flush.messages=1` of the topic makes the answer wait.",
            lambda values, request: (effects.Disk(delay_ms=values["ms"], is_flush=True),),
            {"ms": _ANY_MS},
        ),
        FaultKind(
            "failing_fsync",
            ("Produce",),
            "The next flush of a log fails with EIO. As with Kafka, the log directory goes offline, and a broker "
            "without another one stops.",
            _always(effects.Disk(errno.EIO, is_flush=True)),
        ),
        FaultKind(
            "clock_jump",
            ALL,
            "Sets the broker's clock ahead, or back, for good: timestamps of `LogAppendTime`, and what retention sees.",
            lambda values, request: (effects.JumpClock(values["ms"]),),
            {"ms": _number("Milliseconds; negative: back.", -1 << 50)},
        ),
        FaultKind(
            "lower_versions",
            ("ApiVersions",),
            "Advertises lower versions.",
            _rewrites(_lower_versions, "versions"),
            {"versions": Parameter("The highest version by API, such as `{Produce: 7}`.", _read_versions)},
        ),
        _fails(
            "unsupported_version",
            ("ApiVersions",),
            ErrorCode.unsupported_version,
            "The broker is older than the client's ApiVersions: answers in version 0.",
        ),
        FaultKind(
            "sasl_failure",
            ("SaslHandshake", "SaslAuthenticate"),
            "The login fails, and the connection is closed. Answers `SASL_AUTHENTICATION_FAILED`, or "
            "`UNSUPPORTED_SASL_MECHANISM` to SaslHandshake.",
            lambda values, request: (
                effects.Fail(
                    ErrorCode.sasl_authentication_failed
                    if request.name == "SaslAuthenticate"
                    else ErrorCode.unsupported_sasl_mechanism
                ),
                effects.HangUp(),
            ),
        ),
    )
}
