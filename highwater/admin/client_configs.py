"""Quotas and SCRAM credentials of users and clients, for `highwater broker configs`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kio.schema.errors import ErrorCode

from highwater.admin.client import REQUEST_TIMEOUT_S, Cluster, result_of
from highwater.admin.terminal import CommandError, UsageError, print_json, print_table, printable, say
from highwater.admin.wire import ask_any, reason_of

MECHANISMS: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_MECHANISM_NAMES: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The mechanisms by their numbers in the protocol."""
ITERATIONS: Final = 8192
_SALT_BYTES: Final = 20
_EXACT, _DEFAULT, _ANY = range(3)

Change = tuple[str, str | None]
"""The name of a setting and its new value; None deletes the setting."""


class Whose(NamedTuple):
    """A user, a client id, or both: "" is the default of all users or clients, None is not part of the entity."""

    user: str | None = None
    client_id: str | None = None

    def __str__(self) -> str:
        return " of ".join(
            f"{kind} {name}" if name else f"every {kind} without its own"
            for kind, name in (("client", self.client_id), ("user", self.user))
            if name is not None
        )

    @property
    def entity(self) -> list[dict[str, Any]]:
        """The entity as the protocol writes it."""
        return [
            {"entity_type": kind, "entity_name": name or None}
            for kind, name in (("user", self.user), ("client-id", self.client_id))
            if name is not None
        ]


def describe(cluster: Cluster, whose: Whose, *, every: bool, as_json: bool) -> None:
    """Show the settings of the entity `whose`, or, with `every`, of all entities of its kinds."""
    found = _quotas(cluster, whose, every=every)
    if whose.client_id is None and (every or whose.user):
        for user, mechanisms in credentials(cluster, None if every else whose.user).items():
            told = {name: f"iterations={iterations}" for name, iterations in mechanisms.items()}
            found.setdefault(Whose(user), {}).update(told)
    if as_json:
        print_json(
            [
                {"user": entity.user, "client_id": entity.client_id, "configs": found[entity]}
                for entity in sorted(found, key=str)
            ]
        )
    elif not found:
        say("No settings of users or clients are changed." if every else f"No settings of {whose} are changed.")
    else:
        for entity in sorted(found, key=str):
            print_table(("Setting", "Value"), sorted(found[entity].items()), title=f"Settings of {entity}")


def _quotas(cluster: Cluster, whose: Whose, *, every: bool) -> dict[Whose, dict[str, str]]:
    components = [
        {
            "entity_type": part["entity_type"],
            "match_type": _ANY if every else _EXACT if part["entity_name"] else _DEFAULT,
            "match": None if every else part["entity_name"],
        }
        for part in whose.entity
    ]
    answer = ask_any(cluster, "describe_client_quotas", 0, components=components, strict=not every)
    if answer.error_code is not ErrorCode.none:
        raise CommandError(f"quotas: {reason_of(answer)}")
    found = {}
    for entry in answer.entries:
        names = {part.entity_type: part.entity_name or "" for part in entry.entity}
        limits = {value.key: f"{value.value:.0f}" for value in entry.values}
        found[Whose(names.get("user"), names.get("client-id"))] = limits
    return found


def credentials(cluster: Cluster, user: str | None = None) -> dict[str, dict[str, int]]:
    """Return mechanisms with iterations of the SCRAM credentials of one user, or of all; never the secrets."""
    # Not by librdkafka: 2.16 ends the process with a broken heap when the broker refuses this request.
    wanted = None if user is None else [{"name": user}]
    answer = ask_any(cluster, "describe_user_scram_credentials", 0, users=wanted)
    if answer.error_code is not ErrorCode.none:
        raise CommandError(f"users of SCRAM: {reason_of(answer)}")
    found = {}
    for each in answer.results:
        if each.error_code is ErrorCode.resource_not_found:
            continue
        if each.error_code is not ErrorCode.none:
            raise CommandError(f"user {printable(each.user)}: {reason_of(each)}")
        found[each.user] = {_MECHANISM_NAMES[info.mechanism]: int(info.iterations) for info in each.credential_infos}
    return found


def alter(cluster: Cluster, whose: Whose, changes: Sequence[Change], *, as_json: bool) -> None:
    """Change credentials, then quotas: the broker refuses wrong credentials before anything has changed."""
    scram = [(name.upper(), value) for name, value in changes if name.upper() in MECHANISMS]
    quotas = [change for change in changes if change[0].upper() not in MECHANISMS]
    if scram:
        _alter_credentials(cluster, whose, scram)
    if quotas:
        operations = [
            {"key": name, "value": 0.0 if value is None else _number(name, value), "remove": value is None}
            for name, value in quotas
        ]
        entries = [{"entity": whose.entity, "ops": operations}]
        (entry,) = ask_any(cluster, "alter_client_quotas", 0, entries=entries, validate_only=False).entries
        if entry.error_code is not ErrorCode.none:
            raise CommandError(f"{whose}: {reason_of(entry)}")
    if as_json:
        print_json({"user": whose.user, "client_id": whose.client_id, "changed": [name for name, _ in changes]})
    else:
        say(f"Changed the settings of {whose}.")


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{name}={text}: a quota is a number of bytes a second") from None


def _alter_credentials(cluster: Cluster, whose: Whose, changes: Sequence[Change]) -> None:
    if not whose.user or whose.client_id is not None:
        raise UsageError("SCRAM credentials belong to a user: --user NAME alone")
    alter_credentials(
        cluster, whose.user, [(name, None if value is None else _parsed(name, value)) for name, value in changes]
    )


class Password(NamedTuple):
    """What a credential is made of; the broker is sent neither."""

    iterations: int
    text: str

    def __repr__(self) -> str:
        return f"Password({self.iterations})"


def alter_credentials(cluster: Cluster, user: str, changes: Sequence[tuple[str, Password | None]]) -> None:
    """Set the credentials of a user by mechanism, or delete those with None. Raises CommandError."""
    alterations: list[Any] = [
        UserScramCredentialDeletion(user, MECHANISMS[name])
        if password is None
        else UserScramCredentialUpsertion(
            user,
            ScramCredentialInfo(MECHANISMS[name], password.iterations),
            password.text.encode(),
            secrets.token_bytes(_SALT_BYTES),
        )
        for name, password in changes
    ]
    future = cluster.admin.alter_user_scram_credentials(alterations, request_timeout=REQUEST_TIMEOUT_S)[user]
    result_of(f"user {printable(user)}", future)


def _parsed(mechanism: str, text: str) -> Password:
    """Parse `password=…` or `iterations=…,password=…`, which Kafka's tool takes in brackets."""
    head, separator, password = text.partition("password=")
    iterations_name, _, iterations = head.rstrip(",").partition("=")
    is_fit = not head or (iterations_name == "iterations" and iterations.isdecimal())
    if not separator or not password or not is_fit:
        raise UsageError(f"write it as {mechanism}=[password=…] or {mechanism}=[iterations={ITERATIONS},password=…]")
    return Password(int(iterations) if head else ITERATIONS, password)
