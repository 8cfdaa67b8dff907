"""Properties files with TLS and SASL settings of clients, as Kafka's tools take them.

The file is separate because a workload's text is part of every result, and passwords must not be. The names are
librdkafka's; the spelling of Kafka's own clients is accepted where it means the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from highwater.bench.user_paths import expanded
from highwater.bench.workload.client_properties import PropertyError, check_connection, is_of_a_connection
from highwater.common.bounded_http import address_problem
from highwater.common.errors import UsageError, text_of
from highwater.common.java_properties import MalformedEscape, Property, parse_properties

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_PLAIN: Final = "PLAINTEXT"
_PROTOCOLS: Final = ("SSL", "SASL_SSL", "SASL_PLAINTEXT", _PLAIN)
# Results contain these: they decide the cost of a connection, and none is a secret.
_TOLD: Final = (_PROTOCOL, _MECHANISM, "ssl.cipher.suites")
_ALSO: Final = ("client.dns.lookup", "broker.address.family")
_PATH: Final = (".location", ".file")
# librdkafka's word for the certificates of the operating system.
_FIND_IT: Final = "probe"
_OAUTH: Final = "sasl.oauthbearer."
_METHOD: Final = f"{_OAUTH}method"
_TOKEN_SERVER: Final = f"{_OAUTH}token.endpoint.url"
_RENAMED: Final = {
    "sasl.mechanisms": _MECHANISM,
    # Kafka 4.1 and later (KIP-1139).
    f"{_OAUTH}client.credentials.client.id": f"{_OAUTH}client.id",
    f"{_OAUTH}client.credentials.client.secret": f"{_OAUTH}client.secret",
}
_OF_TOKENS: Final = {_METHOD, "enable.sasl.oauthbearer.unsecure.jwt"}
_HANDLER: Final = "sasl.login.callback.handler.class"
_KAFKAS_HANDLER: Final = re.compile(
    r"org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.)?OAuthBearerLoginCallbackHandler"
)
_IN_CAPITALS: Final = (_PROTOCOL, _MECHANISM)
_NAME: Final = re.compile(r"[a-z]+(\.[a-z0-9]+)+")
# `org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";`
_LOGIN: Final = re.compile(
    r"\S+\.(?P<kind>Plain|Scram|OAuthBearer)LoginModule\s+(?i:required)(?P<options>.*);", re.DOTALL
)
_OF_A_LOGIN: Final = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": f"{_OAUTH}client.id",
    "clientSecret": f"{_OAUTH}client.secret",
    "scope": f"{_OAUTH}scope",
}
_BY_PASSWORD: Final = {"username", "password"}
_BY_TOKEN: Final = {"clientId", "clientSecret"}
_OPTION: Final = re.compile(
    r"""\s+(?P<name>\w+)\s*=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s"';\\]+))(?=\s|$)"""
)
_JAVA_ONLY: Final = {
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "ssl.truststore.password": "ssl.ca.location, a PEM file, which has none",
    "ssl.truststore.type": "ssl.ca.location, a PEM file",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.type": "ssl.keystore.location for PKCS12, ssl.certificate.location for PEM",
}


def read_command_config(file: Path) -> dict[str, str]:
    """Returns the properties of a connection by librdkafka's names, with absolute paths; never empty.

    Raises UsageError with file and line. Its text contains neither a value nor a part of one.
    """
    found: dict[str, tuple[str, int]] = {}
    for item in _properties(file):
        place = f"{file}:{item.line}"
        for name, meant in _as_librdkafka_has_it(item.name, item.value, place).items():
            is_path = name.endswith(_PATH) and meant != _FIND_IT
            found[name] = (_absolute(meant, file.parent, f"{place}: {name}") if is_path else meant, item.line)
    properties = {name: value for name, (value, _) in found.items()}
    try:
        _check_whole(properties)
        check_connection(properties)
    except PropertyError as problem:
        line = f":{found[problem.name][1]}" if problem.name in found else ""
        about = f"{problem.name}: " if problem.name is not None else ""
        raise UsageError(f"{file}{line}: {about}{problem.text}") from None
    return properties


def told_of(command_config: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties that results contain; empty for a connection without TLS and login."""
    if command_config.get(_PROTOCOL, _PLAIN) == _PLAIN:
        return {}
    return {name: command_config[name] for name in _TOLD if name in command_config}


def _properties(file: Path) -> list[Property]:
    try:
        return parse_properties(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise UsageError(f"{file}: no such file (the properties of a client's connection)") from None
    except OSError as error:
        raise UsageError(text_of(error)) from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: is not text in UTF-8; write lines of name=value") from None
    except MalformedEscape as error:
        raise UsageError(f"{file}:{error.line}: {error}; write each backslash of a value twice") from None


def _as_librdkafka_has_it(given: str, value: str, place: str) -> dict[str, str]:
    name = _RENAMED.get(given, given)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{place}: does not begin with a property's name; if a value has several lines, end each but the last "
            "with \\"
        )
    if name == "bootstrap.servers":
        raise UsageError(f"{place}: {name}: comes from the workload (system, or --bootstrap-servers); remove it here")
    if not is_of_a_connection(name) and name not in _ALSO:
        raise UsageError(
            f"{place}: {name}: is not a setting of TLS or SASL; put settings of the load's clients into the workload, "
            "under producers.client and consumers.client"
        )
    if (instead := _JAVA_ONLY.get(name)) is not None:
        raise UsageError(
            f"{place}: {name}: is a setting of Java clients; librdkafka, which generates the load, has {instead}"
        )
    if name == _JAAS:
        return _login(value, place)
    if name == _HANDLER:
        if _KAFKAS_HANDLER.fullmatch(value.strip()):
            return {}
        raise UsageError(f"{place}: {name}: is a class of Java clients, and not the one of Kafka's own; remove it")
    if name == _TOKEN_SERVER:
        return {name: value.strip(), _METHOD: "oidc"}
    if not name.endswith("password"):
        value = value.strip()
    if name == "ssl.endpoint.identification.algorithm" and not value:
        return {name: "none"}
    return {name: value.upper() if name in _IN_CAPITALS else value}


def _login(value: str, place: str) -> dict[str, str]:
    module = _LOGIN.fullmatch(value.strip())
    options: dict[str, str] = {}
    rest = module["options"] if module else ""
    while (option := _OPTION.match(rest)) is not None:
        quoted = option["double"] if option["double"] is not None else option["single"]
        options[option["name"]] = option["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        rest = rest[option.end() :]
    is_of_tokens = module is not None and module["kind"] == "OAuthBearer"
    if rest.strip() or options.keys() not in ((_BY_TOKEN, _BY_TOKEN | {"scope"}) if is_of_tokens else (_BY_PASSWORD,)):
        raise UsageError(
            f"{place}: {_JAAS}: is not a login with user and password (PlainLoginModule or ScramLoginModule required "
            'username="…" password="…";) nor one of a program (OAuthBearerLoginModule required clientId="…" '
            'clientSecret="…" scope="…";); use librdkafka\'s sasl. properties'
        )
    return {_OF_A_LOGIN[name]: option for name, option in options.items()}


def _absolute(path: str, folder: Path, place: str) -> str:
    if not path:
        raise UsageError(f"{place}: names no file")
    try:
        found = (folder / expanded(path)).absolute()
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
    if not found.exists():
        raise UsageError(f"{place}: {found}: no such file")
    return str(found)


def _check_whole(properties: Mapping[str, str]) -> None:
    """Raises PropertyError for what librdkafka would accept without effect, or refuse with a misleading text."""
    protocol, mechanism = properties.get(_PROTOCOL), properties.get(_MECHANISM)
    if protocol not in _PROTOCOLS:
        raise PropertyError(None, f"needs a known {_PROTOCOL} ({', '.join(_PROTOCOLS)})")
    if protocol.startswith("SASL_"):
        if mechanism is None:
            raise PropertyError(None, f"needs a {_MECHANISM} (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER)")
        if mechanism == "GSSAPI":
            raise PropertyError(None, f"{_MECHANISM}: GSSAPI (Kerberos) is not in the librdkafka that comes from PyPI")
        if mechanism == "OAUTHBEARER" and not properties.keys() & _OF_TOKENS:
            raise PropertyError(None, f"{_MECHANISM}: OAUTHBEARER needs {_TOKEN_SERVER} to get tokens")
    if (server := properties.get(_TOKEN_SERVER)) is not None and (problem := address_problem(server)):
        raise PropertyError(_TOKEN_SERVER, f"{problem} (librdkafka, which generates the load, reads no file)")
    for name in properties:
        if (name.startswith("sasl.") and not protocol.startswith("SASL_")) or (
            name.startswith("ssl.") and not protocol.endswith("SSL")
        ):
            raise PropertyError(name, f"has no effect with {_PROTOCOL}={protocol}")
