"""Where figures are published: the control broker, by the names of librdkafka and of Kafka's clients. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.common.errors import UsageError

TOPIC: Final = "hw.telemetry"
_SAME: Final = ("security.protocol", "sasl.mechanism", "ssl.endpoint.identification.algorithm")
_LOGIN: Final = ("sasl.username", "sasl.password")
_TOKENS: Final = tuple(
    f"sasl.oauthbearer.{name}" for name in ("client.id", "client.secret", "method", "scope", "token.endpoint.url")
)
_CA: Final = "ssl.ca.location"


@dataclass(frozen=True, slots=True)
class ControlTopic:
    """A topic of a control broker, which is never the system under test.

    connection: TLS and SASL properties by librdkafka's names, as `read_command_config` returns them.
    """

    bootstrap_servers: str
    topic: str = TOPIC
    connection: Mapping[str, str] = field(default_factory=dict, repr=False)

    def kafka_properties(self) -> dict[str, str]:
        """The properties of a client by Kafka's names, for the Spark source. Raises UsageError for others."""
        found = {name: value for name, value in self.connection.items() if name in (*_SAME, *_TOKENS)}
        known = (*_SAME, *_LOGIN, *_TOKENS, _CA)
        if unknown := sorted(set(self.connection).difference(known)):
            raise UsageError(
                f"--control-config: {', '.join(unknown)} is not for the Spark job, which takes {', '.join(known)}"
            )
        if _CA in self.connection:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.connection[_CA]}
        if "sasl.username" in self.connection:
            module = (
                "scram.ScramLoginModule" if "SCRAM" in found.get("sasl.mechanism", "") else "plain.PlainLoginModule"
            )
            user, password = (_quoted(self.connection.get(name, "")) for name in _LOGIN)
            found["sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module} required username={user} password={password};"
            )
        return {"bootstrap.servers": self.bootstrap_servers, **found}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
