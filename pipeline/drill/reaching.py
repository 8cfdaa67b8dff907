"""Translates client properties of librdkafka into options of the source, named as in Java. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.kafka.login.credentials import LOGIN_MODULES, OAUTHBEARER
from highwater.pipeline.drill.errors import DrillSetupError

_SAME: Final = ("bootstrap.servers", "client.id", "security.protocol", "ssl.endpoint.identification.algorithm")
_PEM_FILES: Final = {"ssl.ca.location": "ssl.truststore.location", "ssl.keystore.location": "ssl.keystore.location"}
_MECHANISM: Final = ("sasl.mechanism", "sasl.mechanisms")
_LOGIN: Final = ("sasl.username", "sasl.password")
_OF_TOKENS: Final = ("sasl.oauthbearer.", "https.ca.")


def source_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with `kafka.` before each name. Raises DrillSetupError for one without a counterpart."""
    found: dict[str, str] = {}
    for name, value in properties.items():
        if name in _SAME or name.startswith(_OF_TOKENS):
            found[name] = value
        elif name in _PEM_FILES:
            java_name = _PEM_FILES[name]
            found[java_name] = value
            found[java_name.replace("location", "type")] = "PEM"
        elif name in _MECHANISM:
            found["sasl.mechanism"] = value
        elif name not in _LOGIN:
            raise DrillSetupError(f"the client property {name} has no counterpart at the source: leave it out")
    if (mechanism := found.get("sasl.mechanism")) and mechanism != OAUTHBEARER:
        found["sasl.jaas.config"] = _login(mechanism, properties)
    return {f"kafka.{name}": value for name, value in found.items()}


def _login(mechanism: str, properties: Mapping[str, str]) -> str:
    module = LOGIN_MODULES.get(mechanism)
    user, password = (properties.get(name) for name in _LOGIN)
    if module is None or user is None or password is None:
        raise DrillSetupError(
            f"sasl.mechanism={mechanism}: give {', '.join(LOGIN_MODULES)} with sasl.username and sasl.password, or "
            f"{OAUTHBEARER} with the sasl.oauthbearer. properties"
        )
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password))
    return '{} required username="{}" password="{}";'.format(module, *quoted)
