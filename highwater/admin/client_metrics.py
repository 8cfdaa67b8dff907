"""Subscriptions to metrics of clients (KIP-714), for `highwater broker configs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.admin.client import Cluster
from highwater.admin.client_configs import Change
from highwater.admin.terminal import CommandError, print_json, print_table, say
from highwater.admin.wire import ask_any, reason_of

_CLIENT_METRICS: Final = 16
_SET, _DELETE = 0, 1
_DYNAMIC: Final = 7
"""The source of a setting that was set."""


def describe(cluster: Cluster, name: str | None, *, shows_all: bool, as_json: bool) -> None:
    """Show the settings of one subscription, or of each; with `shows_all` the defaults too."""
    names = _names(cluster) if name is None else [name]
    resources = [
        {"resource_type": _CLIENT_METRICS, "resource_name": each, "configuration_keys": None} for each in names
    ]
    found: dict[str, list[dict[str, Any]]] = {}
    results = ask_any(cluster, "describe_configs", 1, resources=resources, include_synonyms=False).results
    for result in results if names else ():
        if result.error_code is not ErrorCode.none:
            raise CommandError(f"client-metrics {result.resource_name}: {reason_of(result)}")
        found[result.resource_name] = [
            {"name": entry.name, "value": entry.value, "source": _source(entry)}
            for entry in result.configs
            if shows_all or entry.config_source == _DYNAMIC
        ]
    if as_json:
        print_json([{"entity_type": "client-metrics", "entity_name": each, "configs": found[each]} for each in names])
    elif not any(found.values()):
        say("Clients are asked for no metrics." if name is None else f"There is no subscription {name}.")
    else:
        for each in names:
            rows = [(row["name"], row["value"], row["source"]) for row in found[each]]
            print_table(("Setting", "Value", "From"), rows, title=f"Settings of client-metrics {each}")


def alter(cluster: Cluster, name: str, changes: Sequence[Change], *, as_json: bool) -> None:
    """Change a subscription; it is gone when it has no settings left."""
    entries = [
        {"name": key, "config_operation": _DELETE if value is None else _SET, "value": value} for key, value in changes
    ]
    resource = {"resource_type": _CLIENT_METRICS, "resource_name": name, "configs": entries}
    (response,) = ask_any(cluster, "incremental_alter_configs", 0, resources=[resource]).responses
    if response.error_code is not ErrorCode.none:
        raise CommandError(f"client-metrics {name}: {reason_of(response)}")
    if as_json:
        print_json({"entity_type": "client-metrics", "entity_name": name, "changed": [key for key, _ in changes]})
    else:
        say(f"Changed the settings of client-metrics {name}.")


def _names(cluster: Cluster) -> list[str]:
    answer = ask_any(cluster, "list_config_resources", 0)
    if answer.error_code is not ErrorCode.none:
        raise CommandError(f"client-metrics: {answer.error_code.name.upper()}")
    return sorted(each.resource_name for each in answer.config_resources)


def _source(entry: Any) -> str:
    return "subscription" if entry.config_source == _DYNAMIC else "default"
