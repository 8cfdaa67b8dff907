"""Settings of groups and of subscriptions to metrics, for `highwater broker configs`.

Both (KIP-848, KIP-714) may be named before there is such a thing, and are gone when they have no settings left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.admin.client import Cluster
from highwater.admin.client_configs import Change
from highwater.admin.terminal import CommandError, UsageError, print_json, print_table, printable, say
from highwater.admin.wire import ask_any, reason_of

SOURCES: Final = {
    1: "topic",
    2: "dynamic broker",
    3: "dynamic default",
    4: "static broker",
    5: "default",
    7: "subscription",
    8: "group",
}
"""Where a setting is from, by its number in the protocol."""
_SET, _DELETE = 0, 1


class NamedKind(NamedTuple):
    entity_type: str
    resource_type: int
    own_source: str
    """The source of a setting that was set."""
    none_at_all: str
    none_of: str


CLIENT_METRICS: Final = NamedKind(
    "client-metrics", 16, "subscription", "Clients are asked for no metrics.", "There is no subscription {}."
)
GROUPS: Final = NamedKind(
    "groups",
    32,
    "group",
    "No group has settings of its own.",
    "Group {} has no settings of its own. --all shows the values in force.",
)


def describe(cluster: Cluster, kind: NamedKind, name: str | None, *, shows_all: bool, as_json: bool) -> None:
    """Show the settings of one, or of each that has some; with `shows_all` those too that it does not have itself."""
    names = _names(cluster, kind) if name is None else [name]
    resources = [
        {"resource_type": kind.resource_type, "resource_name": each, "configuration_keys": None} for each in names
    ]
    found: dict[str, list[dict[str, Any]]] = {}
    results = ask_any(cluster, "describe_configs", 1, resources=resources, include_synonyms=False).results
    for result in results if names else ():
        if result.error_code is not ErrorCode.none:
            raise CommandError(f"{kind.entity_type} {printable(result.resource_name)}: {reason_of(result)}")
        rows = [
            {"name": entry.name, "value": entry.value, "source": SOURCES.get(entry.config_source, "unknown")}
            for entry in result.configs
        ]
        found[result.resource_name] = [row for row in rows if shows_all or row["source"] == kind.own_source]
    if as_json:
        print_json([{"entity_type": kind.entity_type, "entity_name": each, "configs": found[each]} for each in names])
    elif not any(found.values()):
        say(kind.none_at_all if name is None else kind.none_of.format(name))
    else:
        for each in names:
            table = [(row["name"], row["value"], row["source"]) for row in found[each]]
            print_table(("Setting", "Value", "From"), table, title=f"Settings of {kind.entity_type} {each}")


def alter(cluster: Cluster, kind: NamedKind, name: str, changes: Sequence[Change], *, as_json: bool) -> None:
    entries = [
        {"name": key, "config_operation": _DELETE if value is None else _SET, "value": value} for key, value in changes
    ]
    resource = {"resource_type": kind.resource_type, "resource_name": name, "configs": entries}
    (response,) = ask_any(cluster, "incremental_alter_configs", 0, resources=[resource]).responses
    if response.error_code is not ErrorCode.none:
        raise CommandError(f"{kind.entity_type} {name}: {reason_of(response)}")
    if as_json:
        print_json({"entity_type": kind.entity_type, "entity_name": name, "changed": [key for key, _ in changes]})
    else:
        say(f"Changed the settings of {kind.entity_type} {name}.")


def _names(cluster: Cluster, kind: NamedKind) -> list[str]:
    is_of_metrics = kind is CLIENT_METRICS
    try:
        answer = ask_any(
            cluster,
            "list_config_resources",
            0 if is_of_metrics else 1,
            **({} if is_of_metrics else {"resource_types": [kind.resource_type]}),
        )
    except UsageError as error:  # Kafka lists groups with settings of their own from 4.1 on
        raise UsageError(f"{error}; name one with --entity-name") from None
    if answer.error_code is not ErrorCode.none:
        raise CommandError(f"{kind.entity_type}: {answer.error_code.name.upper()}")
    return sorted(each.resource_name for each in answer.config_resources)
