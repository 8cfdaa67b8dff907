"""The face of the metadata store: what a broker asks of the cluster's memory, whoever keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from broker.cluster.znodes import ProducerIdBlock
from broker.quota.entities import Quotas
from broker.security.scram import Credentials


@dataclass(frozen=True, slots=True)
class TopicRecord:
    name: str
    topic_id: UUID
    assignment: Mapping[int, list[int]]
    """Replicas by partition, the preferred leader first; partitions are numbered from 0 without gaps."""
    config: Mapping[str, str] = field(default_factory=dict)
    """The topic's own overrides."""


class MetadataError(Exception):
    """Metadata that cannot be read or belongs elsewhere; the text names the place and the way out."""


class MetadataStore(Protocol):
    """A call that returns has made its change durable. Names are not checked here: that is the caller's work."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def controller_epoch(self) -> int: ...

    def topics(self) -> Iterable[TopicRecord]:
        """All topics, those marked for deletion too."""

    def topics_marked_for_deletion(self) -> Iterable[str]: ...

    def put_topics(self, topics: Iterable[TopicRecord]) -> None:
        """Create topics, or replace what is known of them; together or not at all."""

    def mark_for_deletion(self, name: str) -> None:
        """Begin to delete a topic. The mark stands until `remove_topic`, so a broker that died in between resumes."""

    def remove_topic(self, name: str) -> None: ...

    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        """What was set of brokers while they ran, by broker id; of all of them under the empty name."""

    def put_broker_config(self, broker: str, config: Mapping[str, str]) -> None:
        """Replace what was set of a broker, or, under the empty name, of all."""

    def client_quotas(self) -> Quotas: ...

    def put_client_quotas(self, quotas: Quotas) -> None:
        """Replace the limits of these users and clients, together or not at all; those without limits are forgotten."""

    def scram_credentials(self) -> Mapping[str, Credentials]:
        """By user."""

    def put_scram_credentials(self, changed: Mapping[str, Credentials]) -> None:
        """Replace the credentials of these users, together or not at all; a user without any is forgotten."""

    def next_producer_id_block(self, broker_id: int) -> ProducerIdBlock:
        """A block of producer ids that nobody had before and nobody else will get."""
