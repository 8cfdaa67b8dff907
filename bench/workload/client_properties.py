"""Checks the librdkafka properties of workload files before any load starts.

librdkafka itself checks names and values. Four mistakes that it accepts are refused here: a number followed by other
characters (`5x` is read as 5), a property of the other kind of client (ignored with a log line), one property under
two of its names (the last one counts), and a property that the load generator sets itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

from highwater.common.nearest import nearest
from highwater.common.quantities import SIZE, format_size

Role = Literal["producer", "consumer"]
# A set of properties that is checked on its own: of one kind of client, or of the connection that all clients need.
_Set = Role | Literal["connection"]
PropertyValue = str | int | float | bool

_SET_BY_THE_RUN: Final = {
    "bootstrap.servers": "the run sets it; name a cluster under system.bootstrap_servers",
    "metadata.broker.list": "the run sets it; name a cluster under system.bootstrap_servers",
    "group.id": "consumers are assigned their partitions; they join no group",
    "group.protocol": "consumers are assigned their partitions; rebalance.protocol is that of a group's members",
    "auto.offset.reset": "consumers read each trial's new topic from its start",
    "transactional.id": "the run sets it when producers.transactions is given",
}
_OF_A_CONNECTION: Final = ("security.protocol", "sasl.", "ssl.", "enable.sasl.", "enable.ssl.", "https.")
# Byte counts whose name does not contain the unit, so the value must have one. The limit is librdkafka's own.
_SIZES: Final = {"batch.size": 2**31 - 1}
_NUMBER_SUFFIXES: Final = (".ms", ".bytes", ".kbytes", ".messages", "retries", "max.in.flight", ".connection")
_ACKS: Final = ("0", "1", "-1", "all")
# librdkafka's main name of a property -> its alias.
_ALIASES: Final = {
    "queue.buffering.max.ms": "linger.ms",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
# Properties that people tune, for "did you mean" only. librdkafka knows many more.
_COMMON: Final[Mapping[_Set, tuple[str, ...]]] = {
    "producer": (
        "acks", "batch.num.messages", "batch.size", "client.id", "compression.codec", "compression.level",
        "compression.type", "delivery.timeout.ms", "enable.gapless.guarantee", "enable.idempotence", "linger.ms",
        "max.in.flight", "max.in.flight.requests.per.connection", "message.max.bytes", "message.send.max.retries",
        "message.timeout.ms", "queue.buffering.backpressure.threshold", "queue.buffering.max.kbytes",
        "queue.buffering.max.messages", "queue.buffering.max.ms", "request.required.acks", "request.timeout.ms",
        "retries", "retry.backoff.max.ms", "retry.backoff.ms", "socket.nagle.disable", "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes", "socket.timeout.ms", "sticky.partitioning.linger.ms",
    ),
    "consumer": (
        "check.crcs", "client.id", "enable.auto.commit", "fetch.error.backoff.ms", "fetch.max.bytes",
        "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms", "isolation.level",
        "max.partition.fetch.bytes", "max.poll.interval.ms", "queued.max.messages.kbytes", "queued.min.messages",
        "receive.message.max.bytes", "socket.nagle.disable", "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes", "socket.timeout.ms",
    ),
    "connection": (
        "enable.ssl.certificate.verification", "sasl.mechanism", "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.method", "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username", "security.protocol",
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm", "ssl.key.location", "ssl.key.password", "ssl.key.pem",
        "ssl.keystore.location", "ssl.keystore.password",
    ),
}  # fmt: skip


class PropertyError(Exception):
    """A property that cannot work. `name` is None when the fault is in the set as a whole."""

    def __init__(self, name: str | None, text: str) -> None:
        super().__init__(text)
        self.name = name
        self.text = text


def to_librdkafka(role: Role, properties: Mapping[str, PropertyValue]) -> dict[str, str]:
    """Returns the properties as librdkafka accepts them.

    Raises PropertyError for the first that it would refuse or ignore.
    """
    for name in filter(is_of_a_connection, properties):
        raise PropertyError(
            name,
            "belongs to the connection, whose properties are in a separate file that is not part of results: "
            "system.command_config, or --command-config FILE",
        )
    converted = {name: _convert(name, value) for name, value in properties.items()}
    for name, alias in _ALIASES.items():
        if name in converted and alias in converted:
            raise PropertyError(name, f"is another name of {alias}, which is given too; remove one of them")
    _ask_once(role, tuple(converted.items()))
    return converted


@lru_cache(1000)
def _ask_once(role: Role, properties: tuple[tuple[str, str], ...]) -> None:
    """Ask again only about what was refused: the thousand runs of a plan have few sets, and each client has threads."""
    _ask_librdkafka(role, dict(properties))


def is_of_a_connection(name: str) -> bool:
    """Whether it is a property of TLS or SASL, which every client of a cluster needs, and which may be secret."""
    return name.startswith(_OF_A_CONNECTION)


def check_connection(properties: Mapping[str, str]) -> None:
    """Raises PropertyError for the first property that librdkafka would refuse.

    The text of the error contains no value.
    """
    _ask_librdkafka("connection", properties)


def as_text(value: PropertyValue) -> str:
    """How Kafka and librdkafka spell a value: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _convert(name: str, value: PropertyValue) -> str:
    if (reason := _SET_BY_THE_RUN.get(name)) is not None:
        raise PropertyError(name, f"cannot be set here: {reason}")
    text = as_text(value)
    if (largest := _SIZES.get(name)) is not None:
        try:
            size_bytes = SIZE.integer(value)
        except ValueError as error:
            raise PropertyError(name, str(error)) from None
        if not 1 <= size_bytes <= largest:
            raise PropertyError(name, f"{value!r} is not between 1B and {format_size(largest)}")
        return str(size_bytes)
    if name in ("acks", "request.required.acks") and text not in _ACKS:
        raise PropertyError(name, f"{value!r} is not one of 0, 1, all")
    if name.endswith(_NUMBER_SUFFIXES) and not re.fullmatch(r"-?\d+(\.\d+)?", text):
        raise PropertyError(name, f"{value!r} is not a plain number, and librdkafka would read only its first digits")
    return text


def _ask_librdkafka(what: _Set, properties: Mapping[str, str]) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer

    log = _CollectingLogger()
    quiet: dict[str, object] = {"logger": log} | dict(properties)
    try:
        if what == "consumer":
            consumer = Consumer(quiet | {"group.id": "highwater-check"})
            consumer.poll(0)
            consumer.close()
        else:
            Producer(quiet).poll(0)
    except KafkaException as error:
        raise _explain(what, properties, error.args[0].str().strip()) from None
    for line in log.lines:
        if match := re.search(r"Configuration property (\S+) is a (\w+) property", line):
            raise PropertyError(_as_given(match[1], properties), f"is a {match[2]} property; a {what} ignores it")


def _explain(what: _Set, properties: Mapping[str, str], message: str) -> PropertyError:
    if match := re.fullmatch(r'No such configuration property: "(.+)"', message):
        near = nearest(match[1], _COMMON[what])
        hint = f'; did you mean "{near}"?' if near else ""
        return PropertyError(match[1], f"no librdkafka property has this name{hint}")
    if match := re.search(r'onfiguration property "([^"]+)"', message):
        name = _as_given(match[1], properties)
        # The value may be a secret, so the text does not contain it.
        if what == "connection":
            return PropertyError(name, "is refused by librdkafka")
        value = f"{properties.get(name, '')!r} "
        return PropertyError(name, f"{value}is refused by librdkafka: {message}")
    reason = message.removeprefix("Failed to create producer: ")
    return PropertyError(None, f"librdkafka refuses these properties together: {reason}")


def _as_given(name: str, properties: Mapping[str, str]) -> str:
    """Returns the name that the user wrote: librdkafka reports an alias under its main name."""
    if name in properties:
        return name
    return alias if (alias := _ALIASES.get(name, name)) in properties else name


class _CollectingLogger(logging.Logger):
    """Keeps what librdkafka logs while it creates a client, and prints nothing."""

    def __init__(self) -> None:
        super().__init__("highwater.librdkafka-check")
        self.lines: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
