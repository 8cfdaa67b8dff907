"""Which issuers are asked: https, and http on loopback alone, without a query."""

from __future__ import annotations

from highwater.common.bounded_http import address_problem


def issuer_problem(issuer: str) -> str:
    """Why `issuer` is not asked; empty if it is. It has no query (OpenID Connect Discovery 1.0, section 3)."""
    return address_problem(issuer) or ("must not contain a query" if "?" in issuer else "")
