"""`highwater broker configs`: shows and changes settings of topics, brokers, clients and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kio.schema.errors import ErrorCode

from highwater.admin import client_configs, named_configs
from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    only_action,
    refuse_options,
    result_of,
)
from highwater.admin.named_configs import CLIENT_METRICS, GROUPS, SOURCES, NamedKind
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_table,
    reporting,
    say,
)
from highwater.admin.wire import ask_any

_ENTITY_TYPES: Final = {
    "topics": "topic",
    "brokers": "broker",
    "users": "user",
    "clients": "client",
    "groups": "group",
    "client-metrics": "client-metrics",
}
_CLIENT_KINDS: Final = ("user", "client")
_NAMED_KINDS: Final = {"group": GROUPS, "client-metrics": CLIENT_METRICS}
_BROKER: Final = 4  # resource type in the protocol
_OWN_SOURCES: Final = {
    "topic": ("topic",),
    "broker": ("dynamic broker", "dynamic default", "static broker"),
}
"""--describe shows these without --all: settings that were set, not defaults."""


def configs(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show the settings that were set; with --all every setting.")
    ] = False,
    alter: Annotated[
        bool, typer.Option("--alter", help="Change settings, with --add-config and --delete-config.")
    ] = False,
    add_config: Annotated[
        list[str] | None,
        typer.Option(
            "--add-config",
            metavar="NAME=VALUE,...",
            help="Settings to set; write a value with commas in [brackets]; may be repeated.",
        ),
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config", metavar="NAME,...", help="Settings to reset to their defaults; may be repeated."
        ),
    ] = None,
    entity_type: Annotated[
        str | None, typer.Option("--entity-type", help="topics, brokers, users, clients, groups or client-metrics.")
    ] = None,
    entity_name: Annotated[
        str | None,
        typer.Option(
            "--entity-name",
            help="The name of the topic, user, client, group or subscription to metrics, or the broker's id.",
        ),
    ] = None,
    entity_default: Annotated[
        bool,
        typer.Option(
            "--entity-default", help="The defaults of all brokers, users or clients, in place of --entity-name."
        ),
    ] = False,
    topic: Annotated[str | None, typer.Option("--topic", help="Short for --entity-type topics --entity-name.")] = None,
    broker: Annotated[
        str | None, typer.Option("--broker", help="Short for --entity-type brokers --entity-name.")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", help="Short for --entity-type users --entity-name; may go with --client."),
    ] = None,
    client: Annotated[
        str | None, typer.Option("--client", help="Short for --entity-type clients --entity-name: a client id.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Short for --entity-type groups --entity-name: a group id.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Describe every setting, and where it comes from.")] = False,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or change settings of topics, brokers, groups, users and clients, and what metrics clients push.

    Exit code: 0 done, 1 the broker refused it, 2 usage error.
    """
    with reporting():
        action = only_action({"--describe": describe, "--alter": alter})
        kind, name = _entity(
            entity_type,
            entity_name,
            {"topic": topic, "broker": broker, "group": group, "user": user, "client": client},
        )
        if entity_default and (kind in ("topic", *_NAMED_KINDS) or name is not None):
            raise UsageError(
                "--entity-default goes with --entity-type brokers, users or clients, without --entity-name"
            )
        refuse_options(
            action,
            {
                "--add-config": bool(add_config) and not alter,
                "--delete-config": bool(delete_config) and not alter,
                "--all": show_all and not describe,
            },
        )
        changes = [] if describe else _changes(add_config or (), delete_config or ())
        cluster = Cluster(bootstrap_server, command_config)
        if kind in _CLIENT_KINDS:
            _of_clients(cluster, kind, "" if entity_default else name, user, client, changes, as_json)
            return
        if kind in _NAMED_KINDS:
            _of_named(cluster, _NAMED_KINDS[kind], name, changes, show_all, as_json)
            return
        if entity_default:
            _alter_defaults(cluster, changes, as_json) if alter else _print_defaults(cluster, as_json)
            return
        if name is not None:
            _require(cluster, kind, name)
        if action == "--alter":
            if name is None:
                raise UsageError("--alter needs --entity-name or --entity-default")
            _alter(cluster, kind, name, changes, as_json)
            return
        names = [name] if name is not None else _every(cluster, kind)
        described = {each: _describe(cluster, kind, each, show_all) for each in names}
        if as_json:
            print_json([{"entity_type": f"{kind}s", "entity_name": each, "configs": described[each]} for each in names])
        else:
            for each in names:
                _print(kind, each, described[each], show_all)


def _entity(
    entity_type: str | None, entity_name: str | None, named: Mapping[str, str | None]
) -> tuple[str, str | None]:
    """Return the type of entity, one of `_ENTITY_TYPES`, and its name, None for all of the type."""
    given = [kind for kind, name in named.items() if name is not None]
    if given == ["user", "client"]:
        given = ["user"]
    if len(given) + (entity_type is not None) != 1:
        raise UsageError(
            f"name whose settings: --entity-type {'|'.join(_ENTITY_TYPES)} with --entity-name, or --topic, or "
            "--broker, or --group, or --user and --client"
        )
    if entity_type is None:
        if entity_name is not None:
            raise UsageError("--entity-name goes with --entity-type")
        return given[0], named[given[0]]
    kind = _ENTITY_TYPES.get(entity_type)
    if kind is None:
        raise UsageError(f"--entity-type {entity_type}: {', '.join(_ENTITY_TYPES)} have settings here")
    return kind, entity_name


def _of_clients(
    cluster: Cluster,
    kind: str,
    name: str | None,
    user: str | None,
    client: str | None,
    changes: list[Any],
    as_json: bool,
) -> None:
    """Show or change users and clients, by client_configs. Without a name it is all of the type."""
    every = name is None
    if user is not None or client is not None:
        whose = client_configs.Whose(user, client)
    else:
        whose = client_configs.Whose(user=name or "") if kind == "user" else client_configs.Whose(client_id=name or "")
    if not changes:
        client_configs.describe(cluster, whose, every=every, as_json=as_json)
    elif every:
        raise UsageError("--alter needs --entity-name or --entity-default")
    else:
        client_configs.alter(cluster, whose, [(entry.name, entry.value) for entry in changes], as_json=as_json)


def _of_named(
    cluster: Cluster, kind: NamedKind, name: str | None, changes: list[Any], show_all: bool, as_json: bool
) -> None:
    if not changes:
        named_configs.describe(cluster, kind, name, shows_all=show_all, as_json=as_json)
    elif name is None:
        raise UsageError("--alter needs --entity-name")
    else:
        named_configs.alter(cluster, kind, name, [(entry.name, entry.value) for entry in changes], as_json=as_json)


def _require(cluster: Cluster, kind: str, name: str) -> None:
    if kind == "topic":
        cluster.require_topic(name)
    elif name not in (known := _every(cluster, "broker")):
        raise CommandError(f"there is no broker {name}; there are: {', '.join(known)}")


def _every(cluster: Cluster, kind: str) -> list[str]:
    return cluster.topic_names if kind == "topic" else [str(number) for number in sorted(cluster.metadata.brokers)]


def _resource(kind: str, name: str, entries: list[Any] | None = None) -> Any:
    resource_type = ResourceType.TOPIC if kind == "topic" else ResourceType.BROKER
    return ConfigResource(resource_type, name, incremental_configs=entries)


def _describe(cluster: Cluster, kind: str, name: str, show_all: bool) -> list[dict[str, Any]]:
    resource = _resource(kind, name)
    (future,) = cluster.admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values()
    entries = result_of(f"{kind} {name}", future).values()
    rows = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": SOURCES.get(entry.source, "unknown"),
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
        }
        for entry in sorted(entries, key=lambda entry: str(entry.name))
    ]
    return [row for row in rows if show_all or row["source"] in _OWN_SOURCES[kind]]


def _print_defaults(cluster: Cluster, as_json: bool) -> None:
    resource = {"resource_type": _BROKER, "resource_name": "", "configuration_keys": None}
    (result,) = ask_any(cluster, "describe_configs", 1, resources=[resource], include_synonyms=False).results
    if result.error_code is not ErrorCode.none:
        raise CommandError(f"all brokers: {result.error_message or result.error_code.name}")
    rows = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": "dynamic default",
            "read_only": entry.read_only,
            "sensitive": entry.is_sensitive,
        }
        for entry in sorted(result.configs, key=lambda entry: str(entry.name))
    ]
    if as_json:
        print_json([{"entity_type": "brokers", "entity_name": None, "configs": rows}])
    elif rows:
        _print_rows("all brokers", rows)
    else:
        say("No settings of all brokers are changed.")


def _alter_defaults(cluster: Cluster, changes: list[Any], as_json: bool) -> None:
    entries = [
        {"name": entry.name, "config_operation": entry.incremental_operation.value, "value": entry.value}
        for entry in changes
    ]
    resource = {"resource_type": _BROKER, "resource_name": "", "configs": entries}
    (response,) = ask_any(cluster, "incremental_alter_configs", 0, resources=[resource]).responses
    if response.error_code is not ErrorCode.none:
        raise CommandError(f"all brokers: {response.error_message or response.error_code.name}")
    if as_json:
        print_json({"entity_type": "brokers", "entity_name": None, "changed": [entry.name for entry in changes]})
    else:
        say("Changed the settings of all brokers.")


def _print(kind: str, name: str, rows: list[dict[str, Any]], show_all: bool) -> None:
    if not rows:
        say(f"No settings of {kind} {name} are changed." + ("" if show_all else " --all shows the values in force."))
        return
    _print_rows(f"{kind} {name}", rows)


def _print_rows(whose: str, rows: list[dict[str, Any]]) -> None:
    print_table(
        ("Setting", "Value", "From"),
        [(row["name"], "(hidden)" if row["sensitive"] else row["value"], row["source"]) for row in rows],
        title=f"Settings of {whose}",
    )


def _changes(add_config: Iterable[str], delete_config: Iterable[str]) -> list[Any]:
    added = [pair for text in add_config for pair in split_pairs(text)]
    deleted = [name.strip() for text in delete_config for name in text.split(",") if name.strip()]
    if not added and not deleted:
        raise UsageError("--alter needs --add-config or --delete-config")
    for name, _ in added:
        if name in deleted:
            raise UsageError(f"{name} is in --add-config and in --delete-config")
    return [
        *(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in added),
        *(ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in deleted),
    ]


def split_pairs(text: str) -> list[tuple[str, str]]:
    """Parse `a=1,b=[2,3]` into pairs; a value with commas is in brackets, as in Kafka's tool."""
    pairs = []
    rest = text.strip()
    while rest:
        name, separator, rest = rest.partition("=")
        if not separator or not name.strip() or "," in name:
            raise UsageError(f"--add-config {text}: write it as name=value,name=value")
        if rest.startswith("["):
            value, closing, rest = rest[1:].partition("]")
            if not closing or (rest and not rest.startswith(",")):
                raise UsageError(f"--add-config {text}: the brackets after {name} do not close before a comma")
            rest = rest.removeprefix(",")
        else:
            value, _, rest = rest.partition(",")
        pairs.append((name.strip(), value))
    return pairs


def _alter(cluster: Cluster, kind: str, name: str, changes: list[Any], as_json: bool) -> None:
    resource = _resource(kind, name, changes)
    futures = cluster.admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
    result_of(f"{kind} {name}", futures[resource])
    if as_json:
        print_json({"entity_type": f"{kind}s", "entity_name": name, "changed": [entry.name for entry in changes]})
    else:
        say(f"Changed the settings of {kind} {name}.")
