"""confluent-kafka as a client of `python -m tools.fault_recipes`.

Arguments: produce, consume or transact; the broker; for how many seconds at most; and `safe` for settings that are not
the defaults. The last line of the output is JSON: version, errors, seconds, and delivered and failed, or values and
first (seconds until the first record).
"""

from __future__ import annotations

import json
import sys
import time

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

role, server, limit, safe = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:] == ["safe"]
errors: list[str] = []
delivered = 0


def acknowledged(error: KafkaError | None, _: Message) -> None:
    global delivered
    if error is None:
        delivered += 1
    else:
        errors.append(error.name())


started = time.monotonic()
found: dict[str, object]
if role == "consume":
    settings: dict[str, str | int | float | bool | None] = {
        "group.id": "recipe",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 1000,
        "check.crcs": safe,
    }
    consumer = Consumer({"bootstrap.servers": server, **settings})
    consumer.subscribe(["t"], on_lost=lambda *_: errors.append("partitions lost"))
    values: list[str] = []
    first = None
    while time.monotonic() - started < limit:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if (error := message.error()) is not None:
            errors.append(error.name())
            continue
        first = first or time.monotonic() - started
        values.append((message.value() or b"").decode(errors="replace"))
    found = {"values": values, "first": first}
else:
    more = {"transactional.id": "recipe"} if role == "transact" else {"enable.idempotence": safe}
    producer = Producer({"bootstrap.servers": server, **more})
    if role == "transact":
        producer.init_transactions()
        producer.begin_transaction()
    for number in range(10):
        producer.produce("t", f"record-{number}".encode(), on_delivery=acknowledged)
    producer.flush(limit)
    found = {"delivered": delivered, "failed": len(errors)}
    if role == "transact":
        try:
            producer.commit_transaction()
        except KafkaException as error:
            raised: KafkaError = error.args[0]
            errors.append(f"{raised.name()}{', fatal' if raised.fatal() else ''}")
version = f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"
found |= {"version": version, "errors": errors, "seconds": time.monotonic() - started}
sys.stdout.write(json.dumps(found) + "\n")
sys.stdout.flush()
