"""Changes one setting of a topic, a broker or all brokers; the broker tries it before that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from highwater.common.secret_names import is_secret_name
from highwater.monitor.actions import requests
from highwater.monitor.actions.cluster import ActionCluster
from highwater.monitor.actions.plan import ActionError, Outcome, Plan, PlannedChange, text_of
from highwater.monitor.command_line import broker_command
from highwater.monitor.kafka_source.configs import BROKER, TOPIC, describe_configs
from highwater.monitor.kafka_source.parts import refusal
from highwater.monitor.model import ConfigValue

OF_TOPIC: Final = "topic"
OF_BROKER: Final = "broker"
OF_ALL: Final = "all brokers"
WHOSE: Final = (OF_TOPIC, OF_BROKER, OF_ALL)
SET: Final = "set"
RESET: Final = "reset to its default"
OPERATIONS: Final = (SET, RESET)
_SETTING: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


def plan(cluster: ActionCluster, bootstrap: str, form: Mapping[str, str]) -> Plan:
    whose, name, setting = form.get("whose", OF_TOPIC), text_of(form, "name"), text_of(form, "setting")
    value = None if form.get("operation", SET) == RESET else text_of(form, "value")
    check_fields(whose, name, setting, form.get("operation", SET))
    if whose == OF_TOPIC:
        cluster.topic(name)
    node_id = _node(cluster, whose, name)
    before = _value(cluster, whose, name, node_id, setting)
    kind, resource = (TOPIC, name) if whose == OF_TOPIC else (BROKER, "" if whose == OF_ALL else name)
    if refused := _alter(cluster, node_id, (kind, resource), {setting: value}, is_trial=True):
        raise ActionError(f"The broker would refuse it: {refused}.")
    pair = value if value is None or "," not in value else f"[{value}]"
    change = ("--delete-config", setting) if value is None else ("--add-config", f"{setting}={pair}")
    entity = ("--entity-type", "brokers", "--entity-default") if whose == OF_ALL else (f"--{whose}", name)
    after = value if value is not None else _default(before)
    return Plan(
        title=f"{'Reset' if value is None else 'Set'} {setting} of {whose if whose == OF_ALL else f'{whose} {name}'}",
        entity="topic" if whose == OF_TOPIC else "broker" if whose == OF_BROKER else "cluster",
        name=name,
        command=broker_command("configs", "-b", bootstrap, "--alter", *entity, *change),
        changes=(PlannedChange(setting, _shown(before), after, "" if before is None else f"was from {before.source}"),),
        fields={
            "whose": whose,
            "name": name,
            "setting": setting,
            "operation": RESET if value is None else SET,
            "value": value or "",
        },
        request=(node_id, kind, resource, setting, value),
    )


def carry_out(cluster: ActionCluster, made: Plan) -> list[Outcome]:
    node_id, kind, resource, setting, value = made.request
    return [Outcome(setting, _alter(cluster, node_id, (kind, resource), {setting: value}, is_trial=False))]


def _alter(
    cluster: ActionCluster, node_id: int, resource: requests.Resource, wanted: requests.Settings, *, is_trial: bool
) -> str:
    answer = cluster.ask(node_id, requests.incremental_alter_configs({resource: wanted}, is_trial=is_trial))
    return answer.get(resource, "the broker did not mention it")


def check_fields(whose: str, name: str, setting: str, operation: str) -> None:
    if whose not in WHOSE or operation not in OPERATIONS:
        raise ActionError(f"Say whose setting ({', '.join(WHOSE)}) and what to do ({', '.join(OPERATIONS)}).")
    if bool(name) == (whose == OF_ALL):
        raise ActionError("All brokers have no name: leave it empty." if name else f"Name the {whose}.")
    if not _SETTING.fullmatch(setting):
        raise ActionError("Name the setting, such as retention.ms.")
    if is_secret_name(setting):
        raise ActionError(f"{setting} is a secret, which does not go through a page: use the command.")


def _node(cluster: ActionCluster, whose: str, name: str) -> int:
    """A broker takes its own settings alone; those of topics and of all brokers go to any."""
    if whose != OF_BROKER:
        return cluster.row.controller if cluster.row.controller in cluster.alive else cluster.alive[0]
    if not (name.isascii() and name.isdigit() and len(name) < 10):
        raise ActionError(f"{name!r} is not an id of a broker.")
    return int(name)


def _value(cluster: ActionCluster, whose: str, name: str, node_id: int, setting: str) -> ConfigValue | None:
    """What is in force before; None if the broker does not say."""
    resource = (TOPIC, name) if whose == OF_TOPIC else (BROKER, name)
    found = cluster.ask(node_id, describe_configs([resource]))[resource]
    if found.error_code:
        raise ActionError(f"The settings are not known: {refusal(found.error_code, found.message)}.")
    value = found.config.get(setting)
    if value is not None and value.is_sensitive:
        raise ActionError(f"{setting} is a secret, which does not go through a page: use the command.")
    return value


def _shown(value: ConfigValue | None) -> str:
    return "not set" if value is None else value.value or ""


def _default(value: ConfigValue | None) -> str:
    known = value.default if value is not None else None
    return "its default" if known is None else known
