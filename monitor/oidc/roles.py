"""Finds a person's role by the claims and the table of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from highwater.monitor.users import Role

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RoleTable:
    claim: str
    """A claim whose value is a text or a list of texts; a path such as `realm_access.roles` for one inside others."""
    roles: Mapping[str, Role]
    """Roles by the value of the claim, which has to match exactly."""

    def is_there(self, claims: Claims) -> bool:
        return claim_of(claims, self.claim) is not None

    def role(self, claims: Claims) -> Role | None:
        """The highest that a value of the claim gives; None if none gives any."""
        found = claim_of(claims, self.claim)
        values = found if isinstance(found, list) else [found]
        # By type too: a claim `true` or `1` must not meet the text "1" of a table.
        return max((self.roles[each] for each in values if isinstance(each, str) and each in self.roles), default=None)


def claim_of(claims: Claims, path: str) -> Any:
    """The claim of exactly this name, else the one inside others that the path leads to; None without it.

    Names of claims may contain dots themselves, such as `https://example.org/roles`.
    """
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found
