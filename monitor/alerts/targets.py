"""Where alerts are sent: webhooks and mail, from the configuration only."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

from highwater.common.errors import UsageError


@dataclass(frozen=True, slots=True)
class Webhook:
    """Raises UsageError if the URL is none of HTTP."""

    name: str
    """For people, as the URL of a chat's webhook is a secret itself."""
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Such as Authorization."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_well = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_well = False
        if not is_well or not self.url.isascii() or not self.url.isprintable() or " " in self.url:
            raise UsageError(f"webhook {self.name}: its URL is not http://HOST/... or https://HOST/...")
        if self.parts.username is not None:
            raise UsageError(f"webhook {self.name}: its URL has a login: give a header Authorization instead")
        for header, value in self.headers.items():
            if not (header + value).isascii() or not (header + value).isprintable():
                raise UsageError(f"webhook {self.name}: the header {header!r} is not printable ASCII")

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.url)


class MailTls(StrEnum):
    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Mail:
    """Raises UsageError if a password would leave the host without TLS, or there is no recipient."""

    name: str
    host: str
    sender: str
    recipients: tuple[str, ...]
    port: int = 587
    tls: MailTls = MailTls.STARTTLS
    user: str = ""
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.recipients:
            raise UsageError(f"mail {self.name}: it has no recipients")
        for address in (self.sender, *self.recipients):
            if "@" not in address or not address.isprintable() or " " in address:
                raise UsageError(f"mail {self.name}: {address!r} is not an address such as oncall@example.org")
        if self.user and self.tls is MailTls.NONE and not _is_loopback(self.host):
            raise UsageError(f"mail {self.name}: a password needs TLS: set tls to starttls or tls")


Target: TypeAlias = Webhook | Mail


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
