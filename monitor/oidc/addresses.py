"""Which addresses of a provider are asked: https, and http on loopback alone."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from highwater.monitor.host_source.settings import is_loopback


def address_problem(address: str) -> str:
    """Why the monitor does not ask `address`, in words without a full stop; empty if it does."""
    parts = _parts(address)
    if parts is None or not parts.hostname or parts.scheme not in ("http", "https"):
        return "is no https address"
    if parts.username is not None or parts.password is not None:
        return "must not contain a user or a password"
    if parts.fragment or not address.isascii() or not address.isprintable() or " " in address:
        return "must not contain a fragment, a blank or what is not ASCII"
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        return "must be https: what crosses the network by http can be read and changed"
    return ""


def issuer_problem(issuer: str) -> str:
    """The same for an issuer, which has no query either (OpenID Connect Discovery 1.0, section 3)."""
    return address_problem(issuer) or ("must not contain a query" if "?" in issuer else "")


def _parts(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts
