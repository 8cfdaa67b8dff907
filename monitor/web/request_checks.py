"""What a request must be before anybody looks at what it asks for: host name, origin, token, form."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

LARGEST_FORM_BYTES: Final = 16 * 1024
_MOST_FIELDS: Final = 50
FORM_TYPE: Final = "application/x-www-form-urlencoded"


def host_name(host: str) -> str:
    """`host` without its port: `[::1]:8080` -> `::1`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def is_our_host(host: str, names: Iterable[str]) -> bool:
    """False for a name that somebody else made point to our address (DNS rebinding)."""
    return host_name(host) in names


def own_origin(host: str, *, is_tls: bool) -> str:
    """Return the monitor's origin as this browser calls it; `host` was checked by `is_our_host`."""
    return f"{'https' if is_tls else 'http'}://{host}"


def own_path(wanted: str) -> str:
    """`wanted` if it is a path of this site, else `/`: browsers read `//host` and `/\\host` as another host."""
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/"
    is_own = wanted.startswith("/") and not wanted.startswith("//") and not (parts.scheme or parts.netloc)
    return wanted if is_own and "\\" not in wanted and wanted.isprintable() else "/"


def cross_site_problem(headers: Mapping[str, str], own_origin: str) -> str:
    """Why a POST may come from another site, as a sentence; empty if the browser says that it comes from ours."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return "The browser says that another site sent this form."
    # Browsers write "null" for our own forms, as we ask them to name no referrer; then only the header above counts.
    if origin == "null" and site is None:
        return "The browser does not say which site sent this form."
    if origin not in (None, "null", own_origin):
        return "Another site sent this form."
    return ""


def form_token(cookie: str) -> str:
    """The token that a form carries. Only a page that was made for the owner of `cookie` can contain it."""
    return hmac.new(cookie.encode("utf-8", "surrogatepass"), b"form", hashlib.sha256).hexdigest()


def is_form_token(token: str, cookie: str) -> bool:
    # In bytes, because compare_digest refuses texts beyond ASCII.
    return bool(cookie) and hmac.compare_digest(token.encode("utf-8", "replace"), form_token(cookie).encode())


def form_fields(body: bytes) -> dict[str, str] | None:
    """The fields of a form; of several with one name the last. None if `body` is no form."""
    try:
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS))
    except ValueError:
        return None


def query_fields(query: bytes) -> dict[str, str] | None:
    """The fields of a query, as `form_fields`."""
    return form_fields(query)
