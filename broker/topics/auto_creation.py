"""The interface to create topics on first use: those of clients, and internal ones.

A broker that runs alone creates them at once. In a cluster the controller is asked to (CreateTopics), and until it has
created them, answers have an error that lets clients retry. (Apache Kafka, AutoTopicCreationManager.scala.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kio.schema.errors import ErrorCode


class AutoCreation(Protocol):
    def is_under_way(self, name: str) -> bool:
        """Whether the topic was asked for, and neither made nor refused yet."""

    def create(self, names: Iterable[str]) -> Mapping[str, ErrorCode]:
        """Have these made, which do not exist; return the errors of those that are not there yet."""
