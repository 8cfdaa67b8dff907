"""The settings of the client under librdkafka's names, checked; no message shows a secret. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from highwater.common.bounded_http import source_problem
from highwater.common.nearest import did_you_mean, nearest
from highwater.kafka.client.errors import ClientSettingsError
from highwater.kafka.client.security import Sasl, Tls
from highwater.kafka.login.credentials import LOGIN_MODULES, OAUTHBEARER
from highwater.kafka.login.token_request import TokenSettings

Address = tuple[str, int]
"""Host and port."""

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SERVERS: Final = ("bootstrap.servers", "metadata.broker.list")
_MECHANISMS: Final = ("sasl.mechanism", "sasl.mechanisms")
_TOKENS_OF: Final = "sasl.oauthbearer.token.endpoint.url"
_CONNECT_TIMEOUT: Final = "socket.connection.setup.timeout.ms"
_REQUEST_TIMEOUT: Final = "socket.timeout.ms"
_SWITCHES: Final = {"true": True, "false": False}
NAMES: Final = frozenset(
    {
        *_SERVERS,
        *_MECHANISMS,
        _CONNECT_TIMEOUT,
        _REQUEST_TIMEOUT,
        "client.id",
        "enable.ssl.certificate.verification",
        "https.ca.location",
        "https.ca.pem",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
    }
)
"""The properties that this client takes."""
_OF_CONNECTING: Final = ("enable.sasl.", "enable.ssl.", "https.", "sasl.", "security.", "ssl.")
"""How the names of properties begin without which a broker cannot be reached."""
_SURELY_MEANT: Final = 0.8
_FIRST_PORT, _LAST_PORT = 1, 65_535
_ADDRESS_HINT: Final = "write it as HOST:PORT, several with commas between"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client needs to reach a cluster."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str = "highwater"
    tls: Tls | None = None
    sasl: Sasl | TokenSettings | None = None
    connect_timeout_s: float = 5.0
    """The time for TCP, TLS, versions and login together."""
    request_timeout_s: float = 10.0


def settings_of(properties: Mapping[str, str]) -> ClientSettings:
    """Read librdkafka's properties. What does not concern connecting, such as `linger.ms`, is left alone.

    Raises ClientSettingsError.
    """
    _check_names(properties)
    protocol = properties.get("security.protocol", SECURITY_PROTOCOLS[0]).upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ClientSettingsError(f"security.protocol={protocol} is none of {', '.join(SECURITY_PROTOCOLS)}")
    defaults = ClientSettings(())
    return ClientSettings(
        bootstrap_servers=_addresses(_first(properties, _SERVERS)),
        client_id=properties.get("client.id", defaults.client_id),
        tls=_tls(properties) if protocol.endswith("SSL") else None,
        sasl=_sasl(properties) if protocol.startswith("SASL") else None,
        connect_timeout_s=seconds_of(properties, _CONNECT_TIMEOUT, defaults.connect_timeout_s),
        request_timeout_s=seconds_of(properties, _REQUEST_TIMEOUT, defaults.request_timeout_s),
    )


def _check_names(properties: Mapping[str, str]) -> None:
    if "ssl.keystore.location" in properties:
        raise ClientSettingsError(
            f"ssl.keystore.location={properties['ssl.keystore.location']} is read as PKCS12 by librdkafka, and only "
            "PEM is read here: export it (openssl pkcs12 -in STORE -out client.pem) and set ssl.keystore.type=PEM"
        )
    for name in properties:
        concerns_connecting = name.startswith(_OF_CONNECTING) or nearest(name, NAMES, _SURELY_MEANT) is not None
        if name not in NAMES and concerns_connecting:
            raise ClientSettingsError(f"property {name} is not one that this client knows{did_you_mean(name, NAMES)}")


def _first(properties: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((properties[name] for name in names if name in properties), "")


def _addresses(text: str) -> tuple[Address, ...]:
    servers = [server.strip() for server in text.split(",") if server.strip()]
    if not servers:
        raise ClientSettingsError(f"bootstrap.servers is missing; {_ADDRESS_HINT}")
    return tuple(map(address_of, servers))


def address_of(server: str) -> Address:
    """Read HOST:PORT. Raises ClientSettingsError."""
    host, colon, port = server.rpartition("://")[2].rpartition(":")
    if not (colon and host and port.isdecimal() and _FIRST_PORT <= int(port) <= _LAST_PORT):
        raise ClientSettingsError(f"bootstrap.servers: {server!r} is not a broker; {_ADDRESS_HINT}")
    return host.strip("[]"), int(port)


def seconds_of(properties: Mapping[str, str], name: str, default: float) -> float:
    """Read a property in milliseconds. Raises ClientSettingsError."""
    text = properties.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal() or not int(text):
        raise ClientSettingsError(f"{name}={text} is not a positive number of milliseconds")
    return int(text) / 1000


def _tls(properties: Mapping[str, str]) -> Tls:
    for kind in ("location", "pem"):
        if properties.get(f"ssl.key.{kind}") and not properties.get(f"ssl.certificate.{kind}"):
            raise ClientSettingsError(f"ssl.key.{kind} needs ssl.certificate.{kind}")
    if properties.get("ssl.certificate.pem") and not properties.get("ssl.key.pem"):
        raise ClientSettingsError("ssl.certificate.pem needs ssl.key.pem")
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("", "none", "https"):
        raise ClientSettingsError(f"ssl.endpoint.identification.algorithm={algorithm} is neither https nor none")
    switch = properties.get("enable.ssl.certificate.verification", "true").lower()
    if switch not in _SWITCHES:
        raise ClientSettingsError(f"enable.ssl.certificate.verification={switch} is neither true nor false")
    return Tls(
        ca_file=properties.get("ssl.ca.location", ""),
        ca_pem=properties.get("ssl.ca.pem", ""),
        certificate_file=properties.get("ssl.certificate.location", ""),
        certificate_pem=properties.get("ssl.certificate.pem", ""),
        key_file=properties.get("ssl.key.location", ""),
        key_pem=properties.get("ssl.key.pem", ""),
        key_password=properties.get("ssl.key.password", ""),
        checks_host_name=algorithm == "https",
        verifies=_SWITCHES[switch],
    )


def _sasl(properties: Mapping[str, str]) -> Sasl | TokenSettings:
    mechanism = mechanism_of(properties) or "GSSAPI"
    if mechanism == OAUTHBEARER:
        return token_settings_of(properties)
    if mechanism not in LOGIN_MODULES:
        raise ClientSettingsError(
            f"sasl.mechanism={mechanism} is not supported; supported are {', '.join((*LOGIN_MODULES, OAUTHBEARER))}"
        )
    for name in ("sasl.username", "sasl.password"):
        if not properties.get(name):
            raise ClientSettingsError(f"{name} is missing; {mechanism} needs it")
    return Sasl(mechanism, properties["sasl.username"], properties["sasl.password"])


def mechanism_of(properties: Mapping[str, str]) -> str:
    """Empty if none is named."""
    return _first(properties, _MECHANISMS)


def token_settings_of(properties: Mapping[str, str]) -> TokenSettings:
    """Where tokens of OAUTHBEARER come from. Raises ClientSettingsError."""

    def of(name: str) -> str:
        return properties.get(f"sasl.oauthbearer.{name}", "")

    url = of("token.endpoint.url")
    if not url:
        raise ClientSettingsError(
            f"{_TOKENS_OF} is missing; {OAUTHBEARER} needs the https address of a token server, or file:///PATH of a "
            "file with a token"
        )
    if problem := source_problem(url):
        raise ClientSettingsError(f"{_TOKENS_OF} {problem}")
    if (method := of("method") or "oidc") != "oidc":
        raise ClientSettingsError(f"sasl.oauthbearer.method={method} is not supported; remove it, or write oidc")
    if not url.startswith("file:"):
        for name in ("client.id", "client.secret"):
            if not of(name):
                raise ClientSettingsError(f"sasl.oauthbearer.{name} is missing; the token server wants to know it")
    return TokenSettings(
        url,
        of("client.id"),
        of("client.secret"),
        of("scope"),
        _extensions(of("extensions")),
        properties.get("https.ca.location", ""),
        properties.get("https.ca.pem", ""),
    )


def _extensions(text: str) -> dict[str, str]:
    found = {}
    for each in filter(None, text.split(",")):
        name, _, value = each.partition("=")
        is_one = name.isascii() and name.isalpha() and name != "auth" and value.isascii() and value.isprintable()
        if not (is_one and value):
            raise ClientSettingsError("sasl.oauthbearer.extensions: write NAME=VALUE, several with commas between")
        found[name] = value
    return found
