"""Creates topics on first use, for a broker that runs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.alone.topics import LocalTopics
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.topics.administration import MAX_PARTITIONS_PER_REQUEST
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.problem import Problem

_PARTITIONS_AT_ONCE: Final = 16
"""About so many are created before the answer. Clients ask again for the others, as they do in a cluster for each."""


class LocalAutoCreation:
    """Implements `AutoCreation`."""

    def __init__(self, topics: LocalTopics, config: BrokerConfig) -> None:
        self._topics = topics
        self._config = config

    def is_under_way(self, name: str) -> bool:
        return self._topics.is_coming(name)

    def create(self, names: Iterable[str]) -> Mapping[str, ErrorCode]:
        problems: dict[str, ErrorCode] = {}
        missing: dict[str, None] = {}
        for name in paced(names):
            if self._topics.is_coming(name):
                problems[name] = ErrorCode.leader_not_available
            else:
                missing[name] = None
        at_once = max(_PARTITIONS_AT_ONCE // self._config.integer("num.partitions"), 1)
        first, others = list(missing)[:at_once], list(missing)[at_once:]
        created = self._topics.create_all_by_default(first)
        problems |= {name: result.error_code for name, result in created.items() if isinstance(result, Problem)}
        if others:
            self._topics.begin_by_default(others[:MAX_PARTITIONS_PER_REQUEST])
        for name in paced(others):
            problems[name] = ErrorCode.leader_not_available
        return problems
