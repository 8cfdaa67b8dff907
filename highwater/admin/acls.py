"""`highwater broker acls`: lists, adds and removes ACLs, with the options of Kafka's kafka-acls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import typer
from kio.schema.errors import ErrorCode

from highwater.admin.acl_options import Given, checked_principal
from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    only_action,
    refuse_options,
)
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    confirmed,
    print_json,
    print_table,
    printable,
    reporting,
    require_terminal,
    say,
)
from highwater.admin.wire import ask_any, reason_of
from highwater.kafka.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Entry,
    EntryFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceFilter,
    ResourceType,
)

_VERSION: Final = 2
"""The same fields as later ones; brokers have had it since Kafka 2.6."""
_COLUMNS: Final = ("Resource", "Name", "Pattern", "Principal", "Permission", "Operation", "Host")

Names = list[str] | None


def _names(option: str, text: str, metavar: str = "NAME") -> Any:
    return typer.Option(option, metavar=metavar, help=f"{text}; may be repeated.", show_default=False)


def acls(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    list_: Annotated[
        bool, typer.Option("--list", help="List ACLs, of all resources or of those that are named.")
    ] = False,
    add: Annotated[bool, typer.Option("--add", help="Add ACLs to the named resources.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove ACLs; without principals, all of the named resources.")
    ] = False,
    topic: Annotated[Names, _names("--topic", "A topic, or * for all topics")] = None,
    group: Annotated[Names, _names("--group", "A consumer group, or * for all groups")] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster itself.")] = False,
    transactional_id: Annotated[Names, _names("--transactional-id", "A transactional id, or * for all of them")] = None,
    delegation_token: Annotated[Names, _names("--delegation-token", "A delegation token, or * for all tokens")] = None,
    user_principal: Annotated[
        Names, _names("--user-principal", "User whose delegation tokens the ACLs cover", "User:NAME")
    ] = None,
    pattern: Annotated[
        str,
        typer.Option(
            "--resource-pattern-type",
            help="literal: this name; prefixed: all names that begin with it. For --list and --remove also any, and "
            "match: all ACLs that apply to the name.",
        ),
    ] = "literal",
    allow_principal: Annotated[
        Names, _names("--allow-principal", "Principal to allow; User:* means everyone", "User:NAME")
    ] = None,
    deny_principal: Annotated[Names, _names("--deny-principal", "Principal to deny", "User:NAME")] = None,
    allow_host: Annotated[
        Names, _names("--allow-host", "Address that the allowed principals may use (default: *)", "ADDRESS")
    ] = None,
    deny_host: Annotated[
        Names, _names("--deny-host", "Address that the denied principals may not use (default: *)", "ADDRESS")
    ] = None,
    operation: Annotated[
        Names, _names("--operation", "Operation to allow or deny: Read, Write, Create, … (default: All)", "OPERATION")
    ] = None,
    producer: Annotated[
        bool, typer.Option("--producer", help="Short for what a producer needs: Write, Describe, Create on --topic.")
    ] = False,
    consumer: Annotated[
        bool,
        typer.Option("--consumer", help="Short for what a consumer needs: Read, Describe on --topic, Read on --group."),
    ] = False,
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="With --producer: also IdempotentWrite on the cluster (before 3.0).")
    ] = False,
    principal: Annotated[Names, _names("--principal", "With --list: ACLs of this principal alone", "User:NAME")] = None,
    force: Annotated[bool, typer.Option("--force", help="Remove without asking.")] = False,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List, add or remove ACLs of a cluster whose brokers have an authorizer.

    Exit code: 0 done, 1 the cluster refused it, or the answer to the question was no, 2 usage error.
    """
    with reporting():
        action = only_action({"--list": list_, "--add": add, "--remove": remove})
        refuse_options(action, {"--principal": bool(principal) and not list_, "--force": force and not remove})
        given = Given(
            names={
                ResourceType.TOPIC: topic or (),
                ResourceType.GROUP: group or (),
                ResourceType.CLUSTER: (CLUSTER_NAME,) if cluster else (),
                ResourceType.TRANSACTIONAL_ID: transactional_id or (),
                ResourceType.DELEGATION_TOKEN: delegation_token or (),
                ResourceType.USER: user_principal or (),
            },
            pattern=pattern,
            allowed=allow_principal or (),
            denied=deny_principal or (),
            allowed_hosts=allow_host or (),
            denied_hosts=deny_host or (),
            operations=operation or (),
            is_producer=producer,
            is_consumer=consumer,
            is_idempotent=idempotent,
        )
        given.check(action)
        if add:
            _add(Cluster(bootstrap_server, command_config), given.acls(), as_json=as_json)
        elif remove:
            filters = given.filters()
            _remove(Cluster(bootstrap_server, command_config), filters, force=force, as_json=as_json)
        else:
            whose: list[str | None] = [checked_principal("--principal", each) for each in principal or ()]
            wanted = [
                AclFilter(resource, EntryFilter(each))
                for resource in given.resources or [ResourceFilter()]
                for each in whose or [None]
            ]
            _show(_listed(Cluster(bootstrap_server, command_config), wanted), as_json=as_json)


def _add(cluster: Cluster, acls: Sequence[Acl], *, as_json: bool) -> None:
    creations = [
        {
            "resource_type": int(acl.resource.type),
            "resource_name": acl.resource.name,
            "resource_pattern_type": int(acl.resource.pattern),
            "principal": acl.entry.principal,
            "host": acl.entry.host,
            "operation": int(acl.entry.operation),
            "permission_type": int(acl.entry.permission),
        }
        for acl in acls
    ]
    results = ask_any(cluster, "create_acls", _VERSION, creations=creations).results
    _require_all("added", [_resource_text(acl.resource) for acl in acls], results)
    if not as_json:
        say(f"Added. The resources have these ACLs now ({len(acls)} were asked for):")
    # As Kafka's tool: what there is of these resources, not only what was added.
    _show(_listed(cluster, [AclFilter(ResourceFilter(*acl.resource)) for acl in acls]), as_json=as_json)


def _remove(cluster: Cluster, filters: Sequence[AclFilter], *, force: bool, as_json: bool) -> None:
    if not force:
        require_terminal()
        found = _listed(cluster, filters)
        if not found:
            raise CommandError("there is no such ACL; --list --resource-pattern-type match shows what concerns a name")
        _show(found, as_json=False)
        if not confirmed(f"Remove {'this ACL' if len(found) == 1 else f'these {len(found)} ACLs'}?"):
            raise CommandError("nothing was removed")
    results = ask_any(cluster, "delete_acls", _VERSION, filters=[_wire_filter(each) for each in filters]).filter_results
    _require_all("removed", [_filter_text(each.resource) for each in filters], results)
    removed = [
        Acl(
            Resource(ResourceType(each.resource_type), each.resource_name, PatternType(each.pattern_type)),
            _entry(each),
        )
        for result in results
        for each in result.matching_acls
    ]
    if not as_json:
        say(f"Removed {len(removed)}:" if removed else "Nothing was removed: there is no such ACL.")
    _show(removed, as_json=as_json, is_told=not removed)


def _require_all(done: str, texts: Sequence[str], results: Iterable[Any]) -> None:
    """Raises CommandError with each resource that was refused, and why."""
    refused = dict.fromkeys(
        f"{text}: {_reason(result)}"
        for text, result in zip(texts, results, strict=True)
        if result.error_code is not ErrorCode.none
    )
    if refused:
        raise CommandError(f"not everything is {done}: {'; '.join(refused)}")


def _listed(cluster: Cluster, filters: Iterable[AclFilter]) -> list[Acl]:
    found: dict[Acl, None] = {}
    for wanted in dict.fromkeys(filters):
        answer = ask_any(cluster, "describe_acls", _VERSION, **_wire_filter(wanted))
        if answer.error_code is not ErrorCode.none:
            raise CommandError(f"ACLs cannot be listed: {_reason(answer)}")
        for each in answer.resources:
            resource = Resource(ResourceType(each.resource_type), each.resource_name, PatternType(each.pattern_type))
            found.update((Acl(resource, _entry(entry)), None) for entry in each.acls)
    return sorted(found)


def _wire_filter(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": int(wanted.resource.type),
        "resource_name_filter": wanted.resource.name,
        "pattern_type_filter": int(wanted.resource.pattern),
        "principal_filter": wanted.entry.principal,
        "host_filter": wanted.entry.host,
        "operation": int(wanted.entry.operation),
        "permission_type": int(wanted.entry.permission),
    }


def _entry(told: Any) -> Entry:
    return Entry(told.principal, told.host, Operation(told.operation), Permission(told.permission_type))


def _reason(answer: Any) -> str:
    if answer.error_code is ErrorCode.security_disabled:
        return "the brokers have no authorizer (authorizer.class.name), so everybody may do everything"
    return reason_of(answer)


def _resource_text(resource: Resource) -> str:
    return f"{resource.type.name.lower()} {printable(resource.name)}"


def _filter_text(wanted: ResourceFilter) -> str:
    return f"{wanted.type.name.lower()} {printable(wanted.name or '*')}"


def _show(acls: Sequence[Acl], *, as_json: bool, is_told: bool = False) -> None:
    if as_json:
        print_json(
            [
                {
                    "resource_type": resource.type.name,
                    "resource_name": resource.name,
                    "pattern_type": resource.pattern.name,
                    "principal": entry.principal,
                    "permission": entry.permission.name,
                    "operation": entry.operation.name,
                    "host": entry.host,
                }
                for resource, entry in acls
            ]
        )
    elif acls:
        print_table(
            _COLUMNS,
            [
                (
                    resource.type.text,
                    printable(resource.name),
                    resource.pattern.name.lower(),
                    printable(entry.principal),
                    entry.permission.text,
                    entry.operation.text,
                    printable(entry.host),
                )
                for resource, entry in acls
            ],
        )
    elif not is_told:
        say("There are no such ACLs.")
