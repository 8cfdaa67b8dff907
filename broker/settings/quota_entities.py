"""The entities of quotas, and the selection of the quota of a client (KIP-55, KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple


class Default(Enum):
    """The name of the default, for all users or clients without their own quota."""

    DEFAULT = "<default>"


DEFAULT: Final = Default.DEFAULT
Name = str | Default | None
"""None: the quota does not depend on this part of the entity."""


class Entity(NamedTuple):
    """A user, a client id, both; or an address that clients connect from, alone."""

    user: Name = None
    client_id: Name = None
    ip: Name = None


PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
WHOLE_NUMBERS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE)
OF_CLIENTS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""The quotas of users and clients; an address has a connection_creation_rate alone."""

Quotas = Mapping[Entity, Mapping[str, float]]
"""Limits by quota name, by entity."""


def candidates(user: str, client_id: str) -> tuple[Entity, ...]:
    """Return the entities of a client; the first one with a quota applies."""
    return (
        Entity(user, client_id),
        Entity(user, DEFAULT),
        Entity(user, None),
        Entity(DEFAULT, client_id),
        Entity(DEFAULT, DEFAULT),
        Entity(DEFAULT, None),
        Entity(None, client_id),
        Entity(None, DEFAULT),
    )


def limit_of(quotas: Quotas, name: str, user: str, client_id: str) -> tuple[Entity, float] | None:
    """Return the entity that shares the limit of a client, and the limit; None without a limit.

    A default applies to each user or client separately: the clients of one user share a default for users.
    """
    for entity in candidates(user, client_id):
        limit = quotas.get(entity, {}).get(name)
        if limit is not None:
            return _sharers(entity, user, client_id), limit
    return None


def _sharers(entity: Entity, user: str, client_id: str) -> Entity:
    return Entity(None if entity.user is None else user, None if entity.client_id is None else client_id)


def connection_rate_of(quotas: Quotas, host: str) -> float | None:
    """Return how many connections in a second an address may make; None without a limit (KIP-612)."""
    for entity in (Entity(ip=host), Entity(ip=DEFAULT)):
        limit = quotas.get(entity, {}).get(CONNECTION_CREATION_RATE)
        if limit is not None:
            return limit
    return None


def plain_ip(text: str) -> str:
    """An address as the broker sees clients have it. Raises ValueError for anything else, host names included."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
