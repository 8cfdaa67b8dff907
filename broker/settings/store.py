"""The store of settings: one interface over a lone broker's file and a cluster's ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from highwater.broker.settings.quota_entities import Quotas
from highwater.kafka.login.scram import Credentials
from highwater.kafka.protocol.problem import Problem


class MetadataError(Exception):
    """Metadata that cannot be read or belongs elsewhere; the text names the place and the way out."""


ConfigChange = Callable[[Mapping[str, str]], "Mapping[str, str] | Problem"]
"""Returns the settings that shall be there, from those that are there; or why not."""


class SettingsStore(Protocol):
    """What was set of topics, brokers, users and clients, by path (`metadata_tree.topic_config_path`, ...).

    Reading is from memory. Names and values are not checked here: that is the caller's work.
    """

    @property
    def cluster_id(self) -> str: ...

    @property
    def when_changed(self) -> list[Callable[[str], None]]:
        """Called with the path of settings that changed, by whomever, once reading gives the new ones."""

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """A topic's own overrides; none of a topic that is not known."""

    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        """What was set of brokers while they ran, by broker id; of all of them under the empty name."""

    def client_quotas(self) -> Quotas: ...

    def own_configs(self, parent: str) -> Mapping[str, Mapping[str, str]]:
        """The settings of what has some below one of `metadata_tree.OWN_CONFIGS`, by name: subscriptions, groups."""

    def scram_credentials(self) -> Mapping[str, Credentials]:
        """The SCRAM credentials of each user."""

    def change_configs(
        self, changes: Mapping[str, ConfigChange], then: Callable[[dict[str, Problem | None]], None]
    ) -> None:
        """Change the settings at these paths durably, and call back, maybe before this returns, with why not of each.

        Somebody else's change at the same time is not lost: a change may be asked again, of what that has left.
        """

    def read_topic_configs(self, topics: Iterable[str], then: Callable[[bool], None]) -> None:
        """Read the settings of these topics into memory as they are now: nothing reports those of a new topic.

        Calls back, maybe before it returns, whether that was possible.
        """
