#!/usr/bin/python
"""Whether all replicas of a cluster are in sync, by Kafka's own protocol, and the wait until they are."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: highwater_partitions
short_description: Whether all replicas of a cluster are in sync, and the wait until they are
description:
  - Asks every broker that is named for the metadata of all topics, from the host that the task runs on. Any broker that
    speaks Kafka's protocol answers; nothing of Kafka is needed on the host.
  - All is well when each of them answers, knows all of O(brokers), and has for every partition a leader and all
    replicas in sync.
  - Changes nothing.
options:
  bootstrap:
    description: The brokers to ask, as V(host:port).
    type: list
    elements: str
    required: true
  brokers:
    description: Ids that must be in the cluster.
    type: list
    elements: int
    default: []
  authority:
    description: File with the authority that signed the certificates of brokers; empty for a listener without TLS.
    type: path
    default: ""
  username:
    description: Who logs in there, with PLAIN; empty for a listener without a login.
    type: str
    default: ""
  password:
    description: Password of O(username).
    type: str
    default: ""
  wait_seconds:
    description: For how long to wait. After that the host fails with what is not in sync.
    type: int
    default: 300
  fail:
    description: V(false) returns what is not in sync instead of failing.
    type: bool
    default: true
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Wait until every copy of every partition is in sync
  highwater_partitions:
    bootstrap: [10.0.0.1:9092, 10.0.0.2:9092]
    brokers: [1, 2]
    wait_seconds: 600
"""

RETURN = r"""
in_sync:
  description: Whether all is well.
  returned: always
  type: bool
problems:
  description: What is not, a line each.
  returned: always
  type: list
  elements: str
under_replicated:
  description: How many partitions lack a leader or a replica in sync.
  returned: always
  type: int
cluster_id:
  description: The cluster's own name for itself.
  returned: when a broker answered
  type: str
controller_id:
  description: Who is the controller.
  returned: when a broker answered
  type: int
brokers:
  description: Ids of the brokers in the cluster.
  returned: when a broker answered
  type: list
  elements: int
"""

T = TypeVar("T")

# The last version without compact lengths and tagged fields (KIP-482); brokers of all lines since Kafka 2.1 know it.
_METADATA: Final = struct.pack(">hh", 3, 7)
_CORRELATION_ID: Final = 1
_CLIENT_ID: Final = b"highwater-playbooks"
# SaslHandshake and SaslAuthenticate, each in its version 1.
_HANDSHAKE: Final = struct.pack(">hh", 17, 1)
_AUTHENTICATE: Final = struct.pack(">hh", 36, 1)
_PLAIN: Final = b"PLAIN"
_ALL_TOPICS_AND_MAKE_NONE: Final = struct.pack(">i?", -1, False)
_ANSWER_WITHIN_SECONDS: Final = 10.0
_LARGEST_ANSWER_BYTES: Final = 256 * 2**20
_BETWEEN_LOOKS_SECONDS: Final = 1.0
_NAMED_AT_MOST: Final = 5


class NoAnswerError(Exception):
    """Why a broker cannot be asked, in a few words."""


@dataclass(frozen=True)
class Login:
    """How to come in. authority: a file; username: without one there is no login."""

    authority: str = ""
    username: str = ""
    password: str = field(default="", repr=False)


_NO_LOGIN: Final = Login()


@dataclass(frozen=True)
class Partition:
    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    def problem(self) -> str:
        """Empty when it has a leader and all its replicas are in sync."""
        if self.leader < 0:
            return f"{self.topic}-{self.index} has no leader"
        if missing := sorted(set(self.replicas) - set(self.in_sync)):
            return f"{self.topic}-{self.index} waits for broker {', '.join(map(str, missing))}"
        return ""


@dataclass(frozen=True)
class Metadata:
    cluster_id: str
    controller_id: int
    brokers: tuple[int, ...]
    partitions: tuple[Partition, ...]


class Reader:
    """Kafka's primitive types, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def boolean(self) -> bool:
        return bool(self._number(">b"))

    def int16(self) -> int:
        return self._number(">h")

    def int32(self) -> int:
        return self._number(">i")

    def string(self) -> str:
        """A null string counts as an empty one."""
        length = max(self.int16(), 0)
        text = self._data[self._at : self._at + length].decode("utf-8", "replace")
        self._at += length
        return text

    def array(self, element: Callable[[], T]) -> tuple[T, ...]:
        return tuple(element() for _ in range(self.int32()))


def read_metadata(body: bytes) -> Metadata:
    reader = Reader(body)
    reader.int32()  # throttle time

    def broker() -> int:
        broker_id = reader.int32()
        reader.string(), reader.int32(), reader.string()  # host, port, rack
        return broker_id

    def partition_of(topic: str) -> Partition:
        reader.int16()  # error
        index, leader = reader.int32(), reader.int32()
        reader.int32()  # leader epoch
        replicas, in_sync = reader.array(reader.int32), reader.array(reader.int32)
        reader.array(reader.int32)  # offline replicas
        return Partition(topic, index, leader, replicas, in_sync)

    def topic() -> tuple[Partition, ...]:
        reader.int16()  # error
        name = reader.string()
        reader.boolean()  # internal
        return reader.array(lambda: partition_of(name))

    brokers = reader.array(broker)
    cluster_id, controller_id = reader.string(), reader.int32()
    return Metadata(
        cluster_id,
        controller_id,
        tuple(sorted(brokers)),
        tuple(partition for each in reader.array(topic) for partition in each),
    )


def ask(address: str, login: Login = _NO_LOGIN) -> Metadata:
    """Raises NoAnswerError."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection((host, int(port)), _ANSWER_WITHIN_SECONDS))
            if login.authority:
                context = ssl.create_default_context(cafile=login.authority)
                connection = stack.enter_context(context.wrap_socket(connection, server_hostname=host))
            if login.username:
                _log_in(connection, login)
            return read_metadata(_answer(connection, _METADATA, _ALL_TOPICS_AND_MAKE_NONE))
    except ssl.SSLCertVerificationError as error:
        raise NoAnswerError(f"has a certificate that is refused: {error.verify_message}") from None
    except (OSError, EOFError) as error:
        raise NoAnswerError(f"does not answer: {getattr(error, 'strerror', None) or error}") from None
    except struct.error:
        raise NoAnswerError("does not speak Kafka's protocol") from None


def _log_in(connection: socket.socket, login: Login) -> None:
    """Raises NoAnswerError where the login is refused."""
    handshake = Reader(_answer(connection, _HANDSHAKE, struct.pack(">h", len(_PLAIN)) + _PLAIN))
    token = f"\0{login.username}\0{login.password}".encode()
    if handshake.int16() != 0:
        raise NoAnswerError("takes no login with PLAIN there")
    if Reader(_answer(connection, _AUTHENTICATE, struct.pack(">i", len(token)) + token)).int16() != 0:
        raise NoAnswerError(f"refuses the login of {login.username}")


def _answer(connection: socket.socket, api: bytes, body: bytes) -> bytes:
    request = api + struct.pack(">ih", _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    if not 4 <= length <= _LARGEST_ANSWER_BYTES:
        raise NoAnswerError("does not speak Kafka's protocol")
    return _exactly(connection, length)[4:]


def _exactly(connection: socket.socket, length: int) -> bytes:
    """Raises EOFError."""
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise EOFError("it closed the connection")
        data += piece
    return bytes(data)


def look(bootstrap: list[str], brokers: list[int], login: Login = _NO_LOGIN) -> dict[str, Any]:
    """One look at the cluster, as this module returns it."""
    result: dict[str, Any] = {"problems": [], "under_replicated": 0}
    for address in bootstrap:
        try:
            metadata = ask(address, login)
        except NoAnswerError as problem:
            result["problems"].append(f"{address} {problem}")
            continue
        result |= {
            "cluster_id": metadata.cluster_id,
            "controller_id": metadata.controller_id,
            "brokers": list(metadata.brokers),
        }
        if absent := sorted(set(brokers) - set(metadata.brokers)):
            result["problems"].append(f"{address} does not know broker {', '.join(map(str, absent))}")
        found = [problem for partition in metadata.partitions if (problem := partition.problem())]
        result["under_replicated"] = max(result["under_replicated"], len(found))
        result["problems"] += [problem for problem in found if problem not in result["problems"]]
    result["in_sync"] = not result["problems"]
    return result


def summary(problems: list[str]) -> str:
    more = len(problems) - _NAMED_AT_MOST
    return "; ".join(problems[:_NAMED_AT_MOST]) + (f"; and {more} more" if more > 0 else "")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "bootstrap": {"type": "list", "elements": "str", "required": True},
            "brokers": {"type": "list", "elements": "int", "default": []},
            "authority": {"type": "path", "default": ""},
            "username": {"type": "str", "default": ""},
            "password": {"type": "str", "default": "", "no_log": True},
            "wait_seconds": {"type": "int", "default": 300},
            "fail": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    arguments = module.params
    login = Login(arguments["authority"], arguments["username"], arguments["password"])
    deadline = time.monotonic() + arguments["wait_seconds"]
    while True:
        result = look(arguments["bootstrap"], arguments["brokers"], login)
        if result["in_sync"] or time.monotonic() > deadline:
            break
        time.sleep(_BETWEEN_LOOKS_SECONDS)
    if not result["in_sync"] and arguments["fail"]:
        waited = arguments["wait_seconds"]
        problems = summary(result["problems"])
        module.fail_json(msg=f"not all replicas are in sync after {waited} s: {problems}", changed=False, **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
