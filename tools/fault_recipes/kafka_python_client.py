"""kafka-python as a client of `python -m tools.fault_recipes`; arguments and output are those of librdkafka_client.py.

While the consumer's `poll` does not return, the stacks of all threads are printed each 30 s.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import time

import kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

role, server, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
errors: list[str] = []
started = time.monotonic()
found: dict[str, object]
if role == "consume":
    faulthandler.dump_traceback_later(limit + 5, repeat=True)  # the harness ends a process that goes on for long
    settings = {"group_id": "recipe", "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(
        "t", bootstrap_servers=server, session_timeout_ms=6000, heartbeat_interval_ms=1000, **settings
    )
    values: list[str] = []
    first = None
    while time.monotonic() - started < limit:
        try:
            polled = consumer.poll(timeout_ms=100)
        except KafkaError as error:
            errors.append(type(error).__name__)
            sys.stderr.write(f"{error!r} after {len(values)} records\n")  # seen also if `poll` never returns
            continue
        for record in (record for records in polled.values() for record in records):
            first = first or time.monotonic() - started
            values.append(record.value.decode(errors="replace"))
    faulthandler.cancel_dump_traceback_later()
    found = {"values": values, "first": first}
else:
    more = {"transactional_id": "recipe"} if role == "transact" else {}
    producer = KafkaProducer(bootstrap_servers=server, **more)
    if role == "transact":
        producer.init_transactions()
        producer.begin_transaction()
    delivered = failed = 0
    for future in [producer.send("t", f"record-{number}".encode()) for number in range(10)]:
        try:
            future.get(timeout=max(0.01, limit - (time.monotonic() - started)))
            delivered += 1
        except KafkaTimeoutError as error:  # also what `get` raises for a record whose fate is open
            failed += future.is_done
            errors.append(type(error).__name__)
        except KafkaError as error:
            failed += 1
            errors.append(type(error).__name__)
    found = {"delivered": delivered, "failed": failed}
    if role == "transact":
        try:
            producer.commit_transaction()
        except KafkaError as error:
            errors.append(type(error).__name__)
found |= {"version": f"kafka-python {kafka.__version__}", "errors": errors, "seconds": time.monotonic() - started}
sys.stdout.write(json.dumps(found) + "\n")
sys.stdout.flush()
