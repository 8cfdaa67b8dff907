"""The settings of the client under Kafka's names, checked; no message shows a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from highwater.common.nearest import did_you_mean
from highwater.kafka.client.errors import ClientSettingsError
from highwater.kafka.client.java_names import as_librdkafka_has_it
from highwater.kafka.client.security import Sasl, Tls
from highwater.kafka.client.settings import token_settings_of
from highwater.kafka.login.credentials import LOGIN_MODULES, OAUTHBEARER
from highwater.kafka.login.jaas import parse_login_entry
from highwater.kafka.login.token_request import TokenSettings
from highwater.pipeline.errors import SettingsError

PREFIX: Final = "kafka."
"""The prefix of Kafka's names among the options of Spark's connector."""
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CLIENT_ID: Final = "highwater-pipeline"
_ADDRESS_HINT: Final = "write it as HOST:PORT, several with commas between"
_FIRST_PORT, _LAST_PORT = 1, 65_535
_PEM: Final = "PEM"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a client needs to reach a cluster. Hashable, and can be pickled for tasks, secrets included."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str = _CLIENT_ID
    tls: Tls | None = None
    sasl: Sasl | TokenSettings | None = None
    request_timeout_ms: int = 30_000
    """The time for one answer of one broker, beyond what the broker was asked to wait."""
    api_timeout_ms: int = 60_000
    """The time for one call of the client, with all its retries."""
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100


_NUMBERS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
}
_OF_TOKENS: Final = frozenset(
    {
        "https.ca.location",
        "https.ca.pem",
        "sasl.login.callback.handler.class",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""Properties of Kafka and of librdkafka, as the commands take them."""
NAMES: Final = frozenset(
    {
        *_NUMBERS,
        *_OF_TOKENS,
        "bootstrap.servers",
        "client.id",
        "sasl.jaas.config",
        "sasl.mechanism",
        "security.protocol",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Kafka's names that `settings_of` knows."""


def settings_of(options: Mapping[str, str]) -> Settings:
    """Read Kafka's client properties, with or without `kafka.` before their names.

    Raises SettingsError for a name that is not in NAMES, and for a value that cannot work.
    """
    given = {name.removeprefix(PREFIX): value for name, value in options.items()}
    for name in given:
        if name not in NAMES:
            raise SettingsError(f"{PREFIX}{name} is unknown{did_you_mean(name, NAMES)}")
    protocol = given.get("security.protocol", SECURITY_PROTOCOLS[0]).upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise SettingsError(f"security.protocol={protocol} is none of {', '.join(SECURITY_PROTOCOLS)}")
    numbers = {field_name: _number(name, given[name]) for name, field_name in _NUMBERS.items() if name in given}
    return Settings(
        bootstrap_servers=_addresses(given.get("bootstrap.servers", "")),
        client_id=given.get("client.id", _CLIENT_ID),
        tls=_tls(given) if protocol.endswith("SSL") else None,
        sasl=_sasl(given) if protocol.startswith("SASL") else None,
        **numbers,
    )


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    servers = [server.strip() for server in text.split(",") if server.strip()]
    if not servers:
        raise SettingsError(f"bootstrap.servers is missing; {_ADDRESS_HINT}")
    return tuple(map(_address, servers))


def _address(server: str) -> tuple[str, int]:
    host, colon, port = server.rpartition("://")[2].rpartition(":")
    if not (colon and host and port.isdecimal() and _FIRST_PORT <= int(port) <= _LAST_PORT):
        raise SettingsError(f"bootstrap.servers: {server!r} is no broker; {_ADDRESS_HINT}")
    return host.strip("[]"), int(port)


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal() or not int(text):
        raise SettingsError(f"{name}={text} is no positive number of milliseconds")
    return int(text)


def _sasl(given: Mapping[str, str]) -> Sasl | TokenSettings:
    mechanism = given.get("sasl.mechanism", "GSSAPI")
    if mechanism == OAUTHBEARER:
        own = {name: value for name, value in given.items() if name in _OF_TOKENS or name == "sasl.jaas.config"}
        try:
            return token_settings_of(as_librdkafka_has_it(own))
        except ClientSettingsError as error:
            raise SettingsError(str(error)) from None
    if mechanism not in LOGIN_MODULES:
        supported = ", ".join((*LOGIN_MODULES, OAUTHBEARER))
        raise SettingsError(f"sasl.mechanism={mechanism} is not supported; supported are {supported}")
    if "sasl.jaas.config" not in given:
        raise SettingsError(f"sasl.jaas.config is missing; {_jaas_example(mechanism)}")
    try:
        entry = parse_login_entry(given["sasl.jaas.config"])
    except ValueError:
        # The reason of the parser quotes what it does not understand, and that may be the password.
        raise SettingsError(f"sasl.jaas.config cannot be read; {_jaas_example(mechanism)}") from None
    if entry.module != LOGIN_MODULES[mechanism] or not {"username", "password"} <= entry.options.keys():
        raise SettingsError(f"sasl.jaas.config does not fit {mechanism}; {_jaas_example(mechanism)}")
    return Sasl(mechanism, entry.options["username"], entry.options["password"])


def _jaas_example(mechanism: str) -> str:
    package = "plain" if mechanism == "PLAIN" else "scram"
    module = f"org.apache.kafka.common.security.{package}.{LOGIN_MODULES[mechanism]}"
    return f'write it as: {module} required username="USER" password="PASSWORD";'


def _tls(given: Mapping[str, str]) -> Tls:
    ca_file, ca_pem = given.get("ssl.truststore.location", ""), given.get("ssl.truststore.certificates", "")
    certificate_file, certificate_pem = (
        given.get("ssl.keystore.location", ""),
        given.get("ssl.keystore.certificate.chain", ""),
    )
    if ca_file or ca_pem:
        _check_type("ssl.truststore", given, ca_file)
    if certificate_file or certificate_pem:
        _check_type("ssl.keystore", given, certificate_file)
    if bool(certificate_pem) != bool(given.get("ssl.keystore.key")):
        raise SettingsError("ssl.keystore.certificate.chain and ssl.keystore.key need each other")
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm.lower() not in ("", "https"):
        raise SettingsError(f"ssl.endpoint.identification.algorithm={algorithm} is neither https nor empty")
    return Tls(
        ca_file=ca_file,
        ca_pem=ca_pem,
        certificate_file=certificate_file,
        certificate_pem=certificate_pem,
        key_pem=given.get("ssl.keystore.key", ""),
        key_password=given.get("ssl.key.password", ""),
        checks_host_name=bool(algorithm),
    )


def _check_type(prefix: str, given: Mapping[str, str], location: str) -> None:
    """Python's TLS reads PEM alone; Kafka's default type is JKS, which a file ending in .pem surely is not."""
    kind = given.get(f"{prefix}.type", _PEM if not location or location.endswith((".pem", ".crt", ".cer")) else "JKS")
    if kind.upper() == _PEM:
        return
    name = location or "STORE"
    export = (
        f"keytool -exportcert -rfc -keystore {name} -alias ALIAS > ca.pem"
        if prefix.endswith("truststore")
        else f"keytool -importkeystore -srckeystore {name} -destkeystore store.p12 -deststoretype PKCS12 && "
        "openssl pkcs12 -in store.p12 -out client.pem"
    )
    raise SettingsError(
        f"{prefix}.location={name} is of type {kind.upper()}, and only PEM is read; export it ({export}) and give the "
        f"new file with {prefix}.type=PEM"
    )
