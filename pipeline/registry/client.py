"""The schemas of a registry, through confluent-kafka's client; this process asks once for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from highwater.common.extras import how_to_install
from highwater.pipeline.errors import ClientError, SettingsError

PREFIX: Final = "schema.registry."
"""The prefix of the names of confluent-kafka's client among the options of the source."""
NAMES: Final = (
    "url",
    "basic.auth.user.info",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
_NOT_FOUND: Final = 404
_TIMEOUT_S: Final = 10
_CACHED: Final = 64


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Hashable, and can be pickled for tasks, secrets included."""

    properties: tuple[tuple[str, str], ...] = field(repr=False)
    """Names without the prefix, sorted."""

    @property
    def url(self) -> str:
        return dict(self.properties)["url"]


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema with what it imports, by the names that it is imported with. kind: AVRO, JSON or PROTOBUF."""

    schema_id: int
    kind: str
    text: str
    references: Mapping[str, str]


def latest(settings: RegistrySettings, subject: str) -> Registered:
    """The newest schema of a subject. Raises SettingsError if there is none, ClientError if the registry is away."""
    registered = _asked(settings, f"subject {subject}", lambda client: client.get_latest_version(subject))
    return _registered(settings, registered.schema_id, registered.schema)


@lru_cache(maxsize=4096)
def schema_of_id(settings: RegistrySettings, schema_id: int) -> Registered:
    """Raises SettingsError if there is none, ClientError if the registry is away."""
    schema = _asked(settings, f"schema {schema_id}", lambda client: client.get_schema(schema_id))
    return _registered(settings, schema_id, schema)


def _registered(settings: RegistrySettings, schema_id: int, schema: Any) -> Registered:
    found: dict[str, str] = {}
    for each in schema.references or ():
        version = _asked(
            settings,
            f"subject {each.subject} version {each.version}",
            lambda client, each=each: client.get_version(each.subject, each.version),
        )
        of_its_own = _registered(settings, version.schema_id, version.schema)
        found |= {**of_its_own.references, each.name: of_its_own.text}
    return Registered(schema_id, schema.schema_type or "AVRO", schema.schema_str, found)


def _asked(settings: RegistrySettings, what: str, ask: Any) -> Any:
    client = client_of(settings)
    from confluent_kafka.schema_registry import SchemaRegistryError

    try:
        return ask(client)
    except SchemaRegistryError as error:
        if error.http_status_code == _NOT_FOUND:
            raise SettingsError(f"the registry {settings.url} has no {what}") from None
        raise ClientError(f"the registry {settings.url} refuses {what}: {error.error_message}") from None
    except Exception as error:  # its HTTP library has errors of many kinds
        raise ClientError(
            f"the registry {settings.url} does not answer for {what}: {type(error).__name__}; check schema.registry.url"
        ) from None


@lru_cache(maxsize=_CACHED)
def client_of(settings: RegistrySettings) -> Any:
    """Not connected yet. Raises SettingsError, also if the extra `registry` is not installed."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise SettingsError(f"value.format needs {error.name}: {how_to_install('registry')}") from None
    try:
        # By default it asks for the newest schema of a subject once, and Spark's processes outlive a query.
        own = {"timeout": _TIMEOUT_S, "max.retries": 3, "cache.latest.ttl.sec": 0}
        return SchemaRegistryClient({**dict(settings.properties), **own})
    except ValueError as error:
        raise SettingsError(f"{PREFIX}*: {error}") from None
