"""Client properties of Kafka's Java clients under librdkafka's names; no message shows a secret. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.kafka.client.errors import ClientSettingsError
from highwater.kafka.login.jaas import parse_login_entry

_JAAS: Final = "sasl.jaas.config"
_PEM: Final = "PEM"
_PEM_ENDINGS: Final = (".pem", ".crt", ".cer")
_LOGINS: Final = ("PlainLoginModule", "ScramLoginModule")
_BEARER_LOGIN: Final = "OAuthBearerLoginModule"
_OAUTH: Final = "sasl.oauthbearer."
_TOKEN_OPTIONS: Final = {
    "clientId": f"{_OAUTH}client.id",
    "clientSecret": f"{_OAUTH}client.secret",
    "scope": f"{_OAUTH}scope",
    "ssl.truststore.location": "https.ca.location",
    "ssl.truststore.certificates": "https.ca.pem",
}
_EXTENSION: Final = "extension_"
_HANDLER: Final = "sasl.login.callback.handler.class"
LOGIN_HANDLERS: Final = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerLoginCallbackHandler"
    for package in ("", "secured.")
)
_SAME_VALUE: Final = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    # Kafka 4.1 and later (KIP-1139).
    f"{_OAUTH}client.credentials.client.id": f"{_OAUTH}client.id",
    f"{_OAUTH}client.credentials.client.secret": f"{_OAUTH}client.secret",
}
_STORES: Final = {
    "ssl.truststore": ("ssl.ca.location",),
    # A key store as PEM is one file that has the key and its certificates.
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}
JAVA_NAMES: Final = frozenset(
    {
        _JAAS,
        _HANDLER,
        *_SAME_VALUE,
        *(f"{store}.{name}" for store in _STORES for name in ("location", "type", "password")),
    }
)
"""Names of Java's clients that `as_librdkafka_has_it` translates."""


def as_librdkafka_has_it(properties: Mapping[str, str]) -> dict[str, str]:
    """What librdkafka knows already stays as it is. Raises ClientSettingsError for what only Java can read."""
    found = {_SAME_VALUE.get(name, name): value for name, value in properties.items()}
    for store, names in _STORES.items():
        kind, location = found.get(f"{store}.type", "").upper(), found.get(f"{store}.location", "")
        if location and not kind and location.endswith(_PEM_ENDINGS):
            kind = _PEM
        if store == "ssl.keystore" and kind in ("", "PKCS12"):
            found.pop(f"{store}.type", None)  # PKCS12 is all that librdkafka reads, and it has no name for it
            continue
        if location and kind != _PEM:
            raise ClientSettingsError(
                f"{store}.location={location} is of type {kind or 'JKS'}, and only PEM is read: export it "
                f"(keytool -exportcert -rfc, openssl pkcs12) and set {store}.type=PEM"
            )
        for name in (f"{store}.location", f"{store}.type", f"{store}.password"):
            found.pop(name, None)
        if location:
            found |= dict.fromkeys(names, location)
    if (login := found.pop(_JAAS, None)) is not None:
        found |= _login(login)
    if (handler := found.pop(_HANDLER, None)) is not None and handler not in LOGIN_HANDLERS:
        raise ClientSettingsError(f"{_HANDLER}={handler} is of Java: remove it, or name {LOGIN_HANDLERS[0]}")
    if not found.get("ssl.endpoint.identification.algorithm", "https").strip():
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def _login(text: str) -> dict[str, str]:
    try:
        entry = parse_login_entry(text)
    except ValueError:
        entry = None  # the reason quotes what is not understood, and that may be the password
    if entry is not None and entry.module == _BEARER_LOGIN:
        return token_login(entry.options)
    if entry is None or entry.module not in _LOGINS or not {"username", "password"} <= entry.options.keys():
        raise ClientSettingsError(
            f"{_JAAS} is not understood: write PlainLoginModule or ScramLoginModule with its package, then "
            f'required username="USER" password="PASSWORD"; or {_BEARER_LOGIN} required clientId="…" clientSecret="…";'
        )
    return {"sasl.username": entry.options["username"], "sasl.password": entry.options["password"]}


def token_login(options: Mapping[str, str]) -> dict[str, str]:
    found = {}
    extensions = []
    for name, value in options.items():
        if name.startswith(_EXTENSION):
            extensions.append(f"{name.removeprefix(_EXTENSION)}={value}")
        elif name in _TOKEN_OPTIONS:
            found[_TOKEN_OPTIONS[name]] = value
        else:  # no name is quoted: a login that lacks a quote may have its secret there
            known = ", ".join((*_TOKEN_OPTIONS, f"{_EXTENSION}NAME"))
            raise ClientSettingsError(f"{_JAAS}: the options of {_BEARER_LOGIN} are {known}; there is another")
    if extensions:
        found[f"{_OAUTH}extensions"] = ",".join(extensions)
    return found
