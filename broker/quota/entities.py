"""Whom a quota is for, and which of many quotas is a client's (KIP-55, KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class Default(Enum):
    """The name of everybody of a kind who has no quota by his own name."""

    DEFAULT = "<default>"


DEFAULT: Final = Default.DEFAULT
Name = str | Default | None
"""None: the quota does not look at this side of a client."""


class Entity(NamedTuple):
    user: Name = None
    client_id: Name = None


PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
HONOURED: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)

Quotas = Mapping[Entity, Mapping[str, float]]
"""Limits by name, by whom they are for."""


def candidates(user: str, client_id: str) -> tuple[Entity, ...]:
    """Whose quota a client has: the first of these that has one."""
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
    """Who shares the limit that a client has, and the limit; None when it has none.

    A quota by default is each one's own: the sharers of a default for users are the clients of one user.
    """
    for entity in candidates(user, client_id):
        limit = quotas.get(entity, {}).get(name)
        if limit is not None:
            return _sharers(entity, user, client_id), limit
    return None


def _sharers(entity: Entity, user: str, client_id: str) -> Entity:
    return Entity(None if entity.user is None else user, None if entity.client_id is None else client_id)
