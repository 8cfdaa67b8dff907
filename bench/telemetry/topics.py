"""The topics of the control broker: made when missing, and never on a cluster under test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.user_paths import expanded
from highwater.bench.workload.command_config import read_command_config
from highwater.bench.workload.specification import Specification
from highwater.common.errors import UsageError

PARTITIONS: Final = 4
_ANSWER_S: Final = 10.0


def cluster_of(bootstrap_servers: str, connection: Mapping[str, str]) -> str:
    """The id of the cluster that answers there. Raises UsageError when none does."""
    found = _cluster_id(bootstrap_servers, connection)
    if found is None:
        raise UsageError(
            f"no control broker answers at {bootstrap_servers} within {_ANSWER_S:g} s; start one beside the system "
            "under test (highwater broker start), or leave telemetry out"
        )
    return found


def make_topic(bootstrap_servers: str, connection: Mapping[str, str], topic: str, partitions: int = PARTITIONS) -> None:
    """Make the topic if it is missing. Raises UsageError."""
    cluster_of(bootstrap_servers, connection)
    admin = _admin(bootstrap_servers, connection)
    if topic in admin.list_topics(timeout=_ANSWER_S).topics:
        return
    try:
        for future in admin.create_topics([NewTopic(topic, partitions)]).values():
            future.result(_ANSWER_S)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise UsageError(f"topic {topic} cannot be made at {bootstrap_servers}: {error.args[0].str()}") from error


def control_of(specification: Specification) -> ControlTopic | None:
    """Where the file of a workload says that live figures go. Raises UsageError for a faulty file of properties."""
    asked = specification.workload.telemetry
    if asked is None:
        return None
    path = specification.file.parent / expanded(asked.config) if asked.config is not None else None
    return ControlTopic(asked.control, asked.topic, read_command_config(path) if path is not None else {})


def check_control(control: ControlTopic, specification: Specification) -> None:
    """Check that the topic would not be on a cluster under test. Raises UsageError."""
    if all(cell.workload.producers.native for cell in specification.cells):
        raise UsageError("telemetry: native clients publish nothing; use it with producers.driver client or wire")
    own = cluster_of(control.bootstrap_servers, control.connection)
    for cell in specification.cells:
        cluster = cell.workload.system.external
        if cluster is None or cluster.bootstrap_servers is None:
            continue
        connection = specification.command_config(cell.workload)
        if _cluster_id(cluster.bootstrap_servers, connection) == own:
            raise UsageError(
                f"the control broker {control.bootstrap_servers} is the cluster under test: its figures would be "
                "part of its load; start a control broker beside it (highwater broker start)"
            )


def _cluster_id(bootstrap_servers: str, connection: Mapping[str, str]) -> str | None:
    try:
        return str(_admin(bootstrap_servers, connection).list_topics(timeout=_ANSWER_S).cluster_id)
    except (KafkaException, ValueError):
        return None


def _admin(bootstrap_servers: str, connection: Mapping[str, str]) -> AdminClient:
    return AdminClient({**connection, "bootstrap.servers": bootstrap_servers, "log_level": 0})
