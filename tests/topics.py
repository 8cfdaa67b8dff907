"""Topics that every broker knows when a test goes on, on our broker and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.waiting import wait_until

_WITHIN_S: Final = 120.0
_ONE_TRY_S: Final = 10.0


def create_topics(bootstrap: str, topics: Sequence[NewTopic]) -> None:
    """Create them, and wait until a broker lists all their partitions with leaders: Kafka 4 answers before it does."""
    done_by_some_client(bootstrap, "topics", lambda admin: admin.create_topics([*topics], request_timeout=_ONE_TRY_S))
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def is_there() -> bool:
        found = admin.list_topics(timeout=_WITHIN_S).topics
        return all(wanted.topic in found and is_led(found[wanted.topic], wanted) for wanted in topics)

    wait_until(is_there, f"topics {', '.join(each.topic for each in topics)}", _WITHIN_S)


def is_led(topic: Any, wanted: NewTopic) -> bool:
    led = [each for each in topic.partitions.values() if each.error is None and each.leader >= 0]
    return len(led) >= max(1, wanted.num_partitions)


def done_by_some_client(bootstrap: str, what: str, ask: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
    """Ask with a new client until it is done: now and then one of librdkafka's never finds Kafka's controller."""

    def is_done() -> bool:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        try:
            for done in ask(admin).values():
                done.result(_WITHIN_S)
        except KafkaException as error:
            code = error.args[0].code()
            if code not in (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError.TOPIC_ALREADY_EXISTS):
                raise
            return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    wait_until(is_done, what, _WITHIN_S)
