"""The cases: schemas and records through a registry that keeps its schemas in a topic of our broker."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.struct_pb2 import Struct  # type: ignore[import-untyped]

from tests.broker.running import RunningBroker
from tests.compat.schema_registry.registry import Registry
from tests.waiting import wait_until

CASES: Final[dict[str, Callable[[], None]]] = {}
_RECORDS: Final = 500
_DEADLINE_S: Final = 60.0
_HTTP_NOT_FOUND: Final = 404
_HTTP_CONFLICT: Final = 409
_KILLS: Final = 4
_temporary: Final = ExitStack()

AVRO: Final = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"},
    {"name": "paid", "type": "boolean"},
    {"name": "note", "type": ["null", "string"], "default": null}]}"""
AVRO_WIDER: Final = AVRO.replace(
    '"default": null}]', '"default": null}, {"name": "currency", "type": "string", "default": "EUR"}]'
)
AVRO_INCOMPATIBLE: Final = AVRO.replace('"name": "id", "type": "long"', '"name": "id", "type": "string"')
JSON: Final = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
    "properties": {"id": {"type": "integer"}, "paid": {"type": "boolean"}}, "required": ["id"]}"""


def case(check: Callable[[], None]) -> Callable[[], None]:
    CASES[check.__name__.replace("_", "-")] = check
    return check


class Stand:
    """A broker of ours, and registries on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._broker = RunningBroker(directory / "log", "--port", "0")
        self.address = self._broker.address
        self.registries: list[Registry] = []

    def registry(self) -> Registry:
        self.registries.append(Registry(self.address, self.directory))
        return self.registries[-1]

    def kill_and_start_broker(self) -> None:
        """At the same address: the registry finds it again."""
        self._broker.process.send_signal(signal.SIGKILL)
        self._broker.kill()
        self._broker = RunningBroker(self.directory / "log", "--port", str(self._broker.port))

    def close(self) -> None:
        for registry in self.registries:
            registry.kill()
        self._broker.kill()


@contextmanager
def stand() -> Iterator[Stand]:
    with tempfile.TemporaryDirectory(prefix="highwater-compat-") as directory, closing(Stand(Path(directory))) as made:
        yield made


@cache
def shared() -> tuple[str, Registry]:
    """The address of a broker, and a registry on it, for the cases that break nothing."""
    made = _temporary.enter_context(stand())
    return made.address, made.registry()


def clean_up() -> None:
    _temporary.close()


def client_of(registry: Registry) -> SchemaRegistryClient:
    # By itself it waits for a lost answer without an end.
    return SchemaRegistryClient({"url": registry.url, "timeout": _DEADLINE_S})


def produced_and_consumed(address: str, topic: str, serialize: Any, deserialize: Any, values: list[Any]) -> list[Any]:
    """What a consumer reads after a producer has written `values`, through the serialisers of both."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_DEADLINE_S)
    producer = Producer({"bootstrap.servers": address})
    context = SerializationContext(topic, MessageField.VALUE)
    for value in values:
        producer.produce(topic, serialize(value, context))
    assert producer.flush(_DEADLINE_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    found: list[Any] = []
    try:
        consumer.subscribe([topic])
        while len(found) < len(values):
            messages = consumer.consume(len(values) - len(found), _DEADLINE_S)
            assert messages, f"{len(found)} of {len(values)} records came"
            found += [deserialize(message.value(), context) for message in messages]
    finally:
        consumer.close()
    return found


@case
def avro_records_go_through() -> None:
    address, registry = shared()
    client = client_of(registry)
    values = [{"id": number, "paid": number % 2 == 0, "note": None} for number in range(_RECORDS)]
    serialize = AvroSerializer(client, AVRO)
    found = produced_and_consumed(address, "avro", serialize, AvroDeserializer(client), values)
    assert found == values


@case
def json_records_go_through() -> None:
    address, registry = shared()
    client = client_of(registry)
    values = [{"id": number, "paid": number % 2 == 0} for number in range(_RECORDS)]
    serialize = JSONSerializer(JSON, client)
    deserialize = JSONDeserializer(JSON, schema_registry_client=client)
    assert produced_and_consumed(address, "json", serialize, deserialize, values) == values


@case
def protobuf_records_go_through() -> None:
    address, registry = shared()
    client = client_of(registry)
    values = []
    for number in range(_RECORDS):
        value = Struct()
        value.update({"id": number})
        values.append(value)
    serialize = ProtobufSerializer(Struct, client, {"use.deprecated.format": False})
    deserialize = ProtobufDeserializer(Struct, {"use.deprecated.format": False})
    assert produced_and_consumed(address, "protobuf", serialize, deserialize, values) == values


@case
def an_incompatible_schema_is_a_conflict() -> None:
    client = client_of(shared()[1])
    client.set_compatibility("orders-value", "BACKWARD")
    client.register_schema("orders-value", Schema(AVRO, "AVRO"))
    client.register_schema("orders-value", Schema(AVRO_WIDER, "AVRO"))
    with pytest.raises(SchemaRegistryError) as refusal:
        client.register_schema("orders-value", Schema(AVRO_INCOMPATIBLE, "AVRO"))
    assert refusal.value.http_status_code == _HTTP_CONFLICT, str(refusal.value)
    assert client.get_versions("orders-value") == [1, 2]


@case
def schemas_are_there_after_kill_9_of_both() -> None:
    """Registers schemas while broker and registry are killed: what was acknowledged is there, with its id."""
    with stand() as lab:
        registry = lab.registry()
        acknowledged: dict[str, int] = {}
        for kill in range(_KILLS):
            before = len(acknowledged)
            thread = threading.Thread(target=register_until_refused, args=(registry, f"s{kill}", acknowledged))
            thread.start()
            try:
                wait_until(lambda enough=before + 10: len(acknowledged) >= enough, "more schemas")  # type: ignore[misc]
            finally:
                registry.kill()
                thread.join()
            if kill % 2:
                lab.kill_and_start_broker()
            registry.start()
        for subject, schema_id in acknowledged.items():
            # A registry on a busy host answers before it has read its topic to the end.
            is_there = partial(_is_known, registry, subject, schema_id)
            wait_until(is_there, f"{subject}, one of {len(acknowledged)} acknowledged schemas, is there with its id")


def register_until_refused(registry: Registry, prefix: str, acknowledged: dict[str, int]) -> None:
    """Subject after subject, each with a schema of its own, until the registry is killed."""
    client = client_of(registry)
    for number in count():
        subject = f"{prefix}-{number}"
        schema = Schema(AVRO.replace("Order", f"Order_{prefix}_{number}"), "AVRO")
        try:
            acknowledged[subject] = client.register_schema(subject, schema)
        except Exception:  # a registry that is killed answers with many kinds of errors, or not at all
            return


@case
def two_registries_share_a_topic() -> None:
    with stand() as lab:
        first, second = client_of(lab.registry()), client_of(lab.registry())
        schema_id = first.register_schema("orders-value", Schema(AVRO, "AVRO"))
        wait_until(lambda: "orders-value" in second.get_subjects(), "the second registry sees the subject")
        assert second.get_latest_version("orders-value").schema_id == schema_id
        wider_id = second.register_schema("orders-value", Schema(AVRO_WIDER, "AVRO"))
        lab.registries[0].kill()
        assert wider_id != schema_id
        left = lab.registries[1]
        wait_until(lambda: _newest_id(left, "orders-value") == wider_id, "the second registry has what it acknowledged")
        wait_until(lambda: _registers(left, "others-value"), "the second registry writes alone")


def _is_known(registry: Registry, subject: str, schema_id: int) -> bool:
    try:
        return _newest_id(registry, subject) == schema_id
    except SchemaRegistryError as error:
        if error.http_status_code != _HTTP_NOT_FOUND:
            raise
        return False


def _newest_id(registry: Registry, subject: str) -> int | None:
    """Asked by a new client: each keeps what it was told."""
    return client_of(registry).get_latest_version(subject).schema_id


def _registers(registry: Registry, subject: str) -> bool:
    """False while no registry may write: Karapace elects one, and first waits until the session of a dead one ends."""
    try:
        return bool(client_of(registry).register_schema(subject, Schema(AVRO, "AVRO")))
    except (SchemaRegistryError, OSError):
        return False
