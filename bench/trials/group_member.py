"""A member of the consumer group under measurement: a process that a run starts, and may kill.

Its first line of input is its properties, topics and number; each later line is a command: `join`, or `leave`. The end
of the input is the end of whoever started it. What it receives and owns is a line of its output, written before the
offsets are stored for the next commit: what a killed member has not written, it has not committed either.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import time
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

_BATCH: Final = 500
_POLL_S: Final = 0.05


def main() -> None:
    job = json.loads(_line())
    consumer: Consumer | None = None
    _tell({"ready": True})
    while True:
        timeout_s = 0 if consumer else None
        if select.select([0], [], [], timeout_s)[0]:
            command = _line()
            if command != "join":  # leave, or nobody is there any more
                break
            consumer = _joined(job)
        if consumer is not None:
            _read(consumer)
    if consumer is not None:
        consumer.close()


def _line() -> str:
    """One line of the input; a command is written at once, so nothing is left in a buffer."""
    found = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        found += byte
    return found.decode()


def _tell(line: dict[str, Any]) -> None:
    os.write(1, json.dumps({"at_ns": time.monotonic_ns(), **line}, separators=(",", ":")).encode() + b"\n")


def _tell_error(error: KafkaError) -> None:
    _tell({"error": error.str(), "fatal": error.fatal() or error.code() == KafkaError._FATAL})


def _joined(job: dict[str, Any]) -> Consumer:
    def owned(given: bool, partitions: list[TopicPartition]) -> None:
        _tell({"given": given, "partitions": [[found.topic, found.partition] for found in partitions]})

    quiet = logging.getLogger("highwater.group-member")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False  # the client logs fatal errors at any level, and error_cb gets them too
    consumer = Consumer({**job["properties"], "error_cb": _tell_error, "logger": quiet})
    consumer.subscribe(
        job["topics"],
        on_assign=lambda _, partitions: owned(True, partitions),
        on_revoke=lambda _, partitions: owned(False, partitions),
        on_lost=lambda _, partitions: owned(False, partitions),
    )
    return consumer


def _read(consumer: Consumer) -> None:
    message = consumer.poll(_POLL_S)
    if message is None:
        return
    # With a timeout, consume() would wait for a full batch and delay the batch's first message.
    messages = [message, *consumer.consume(_BATCH, 0)]
    reads = _reads(messages)
    if reads:
        _tell({"reads": [[topic, partition, *span] for (topic, partition), span in reads.items()]})
    for (topic, partition), (_, last, _) in reads.items():
        with suppress(KafkaException):  # it was taken away since
            consumer.store_offsets(offsets=[TopicPartition(topic, partition, last + 1)])


def _reads(messages: list[Message]) -> dict[tuple[str, int], tuple[int, int, int]]:
    """First offset, last offset and number of records of each partition."""
    found: dict[tuple[str, int], tuple[int, int, int]] = {}
    for message in messages:
        if (error := message.error()) is not None:
            _tell_error(error)
            continue
        key, offset = (str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
        first, _, count = found.get(key, (offset, offset, 0))
        found[key] = first, offset, count + 1
    return found


if __name__ == "__main__":
    main()
    sys.stdout.flush()
