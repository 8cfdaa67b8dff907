"""Creates topics on first use, for a broker that runs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kio.schema.errors import ErrorCode

from highwater.broker.alone.topics import LocalTopics
from highwater.broker.protocol.problem import Problem


class LocalAutoCreation:
    """Implements `AutoCreation`."""

    def __init__(self, topics: LocalTopics) -> None:
        self._topics = topics

    def create(self, names: Iterable[str]) -> Mapping[str, ErrorCode]:
        created = self._topics.create_all_by_default(names)
        return {name: result.error_code for name, result in created.items() if isinstance(result, Problem)}
