"""A program that takes records of a topic, and writes them to another, exactly once: it is run and killed by tests.

    python -m tests.broker.txn.copier BOOTSTRAP SOURCE TARGET

Records and offsets go in one transaction. Each record is written as it is. It ends by being killed, or when its
producer cannot go on or hangs; whoever runs it starts it again.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

_BATCH = 10
_TIMEOUT_S = 20.0
_HANGS_S = 5


def main(bootstrap: str, source: str, target: str) -> None:
    producer = Producer({"log_level": 0, "bootstrap.servers": bootstrap, "transactional.id": f"copier-{target}"})
    producer.init_transactions(_TIMEOUT_S)
    consumer = Consumer(
        {
            "log_level": 0,
            "bootstrap.servers": bootstrap,
            "group.id": f"copier-{target}",
            # The killed one's place is taken at once.
            "group.instance.id": "only",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    while True:
        messages = [message for message in consumer.consume(_BATCH, 0.2) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=message.partition() or 0)
        offsets = [
            TopicPartition(partition.topic, partition.partition, partition.offset)
            for partition in consumer.position(consumer.assignment())
            if partition.offset >= 0
        ]
        # librdkafka may wait without end for a coordinator that was away (its issue 5456): let that kill us.
        signal.alarm(_HANGS_S)
        try:
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), _TIMEOUT_S)
            commit(producer)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not error.txn_requires_abort():
                raise
            producer.abort_transaction(_TIMEOUT_S)
            rewind(consumer)
        signal.alarm(0)


def commit(producer: Producer) -> None:
    while True:
        try:
            producer.commit_transaction(_TIMEOUT_S)
            return
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


def rewind(consumer: Any) -> None:
    for partition in consumer.committed(consumer.assignment(), _TIMEOUT_S):
        partition.offset = max(partition.offset, 0)
        consumer.seek(partition)


if __name__ == "__main__":
    main(*sys.argv[1:])
