"""Topics that every broker knows when a test goes on, on our broker and on Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from highwater.kafka.client.client import Client
from highwater.kafka.client.settings import settings_of
from highwater.kafka.requests.metadata import ClusterRow, TopicRow, metadata
from tests.waiting import wait_until

_WITHIN_S: Final = 120.0
_ONE_TRY_S: Final = 10.0


def create_topics(bootstrap: str, topics: Sequence[NewTopic]) -> None:
    """Create them, and wait until each broker lists all their partitions with leaders: they answer before all do."""
    done_by_some_client(bootstrap, "topics", lambda admin: admin.create_topics([*topics], request_timeout=_ONE_TRY_S))

    def is_there() -> bool:
        lists = [{topic.name: topic for topic in told.topics} for told in told_by_each(bootstrap)]
        return all(is_led(found.get(wanted.topic), wanted) for found in lists for wanted in topics)

    wait_until(is_there, f"topics {', '.join(each.topic for each in topics)}", _WITHIN_S)


def told_by_each(bootstrap: str) -> list[ClusterRow]:
    """What each of these brokers says of the whole cluster. Raises ClientError."""

    async def asking() -> list[ClusterRow]:
        client = Client(settings_of({"bootstrap.servers": bootstrap}))
        try:
            addresses = client.settings.bootstrap_servers
            return [await client.ask(address, metadata(), _WITHIN_S) for address in addresses]
        finally:
            await client.close()

    return asyncio.run(asking())


def is_led(topic: TopicRow | None, wanted: NewTopic) -> bool:
    led = [each for each in topic.partitions if each.leader >= 0] if topic is not None else []
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
