"""Asks a broker, and writes down its answers."""

from __future__ import annotations

import dataclasses
import datetime
import socket
import struct
import time
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import APIS
from highwater.kafka.protocol.primitives import Decoder
from tests.broker.handlers.harness import decode_answer, request_frame, versions
from tests.waiting import wait_until

DEADLINE_S: Final = 60.0
ANSWER_WITHIN_S: Final = 10.0
PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "log.cleaner.dedupe.buffer.size": 1 << 21,
}
CLOSED: Final = "hangs up"
THEN: Final = " => "
"""Between a request and its answer."""
NO_SUCH_ID: Final = UUID(int=77)
YEAR_MS: Final = 365 * 24 * 3600 * 1000
TIMESTAMP_MS: Final = 1_700_000_000_000
_DEFAULT: Final = 5
_UNTOLD: Final = {"throttle_time", "documentation"}
_MESSAGES: Final = {"error_message", "batch_index_error_message"}
_APIS: Final = {api.name: api for api in APIS.values()}
_NEWEST_OF_KAFKA_3_9: Final = {
    "produce": 11,
    "fetch": 17,
    "metadata": 12,
    "list_offsets": 9,
    "offset_commit": 9,
    "offset_fetch": 9,
    "describe_log_dirs": 4,
    "describe_groups": 5,
    "api_versions": 4,
    "delete_groups": 2,
    "alter_partition_reassignments": 0,
    "describe_cluster": 1,
    "list_transactions": 1,
    "write_txn_markers": 1,
    "end_txn": 4,
    "txn_offset_commit": 4,
}
"""Where ours is newer: those versions are of Kafka 4."""


def versions_of_both(api: str) -> list[int]:
    """Those that Kafka 3.9 and ours serve."""
    return [version for version in versions(api) if version <= _NEWEST_OF_KAFKA_3_9.get(api, version)]


Ask = Callable[..., Any]
Fields = dict[str, Any]


class Connection:
    """One connection at a time, and the next one when the broker hung up, or gave no answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def send(self, api: str, version: int, /, **fields: Any) -> None:
        frame = request_frame(api, version, **fields)
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), ANSWER_WITHIN_S)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        try:
            self.send(api, version, **fields)
            size = self._receive(4)
            answer = self._receive(*struct.unpack(">i", size))
        except (EOFError, OSError):
            self.close()
            raise EOFError from None
        if api == "fetch":
            return decode_answer(api, version, [size, answer])
        header_size = 5 if _APIS[api].is_flexible(version) and api != "api_versions" else 4
        decoder = Decoder(memoryview(answer), header_size, flexible=_APIS[api].is_flexible(version))
        return cold.decode_response(api, version, decoder)

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Script:
    def __init__(self, ask: Ask) -> None:
        """`ask` takes the API, its version and its fields, and gives the decoded answer; EOFError if there is none."""
        self.lines: list[str] = []
        self.names: dict[object, str] = {}
        """What to call a value that is the broker's own."""
        self._ask = ask

    def note(self, text: str) -> None:
        self.lines += ["", f"# {text}"]

    def quietly(self, api: str, version: int, /, **fields: Any) -> Any:
        try:
            return self._ask(api, version, **fields)
        except EOFError:
            return CLOSED

    def ask(self, api: str, version: int, told: str, /, **fields: Any) -> Any:
        answer = self.quietly(api, version, **fields)
        self.lines.append(f"{api} v{version} {told}{THEN}{self.text(answer)}")
        return answer

    def each(self, api: str, told: str, /, since: int = 0, until: int = 99, **fields: Any) -> None:
        """Ask in every version of both; versions in a row that are answered alike share a line."""
        asked = [version for version in versions_of_both(api) if since <= version <= until]
        answers = [(version, self.text(self.quietly(api, version, **fields))) for version in asked]
        for text, group in groupby(answers, key=lambda answer: answer[1]):
            alike = [version for version, _ in group]
            which = f"v{alike[0]}" if len(alike) == 1 else f"v{alike[0]}-{alike[-1]}"
            self.lines.append(f"{api} {which} {told}{THEN}{text}")

    def text(self, value: Any, field: str = "") -> str:
        if value == CLOSED and isinstance(value, str):
            return CLOSED
        if field in _MESSAGES:
            return "some" if value else "none"  # Kafka has an empty one in places
        if field in _WITNESSES:
            return _WITNESSES[field](value)
        if isinstance(value, ErrorCode):
            return value.name
        if value is None:
            return "null"
        if isinstance(value, UUID):
            return self.names.get(value, "<nobody's>" if value == NO_SUCH_ID else "<new>")
        if dataclasses.is_dataclass(value):
            told = [
                f"{item.name}={self.text(getattr(value, item.name), item.name)}"
                for item in dataclasses.fields(value)
                if item.name not in _UNTOLD
            ]
            return f"({' '.join(told)})"
        if isinstance(value, datetime.timedelta):
            return str(round(value.total_seconds() * 1000))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"{len(value)} bytes"
        if isinstance(value, tuple):
            value = [item for item in value if not _is_default_of_new_topic(item)]
            return f"[{' '.join(sorted(self.text(item, field) for item in value))}]"
        try:
            return self.names.get(value) or (repr(value) if isinstance(value, str) else _number(value))
        except TypeError:
            return repr(value)

    def until(self, is_done: Callable[[], bool]) -> None:
        wait_until(is_done, f"after {self.lines[-3:]}", DEADLINE_S)


def _is_default_of_new_topic(item: Any) -> bool:
    """DescribeConfigs tells them too, once."""
    return getattr(item, "config_source", None) == _DEFAULT and not hasattr(item, "synonyms")


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and abs(value - time.time() * 1000) < YEAR_MS / 12:
        return "now"
    return str(value)


def _is_known(value: int) -> str:
    return str(value) if value < 0 else "some"


_WITNESSES: Final[Mapping[str, Callable[[Any], str]]] = {
    "port": lambda value: "some",
    "session_id": lambda value: "some" if value else "none",
    "cluster_id": lambda value: "null" if value is None else "some",
    "log_dir": lambda value: "some",
    "total_bytes": _is_known,
    "usable_bytes": _is_known,
    "client_host": lambda value: repr(value.strip("/")),
    "finalized_features_epoch": lambda value: "some",
}
"""Fields that are each broker's own."""


def wait_for(script: Script, *names: str) -> None:
    """Wait until every partition of these is led, and learn their ids."""

    def are_there() -> bool:
        answer = script.quietly(
            "metadata", 12, topics=[{"name": name} for name in names], allow_auto_topic_creation=False
        )
        for topic in answer.topics:
            script.names[topic.topic_id] = f"<{topic.name}>"
        return all(
            topic.error_code is ErrorCode.none and all(part.error_code is ErrorCode.none for part in topic.partitions)
            for topic in answer.topics
        ) and all(_is_led(script, name) for name in names)

    script.until(are_there)


def _is_led(script: Script, name: str) -> bool:
    partition = {"partition_index": 0, "timestamp": -1}
    answer = script.quietly("list_offsets", 5, replica_id=-1, topics=[{"name": name, "partitions": [partition]}])
    return answer.topics[0].partitions[0].error_code is ErrorCode.none


def id_of(script: Script, name: str) -> UUID:
    return next(key for key, told in script.names.items() if told == f"<{name}>" and isinstance(key, UUID))
