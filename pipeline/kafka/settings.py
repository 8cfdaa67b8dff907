"""The settings of the client under Kafka's or librdkafka's names, checked; no message shows a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from highwater.common.nearest import did_you_mean
from highwater.kafka.client import settings
from highwater.kafka.client.errors import ClientSettingsError
from highwater.kafka.client.java_names import JAVA_NAMES, as_librdkafka_has_it
from highwater.pipeline.errors import SettingsError

PREFIX: Final = "kafka."
"""The prefix of Kafka's names among the options of Spark's connector."""
_NUMBERS: Final = {
    "request.timeout.ms": "request_timeout_s",
    "default.api.timeout.ms": "api_timeout_s",
    "socket.connection.setup.timeout.ms": "connect_timeout_s",
    "retry.backoff.ms": "retry_backoff_s",
}
NAMES: Final = frozenset({*_NUMBERS, *settings.NAMES, *JAVA_NAMES})
"""The names that `settings_of` knows."""


@dataclass(frozen=True, slots=True)
class Settings(settings.ClientSettings):
    """What a client needs to reach a cluster. Hashable, and can be pickled for tasks, secrets included."""

    client_id: str = "highwater-pipeline"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    """The time for one answer of one broker, beyond what the broker was asked to wait."""
    api_timeout_s: float = 60.0
    """The time for one call of the client, with all its retries."""
    retry_backoff_s: float = 0.1


def settings_of(options: Mapping[str, str]) -> Settings:
    """Read client properties, with or without `kafka.` before their names.

    Raises SettingsError for a name that is not in NAMES, and for a value that cannot work.
    """
    given = {name.removeprefix(PREFIX): value for name, value in options.items()}
    for name in given:
        if name not in NAMES:
            raise SettingsError(f"{PREFIX}{name} is unknown{did_you_mean(name, NAMES)}")
    try:
        times = {field: settings.seconds_of(given, name, 0.0) for name, field in _NUMBERS.items() if name in given}
        connection = {name: value for name, value in given.items() if name not in _NUMBERS}
        known = settings.settings_of({"client.id": Settings(()).client_id, **as_librdkafka_has_it(connection)})
    except ClientSettingsError as error:
        raise SettingsError(str(error)) from None
    return Settings(known.bootstrap_servers, known.client_id, known.tls, known.sasl, **times)


def options_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Return client properties as options of sources and sinks. Raises SettingsError for one without a counterpart."""
    settings_of(properties)
    return {f"{PREFIX}{name}": value for name, value in properties.items()}
