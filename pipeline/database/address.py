"""Where a database is: a URL, of which no message shows the password. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from highwater.common.nearest import did_you_mean
from highwater.common.secret_names import is_secret_name
from highwater.pipeline.errors import SettingsError

SQLITE, POSTGRESQL, MYSQL = "sqlite", "postgresql", "mysql"
_KINDS: Final = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "postgres": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL}
_FORMS: Final = "sqlite:PATH, postgresql://USER@HOST:PORT/DATABASE or mysql://USER@HOST:PORT/DATABASE"
_HIDDEN: Final = "***"


@dataclass(frozen=True)
class Address:
    """shown: the URL without the password, for messages and as the identity of the database.

    path: of a file of SQLite. Everything else is for servers, empty where the URL leaves it to the client's own files
    and environment.
    """

    kind: str
    shown: str
    path: str = ""
    host: str = ""
    port: int | None = None
    user: str = ""
    database: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    password: str = field(default="", repr=False)
    url: str = field(default="", repr=False)

    def hide(self, message: object) -> str:
        """The first line of a driver's message, without the password should it be in there."""
        text = next((line.strip() for line in str(message).splitlines() if line.strip()), type(message).__name__)
        secrets = [self.password, *(value for name, value in self.parameters.items() if is_secret_name(name))]
        written = {each for value in secrets for each in (value, quote(value, safe=""))} - {""}
        for secret in sorted(written, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return text


def read_address(url: str) -> Address:
    """Raises SettingsError, with the way to write it, for a text that is no URL of a database."""
    scheme, colon, rest = url.partition(":")
    kind = _KINDS.get(scheme.lower()) if colon else None
    if kind is None:
        # A text that has something before an @ may hold a password.
        named = f"{scheme!r} names no database" if colon and "@" not in scheme else "a database has to be named"
        raise SettingsError(f"{named}: write {_FORMS}{did_you_mean(scheme, _KINDS)}")
    if kind == SQLITE:
        # As other programs write it: three slashes, and a fourth one for an absolute path.
        path = rest.removeprefix("///") if rest.startswith("///") else rest
        if not path or path == ":memory:":
            raise SettingsError("sqlite: names no file; write sqlite:PATH")
        return Address(SQLITE, f"sqlite:{path}", path=path)
    try:
        parts = urlsplit(url)
        port = parts.port
        if "@" in parts.path + parts.fragment:
            raise ValueError  # a password with / or # in it ends the address, and the rest would be shown
    except ValueError:
        raise SettingsError(
            f"the {scheme} URL cannot be read: write {_FORMS}, with %40 for @, %2F for / and %3A for : in a password"
        ) from None
    if not rest.startswith("//"):
        raise SettingsError(f"the {scheme} URL lacks its two slashes: write {_FORMS}")
    return Address(
        kind,
        _shown(kind, parts, port),
        host=parts.hostname or "",
        port=port,
        user=unquote(parts.username or ""),
        database=unquote(parts.path.removeprefix("/")),
        parameters=dict(parse_qsl(parts.query, keep_blank_values=True)),
        password=unquote(parts.password or "") or dict(parse_qsl(parts.query)).get("password", ""),
        url=url,
    )


def _shown(kind: str, parts: SplitResult, port: int | None) -> str:
    user = f"{parts.username}@" if parts.username else ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{kind}://{user}{host}{f':{port}' if port else ''}{parts.path}"
