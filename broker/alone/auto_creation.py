"""Creates topics on first use, for a broker that runs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kio.schema.errors import ErrorCode

from highwater.broker.alone.topics import LocalTopics
from highwater.kafka.protocol.problem import Problem


class LocalAutoCreation:
    """Implements `AutoCreation`."""

    def __init__(self, topics: LocalTopics) -> None:
        self._topics = topics

    def is_under_way(self, name: str) -> bool:
        return self._topics.is_coming(name)

    def create(self, names: Iterable[str]) -> Mapping[str, ErrorCode]:
        names = list(names)
        coming = {name: ErrorCode.leader_not_available for name in names if self._topics.is_coming(name)}
        created = self._topics.create_all_by_default(name for name in names if name not in coming)
        return coming | {name: result.error_code for name, result in created.items() if isinstance(result, Problem)}
