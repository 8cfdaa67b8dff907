"""How clients come into a secured cluster: a properties file of TLS and SASL settings, as Kafka's tools take one.

It is a file of its own because a workload's text goes into every result, and passwords do not. The names are
librdkafka's; what Kafka's own clients write in another way is taken where it means the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bench.errors import UsageError, text_of
from bench.workload.client_properties import PropertyError, check_connection, is_of_a_connection

# What decides over the cost of a connection, and gives no secret away: results tell it.
_TOLD: Final = (
    "security.protocol",
    "sasl.mechanism",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
)
_PATH: Final = (".location", ".keytab")
# librdkafka's word for the certificates of the operating system.
_FIND_IT: Final = "probe"
_MECHANISM: Final = "sasl.mechanism"
_RENAMED: Final = {"sasl.mechanisms": _MECHANISM}
_JAAS: Final = "sasl.jaas.config"
# `org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";`
_LOGIN: Final = re.compile(r"\S+\.(?:Plain|Scram)LoginModule\s+required\s+(?P<options>.*?)\s*;\s*", re.DOTALL)
_OPTION: Final = re.compile(r'(?P<name>\w+)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s";]+))')
_JAVA_ONLY: Final = {
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "ssl.truststore.password": "ssl.ca.location, a PEM file, which has none",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.type": "ssl.keystore.location for PKCS12, ssl.certificate.location for PEM",
    "ssl.truststore.type": "ssl.ca.location, a PEM file",
}


def read_command_config(file: Path) -> dict[str, str]:
    """The properties of a connection by librdkafka's names, paths in them absolute.

    Raises UsageError with file and line; no value of a property is ever part of its text.
    """
    found: dict[str, tuple[str, int]] = {}
    for number, given, value in _properties(file):
        for name, meant in _as_librdkafka_has_it(given, value, f"{file}:{number}").items():
            found[name] = (meant, number)
            if name.endswith(_PATH) and meant != _FIND_IT:
                path = (file.parent / Path(meant).expanduser()).absolute()
                if not path.exists():
                    raise UsageError(f"{file}:{number}: {given}: {path}: no such file")
                found[name] = (str(path), number)
    properties = {name: value for name, (value, _) in found.items()}
    try:
        check_connection(properties)
    except PropertyError as problem:
        line = f":{found[problem.name][1]}" if problem.name in found else ""
        about = f"{problem.name}: " if problem.name is not None else ""
        raise UsageError(f"{file}{line}: {about}{problem.text}") from None
    return properties


def told_of(command_config: Mapping[str, str]) -> dict[str, str]:
    """What results may tell of it."""
    return {name: command_config[name] for name in _TOLD if name in command_config}


def _properties(file: Path) -> Iterator[tuple[int, str, str]]:
    # Imported here: a host that only describes itself does without it.
    import javaproperties

    try:
        elements = list(javaproperties.parse(file.read_text("utf-8")))
    except FileNotFoundError:
        raise UsageError(f"{file}: no such file (the properties of a client's connection)") from None
    except OSError as error:
        raise UsageError(text_of(error)) from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: is no text in UTF-8, and should be lines of name=value") from None
    except javaproperties.InvalidUEscapeError as error:
        raise UsageError(f"{file}: {error}") from None
    number = 1
    for element in elements:
        if isinstance(element, javaproperties.KeyValue):
            yield number, element.key, element.value
        number += element.source.count("\n")


def _as_librdkafka_has_it(name: str, value: str, place: str) -> dict[str, str]:
    if not is_of_a_connection(name):
        raise UsageError(
            f"{place}: {name}: is no setting of TLS or SASL; what a load's clients do stands in the workload, under "
            "producers.client and consumers.client"
        )
    if (instead := _JAVA_ONLY.get(name)) is not None:
        raise UsageError(f"{place}: {name}: is Java's; librdkafka, which makes the load, has {instead}")
    if name == _JAAS:
        return _login(value, place)
    if name == "ssl.endpoint.identification.algorithm" and not value:
        return {name: "none"}
    return {_RENAMED.get(name, name): value}


def _login(value: str, place: str) -> dict[str, str]:
    module = _LOGIN.fullmatch(value)
    options = {
        option["name"]: re.sub(r"\\(.)", r"\1", option["quoted"]) if option["quoted"] is not None else option["plain"]
        for option in _OPTION.finditer(module["options"] if module else "")
    }
    if not {"username", "password"} <= options.keys():
        raise UsageError(
            f"{place}: {_JAAS}: is no login by user and password (PlainLoginModule or ScramLoginModule required "
            'username="…" password="…";); give librdkafka\'s own sasl. properties'
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}
