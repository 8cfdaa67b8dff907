"""Requests of the run to a broker: create topics, count records, read the configuration.

These are separate clients that take no part in the load, so their answers are a second opinion on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from highwater.bench.systems.kraft import active_controller
from highwater.bench.workload.client_properties import as_text
from highwater.common.errors import TrialError, UsageError
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.wire.connection import addresses_of, first_to_answer
from highwater.spark_loadgen.wire.protocol import MalformedAnswerError

_TIMEOUT_S: Final = 10.0
# Making a partition takes up to 30 ms on two shared cores.
_PARTITION_MADE_WITHIN_S: Final = 0.05
# An external cluster may take a while to elect leaders for a new topic.
_LEADERS_WITHIN_S: Final = 30.0
# A configuration error of the user's, not a failure of the broker.
_REFUSALS: Final = (
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)
_NOT_YET: Final = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
# A leader has moved, or its broker has come back, since this client last looked.
_STALE: Final = (KafkaError.FENCED_LEADER_EPOCH, KafkaError._NOENT)
_UNTOLD: Final = (
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,
)


class BrokerClient:
    """Requests of the run's own to one cluster. Broker trouble is a TrialError."""

    def __init__(self, bootstrap_servers: str, connection: Mapping[str, str] | None = None) -> None:
        """connection: the TLS and SASL properties that the cluster asks for; None for a plain one."""
        self._bootstrap_servers = bootstrap_servers
        # Its complaints come back as exceptions; librdkafka's log lines would only garble the terminal.
        self._config: dict[str, Any] = {
            **(connection or {}),
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            # The most; each request here has a limit of its own, and making many thousand partitions takes a while.
            "socket.timeout.ms": 300_000,
        }
        self._admin = AdminClient(self._config)

    def check_reachable(self) -> None:
        """Raises UsageError when nobody answers, or this client is not let in: a check before a run starts."""
        complaints: dict[int, str] = {}
        # Only events give the reason why a connection fails, and only to a client that polls for them.
        heard: dict[str, Any] = {"error_cb": lambda error: complaints.update({error.code(): error.str()})}
        asking = AdminClient(self._config | heard)
        try:
            asking.list_topics(timeout=_TIMEOUT_S)
        except KafkaException as error:
            asking.poll(0)
            complaints.pop(KafkaError._ALL_BROKERS_DOWN, None)
            reason = "; ".join(complaints.values()) or _text(error)
            raise UsageError(
                f"no broker answers at {self._bootstrap_servers} within {_TIMEOUT_S:.0f} s ({reason}){self._hint()}"
            ) from None

    def _hint(self) -> str:
        """A listener with TLS takes a plain connection and ends it without a word."""
        if "security.protocol" in self._config:
            return ""
        try:
            first_to_answer(addresses_of(self._bootstrap_servers), lambda _: True)
        except (OSError, LoadSetupError):
            return ""
        return "; something listens there: if it wants TLS or a login, give --command-config FILE"

    def answers(self) -> bool:
        """Whether anybody does, which is asked when a load cannot begin."""
        try:
            self.check_reachable()
        except UsageError:
            return False
        return True

    def create_topic(
        self,
        name: str,
        partitions: int,
        config: Mapping[str, str | int | float | bool],
        timeout_s: float | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
        replication: int | None = None,
    ) -> None:
        """Make a topic and wait until every partition has a leader. Raises UsageError when it is refused.

        `assignment`: the brokers of each partition, its first leader first; None leaves that to the cluster, with
        `replication` copies (None: the cluster's default). `timeout_s`: None gives a large topic more time.
        """
        topic = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=-1 if replication is None else replication,
            config={key: as_text(value) for key, value in config.items()},
        )
        if timeout_s is None:
            timeout_s = max(_TIMEOUT_S, partitions * _PARTITION_MADE_WITHIN_S)
        if assignment is not None:
            topic.replica_assignment = [list(replicas) for replicas in assignment]
        try:
            self._admin.create_topics([topic], operation_timeout=timeout_s, request_timeout=timeout_s)[name].result()
        except KafkaException as error:
            if error.args[0].code() in _REFUSALS:
                raise UsageError(f"the broker refuses the topic: {_text(error)}") from None
            raise TrialError(f"cannot create the topic {name}: {_text(error)}") from None
        deadline = time.monotonic() + max(_LEADERS_WITHIN_S, timeout_s)
        while not (self._has_leaders(name, partitions) and self._leaders_answer(name, partitions)):
            if time.monotonic() > deadline:
                raise TrialError(f"topic {name}: not every partition has a leader in time")
            time.sleep(0.02)

    def _has_leaders(self, name: str, partitions: int) -> bool:
        try:
            topic = self._admin.list_topics(name, timeout=_TIMEOUT_S).topics[name]
        except KafkaException as error:
            raise TrialError(f"cannot describe the topic {name}: {_text(error)}") from None
        return len(topic.partitions) == partitions and all(p.leader >= 0 for p in topic.partitions.values())

    def _leaders_answer(self, name: str, partitions: int) -> bool:
        """Apache Kafka's metadata names a leader a moment before that leader knows of it."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(name, partition): latest for partition in range(partitions)}
        try:
            for answer in self._admin.list_offsets(wanted, request_timeout=_TIMEOUT_S).values():
                answer.result()
        except KafkaException as error:
            if error.args[0].code() in _NOT_YET:
                return False
            raise TrialError(f"cannot read the offsets of the topic {name}: {_text(error)}") from None
        return True

    def leader_of(self, topic: str, partition: int) -> int:
        """The leader's broker number. Raises TrialError if the cluster reports none."""
        try:
            leader: int = self._admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions[partition].leader
        except (KafkaException, KeyError) as error:
            raise TrialError(f"the cluster does not report the leader of {topic}-{partition}: {error}") from None
        return leader

    def controller(self) -> int:
        """The controller's broker number. Raises TrialError if the cluster reports none."""
        try:
            number = active_controller(self._bootstrap_servers)
            if number is None:
                number = self._admin.list_topics(timeout=_TIMEOUT_S).controller_id
        except KafkaException as error:
            raise TrialError(f"the cluster does not report its controller: {_text(error)}") from None
        except OSError as error:
            raise TrialError(f"the cluster does not report its controller: {error.strerror or error}") from None
        except MalformedAnswerError as error:
            raise TrialError(f"the cluster does not report its controller: {error}") from None
        if number < 0:
            raise TrialError("the cluster does not report its controller: it has none just now")
        return number

    def delete_topic(self, name: str) -> None:
        try:
            self._admin.delete_topics([name], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)[name].result()
        except KafkaException as error:
            raise TrialError(f"cannot delete the topic {name}: {_text(error)}") from None

    def records_by_partition(self, name: str, partitions: int) -> list[int]:
        """Log end offset minus log start offset of each partition, as the broker reports them."""
        ends = self._offsets(name, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        starts = self._offsets(name, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        return [end - start for start, end in zip(starts, ends, strict=True)]

    def _offsets(self, name: str, partitions: int, which: OffsetSpec) -> list[int]:
        wanted = {TopicPartition(name, partition): which for partition in range(partitions)}
        deadline = time.monotonic() + _LEADERS_WITHIN_S
        while True:
            try:
                answers = self._admin.list_offsets(wanted, request_timeout=_TIMEOUT_S)
                return [answers[partition].result().offset for partition in wanted]
            except KafkaException as error:
                moved = error.args[0].code() in (*_NOT_YET, *_STALE)
                if not moved or time.monotonic() > deadline:
                    raise TrialError(f"cannot count the records of {name}: {_text(error)}") from None
            self._has_leaders(name, partitions)  # fetches metadata again: a leader has moved since
            time.sleep(0.1)

    def effective_config(self) -> dict[str, str]:
        """Configuration in force on one broker; empty if the cluster denies it or does not know the request."""
        entries = self._configuration(ConfigResource.Type.BROKER, str(self._a_broker()))
        return {name: entry.value for name, entry in sorted(entries.items()) if entry.value is not None}

    def effective_topic_config(self, topic: str) -> dict[str, str]:
        """Configuration in force of a topic, as `effective_config` of a broker."""
        entries = self._configuration(ConfigResource.Type.TOPIC, topic)
        return {name: entry.value for name, entry in sorted(entries.items()) if entry.value is not None}

    def unknown_properties(self, names: Iterable[str]) -> list[str]:
        """Those of a broker's configured properties that it does not know, as far as it reports them.

        Apache Kafka accepts a misspelt name without complaint; it then reports the name and, not knowing whether it is
        a secret, no value.
        """
        entries = self._configuration(ConfigResource.Type.BROKER, str(self._a_broker()))
        told = {name: entry for name, entry in entries.items() if name in set(names)}
        return [name for name, entry in told.items() if entry.value is None and entry.is_sensitive]

    def _a_broker(self) -> int:
        try:
            return min(self._admin.list_topics(timeout=_TIMEOUT_S).brokers)
        except KafkaException as error:
            raise TrialError(f"the broker does not report its cluster id: {_text(error)}") from None

    def _configuration(self, kind: Any, name: str) -> dict[str, ConfigEntry]:
        resource = ConfigResource(kind, name)
        try:
            found: dict[str, ConfigEntry] = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_S)[
                resource
            ].result()
        except KafkaException as error:
            if error.args[0].code() in _UNTOLD:
                return {}
            raise TrialError(f"the broker does not report the configuration of {name}: {_text(error)}") from None
        return found


def _text(error: KafkaException) -> str:
    reason: KafkaError = error.args[0]
    return f"{reason.name()}: {reason.str()}"
