"""Values that serialisers wrote, as columns of a DataFrame: `value.format` of the source."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from google.protobuf.type_pb2 import Field  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PythonException

from highwater.pipeline.source import register
from tests.compat.schema_registry.cases import AVRO, AVRO_WIDER, JSON, case, client_of, produced_and_consumed, shared
from tests.pipeline.spark_session import spark_session

_RECORDS: Final = 500


def _identity(payload: Any, _context: Any) -> Any:
    return payload


@case
def spark_reads_values_of_all_formats() -> None:
    address, registry = shared()
    client = client_of(registry)
    values = [{"id": number, "paid": number % 2 == 0, "note": None} for number in range(_RECORDS)]
    produced_and_consumed(address, "spark-avro", AvroSerializer(client, AVRO), _identity, values)
    produced_and_consumed(address, "spark-json", JSONSerializer(JSON, client), _identity, values)
    messages = [Field(name=f"f{number}", number=number) for number in range(_RECORDS)]
    protobuf = ProtobufSerializer(Field, client, {"use.deprecated.format": False})
    with tempfile.TemporaryDirectory() as scratch, spark_session(Path(scratch)) as spark:
        register(spark)

        def read(topic: str, **options: str) -> Any:
            given = {
                "kafka.bootstrap.servers": address,
                "subscribe": topic,
                "schema.registry.url": registry.url,
                **{name.replace("__", "."): value for name, value in options.items()},
            }
            return spark.read.format("highwater").options(**given).load()

        rows = read("spark-avro", value__format="avro").selectExpr("value.*").orderBy("id").collect()
        assert [row.asDict() for row in rows] == values
        rows = read("spark-json", value__format="json").selectExpr("value.id", "value.paid").orderBy("id").collect()
        assert [row.asDict() for row in rows] == [{"id": each["id"], "paid": each["paid"]} for each in values]

        produced_and_consumed(address, "spark-protobuf", protobuf, _identity, messages)
        frame = read("spark-protobuf", value__format="protobuf", value__message="Field")
        rows = frame.selectExpr("value.name", "value.number").orderBy("number").collect()
        assert [(row.name, row.number) for row in rows] == [(each.name, each.number) for each in messages]
        with pytest.raises(AnalysisException, match="there is no message Fild"):
            read("spark-protobuf", value__format="protobuf", value__message="Fild")

        # An older schema goes on beside a newer one, whose new field has its default.
        client.register_schema("spark-avro-value", Schema(AVRO_WIDER, "AVRO"))
        row = read("spark-avro", value__format="avro").selectExpr("value.*").orderBy("id").first()
        assert row.asDict() == {**values[0], "currency": "EUR"}

        producer = Producer({"bootstrap.servers": address})
        producer.produce("spark-avro", b"not from a serialiser")
        assert producer.flush(60) == 0
        with pytest.raises(PythonException, match=f"spark-avro-0 at offset {_RECORDS}: value: no serialiser"):
            read("spark-avro", value__format="avro").collect()
        count = read("spark-avro", value__format="avro", value__onError="null").where("value is null").count()
        assert count == 1
        with pytest.raises(AnalysisException, match=r"set value\.format=avro"):
            read("spark-avro", value__format="json")
