"""The options of sinks under the names of Spark's connector, checked before anything is written. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from highwater.common.nearest import did_you_mean
from highwater.kafka.records.batch import Codec
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka import settings
from highwater.pipeline.kafka.encode import BATCH_BYTES
from highwater.pipeline.kafka.settings import PREFIX, Settings, settings_of
from highwater.pipeline.option_values import OptionValues

AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE: Final = "exactly_once"
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The most that brokers allow by default (transaction.max.timeout.ms): a batch must end within half of it."""
_NAMES: Final = (
    "topic",
    "delivery",
    "tasks",
    "transactionalIdPrefix",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
    "kafka.enable.idempotence",
    "kafka.transaction.timeout.ms",
    *(f"{PREFIX}{name}" for name in sorted(settings.NAMES)),
)
PROPER: Final = {name.lower(): name for name in _NAMES}
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "path"})
"""What Spark adds to the options of every sink."""
_NO_SERIALIZER: Final = "keys and values are columns of bytes or text; convert them with DataFrame operations"
_ORDER: Final = "each request has what there is, and up to five are in flight"
_REFUSED: Final = {
    "kafka.key.serializer": _NO_SERIALIZER,
    "kafka.value.serializer": _NO_SERIALIZER,
    "kafka.interceptor.classes": "there is no client in the JVM that could call them",
    "kafka.partitioner.class": "set the column partition, which counts before the key",
    "kafka.linger.ms": _ORDER,
    "kafka.buffer.memory": _ORDER,
    "kafka.max.in.flight.requests.per.connection": _ORDER,
    "kafka.max.request.size": "kafka.batch.size limits a batch, max.message.bytes of the topic a record",
    "kafka.retries": "the client tries again until kafka.default.api.timeout.ms is over; set that",
    "kafka.delivery.timeout.ms": "the client tries again until kafka.default.api.timeout.ms is over; set that",
    "kafka.transactional.id": "set transactionalIdPrefix, and delivery=exactly_once",
    "includeheaders": "it is of a source; a sink writes the column headers where there is one",
    "subscribe": "it is of a source; a sink has topic",
}
_BATCH_BYTES_MAX: Final = 64 << 20
_TASKS_MAX: Final = 100_000


@dataclass(frozen=True)
class SinkOptions:
    """See docs/pipeline-sinks.md for what each means. topic: empty if the rows have the column."""

    settings: Settings
    topic: str = ""
    codec: Codec = Codec.NONE
    batch_bytes: int = BATCH_BYTES
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    delivery: str = AT_LEAST_ONCE
    transactional_id_prefix: str = ""
    tasks: int = 0
    """How many tasks of a query write; 0 if it does not matter."""


def read_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Upper and lower case in names mean the same. Raises SettingsError."""
    options = {name.lower(): str(value) for name, value in given.items() if name.lower() not in _OF_SPARK}
    for name in options:
        if name in _REFUSED:
            raise SettingsError(f"{name} is not supported: {_REFUSED[name]}")
        if name not in PROPER:
            hint = did_you_mean(name, PROPER)
            known = hint.removeprefix("; did you mean ").removesuffix("?")
            raise SettingsError(f"option {name} is unknown" + (f"; did you mean {PROPER[known]}?" if hint else ""))
    if "kafka.bootstrap.servers" not in options:
        raise SettingsError("kafka.bootstrap.servers is missing; write it as HOST:PORT, several with commas between")
    _check_constant(options, "kafka.acks", ("all", "-1"), "an idempotent producer needs all")
    _check_constant(options, "kafka.enable.idempotence", ("true",), "a sink is always idempotent")
    take = OptionValues(options)
    delivery = take.choice("delivery", (AT_LEAST_ONCE, EXACTLY_ONCE))
    prefix, topic = take.text("transactionalIdPrefix"), take.text("topic")
    if delivery == EXACTLY_ONCE:
        _check_exactly_once(take, prefix, topic)
    for name in ("transactionalIdPrefix", "tasks"):
        if delivery != EXACTLY_ONCE and name in take:
            raise SettingsError(f"{name} has no meaning without delivery=exactly_once")
    return SinkOptions(
        settings=settings_of(
            {name: value for name, value in options.items() if name.removeprefix(PREFIX) in settings.NAMES}
        ),
        topic=topic,
        codec=Codec[take.choice("kafka.compression.type", tuple(each.name.lower() for each in Codec)).upper()],
        batch_bytes=take.count("kafka.batch.size", _BATCH_BYTES_MAX) or BATCH_BYTES,
        transaction_timeout_ms=take.count("kafka.transaction.timeout.ms", (1 << 31) - 1) or TRANSACTION_TIMEOUT_MS,
        delivery=delivery,
        transactional_id_prefix=prefix,
        tasks=take.count("tasks", _TASKS_MAX) or 0,
    )


def _check_exactly_once(take: OptionValues, prefix: str, topic: str) -> None:
    needs = "delivery=exactly_once needs"
    if not prefix:
        raise SettingsError(f"{needs} transactionalIdPrefix=NAME, a name that no other sink has")
    if not topic:
        raise SettingsError(f"{needs} the option topic, with which the markers are kept")
    if "tasks" not in take:
        raise SettingsError(f"{needs} tasks=N, with how many tasks the query writes: it has to end with repartition(N)")


def _check_constant(options: Mapping[str, str], name: str, allowed: tuple[str, ...], reason: str) -> None:
    if (value := options.get(name, allowed[0]).strip().lower()) not in allowed:
        raise SettingsError(f"{name}={value} is not supported: {reason}")
