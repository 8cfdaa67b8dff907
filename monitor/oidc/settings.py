"""`web.oidc` of the file: the provider, the monitor as its client, and the table of roles."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from highwater.common.bounded_http import address_problem
from highwater.common.errors import UsageError
from highwater.common.extras import how_to_install
from highwater.common.yaml_part import Part
from highwater.monitor.host_source.settings import tls_of
from highwater.monitor.oidc.roles import RoleTable
from highwater.monitor.users import Role


def issuer_problem(issuer: str) -> str:
    """Why `issuer` is not asked; empty if it is. It has no query (OpenID Connect Discovery 1.0, section 3)."""
    return address_problem(issuer) or ("must not contain a query" if "?" in issuer else "")


OPENID: Final = "openid"
DEFAULT_SCOPES: Final = (OPENID, "profile", "email")
_KEYS: Final = (
    "issuer",
    "client_id",
    "client_secret",
    "client_secret_file",
    "name",
    "scopes",
    "name_claim",
    "roles",
    "ca",
)


@dataclass(frozen=True, slots=True)
class OidcSettings:
    issuer: str
    client_id: str
    table: RoleTable
    client_secret: str = field(default="", repr=False)
    """Empty for a public client, which has PKCE alone."""
    name: str = ""
    """The provider's name for people."""
    scopes: tuple[str, ...] = DEFAULT_SCOPES
    name_claim: str = "preferred_username"
    tls: ssl.SSLContext | None = None
    """None if the provider is on loopback without TLS."""

    @property
    def shown_name(self) -> str:
        return self.name or urlsplit(self.issuer).netloc


def oidc_of(part: Part) -> OidcSettings:
    """Raises UsageError with file, line and key."""
    part.check_keys(_KEYS)
    issuer = part.text("issuer")
    if problem := issuer_problem(issuer):
        part.fail("issuer", f"{issuer} {problem}")
    scopes = part.several("scopes") or DEFAULT_SCOPES
    if OPENID not in scopes or not all(each.isascii() and each.isprintable() and " " not in each for each in scopes):
        part.fail("scopes", f"is not a list of scopes with {OPENID} among them")
    return OidcSettings(
        issuer=issuer,
        client_id=part.text("client_id"),
        table=_table(part),
        client_secret=_secret(part),
        name=part.text("name", ""),
        scopes=scopes,
        name_claim=part.text("name_claim", "preferred_username"),
        tls=_tls(part, issuer),
    )


def check_extra() -> None:
    """Raises UsageError if what checks signatures is not installed."""
    try:
        import joserfc  # noqa: F401 - its presence is the question
    except ImportError as error:
        raise UsageError(f"web.oidc needs {error.name}: {how_to_install('oidc')}") from None


def _table(part: Part) -> RoleTable:
    roles = part.part("roles")
    roles.check_keys(("claim", *(role.title for role in Role)))
    if "claim" not in roles:
        roles.fail(None, "has no claim: name the claim that decides, such as groups")
    table: dict[str, Role] = {}
    for role in Role:
        for value in roles.several(role.title):
            if value in table:
                roles.fail(role.title, f"{value!r} gives {table[value].title} already: a value gives one role")
            table[value] = role
    if not table:
        roles.fail(None, "names no value, so that nobody could log in: write such as viewer: [kafka-readers]")
    return RoleTable(roles.text("claim"), table)


def _tls(part: Part, issuer: str) -> ssl.SSLContext | None:
    if urlsplit(issuer).scheme == "http":
        return None
    authority = part.path("ca")
    try:
        # An agent on loopback may have no TLS; an issuer by https has it wherever it is.
        return tls_of("", authority)
    except UsageError as error:
        part.fail("ca", str(error))


def _secret(part: Part) -> str:
    file = part.path("client_secret_file")
    if file is None:
        return part.secret("client_secret")
    if "client_secret" in part:
        part.fail("client_secret", "and client_secret_file exclude each other: give one of them")
    secret = _first_line(part, file)
    if not secret:
        part.fail("client_secret_file", f"{file}: is empty")
    return secret


def _first_line(part: Part, file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        part.fail("client_secret_file", f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'no UTF-8'}")
