"""The commands' client of a cluster, on confluent-kafka: bounded waits, errors in one line."""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec  # type: ignore[attr-defined]

from highwater.admin.terminal import ANONYMOUS, CommandError, UsageError, acts_as
from highwater.common import errors, topic_partition
from highwater.common.java_properties import read_properties
from highwater.common.nearest import no_topic
from highwater.kafka.client.errors import ClientSettingsError
from highwater.kafka.client.java_names import as_librdkafka_has_it
from highwater.kafka.client.security import TlsError
from highwater.kafka.client.settings import mechanism_of, settings_of, token_settings_of
from highwater.kafka.login.credentials import OAUTHBEARER, LoginError

if TYPE_CHECKING:
    from highwater.kafka.client.blocking import BlockingClient

CONNECT_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 10.0
_UNASKED_S: Final = 1.0
"""How long librdkafka may take before the other client looks for the reason."""

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        help="Brokers to connect to first; one that answers is enough.",
    ),
]
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config", metavar="FILE", help="A file of client properties (TLS, SASL), as Kafka's tools take it."
    ),
]

GONE: Final = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)
"""Error codes of a broker that does not answer."""
_Result = TypeVar("_Result")

Partition: TypeAlias = topic_partition.TopicPartition
"""A short name, because confluent_kafka's TopicPartition is another type: it has an offset."""


class Cluster:
    """Raises UsageError when no broker answers."""

    def __init__(
        self, bootstrap_servers: str, command_config: Path | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._command_config = command_config
        # librdkafka also raises its errors as exceptions, so its log lines on the terminal are not needed.
        self._properties = {"log_level": "0", **_read(command_config), **(properties or {})}
        self._properties["bootstrap.servers"] = bootstrap_servers
        _check_reachable(bootstrap_servers)
        self._client_config = with_tokens(self._properties)
        try:
            self.admin = AdminClient(self._client_config)
        except KafkaException as error:
            raise UsageError(f"the client's configuration: {error.args[0].str()}") from None
        self._metadata: ClusterMetadata | None = None
        acts_as(_principal_of(self._properties))

    @property
    def client_config(self) -> dict[str, Any]:
        """librdkafka's configuration, with which a broker has answered: its clients do not say why none does."""
        assert self.metadata
        return self._client_config

    @property
    def metadata(self) -> ClusterMetadata:
        """The brokers and all topics, fetched once, on first use."""
        if self._metadata is None:
            self._metadata = self.metadata_now()
        return self._metadata

    def metadata_now(self) -> ClusterMetadata:
        """The brokers and all topics, fetched anew."""
        found = self._listed(min(_UNASKED_S, REQUEST_TIMEOUT_S))
        if found is None:
            self._raise_refusal()
            found = self._listed(REQUEST_TIMEOUT_S)
        if found is None:
            raise UsageError(
                f"{self.bootstrap_servers} accepts connections, but does not answer as a Kafka broker does within "
                f"{REQUEST_TIMEOUT_S:.0f} s"
            )
        return found

    def _listed(self, timeout_s: float) -> ClusterMetadata | None:
        """None if no broker has answered in time."""
        try:
            return self.admin.list_topics(timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].code() in GONE:
                return None
            raise refusal("", error) from None

    def _raise_refusal(self) -> None:
        """Raises UsageError if TLS, the login or the protocol is why no broker answers, with the setting to change."""
        from highwater.kafka.client.blocking import why_refused  # here, as most commands need no event loop

        if told := why_refused(self._properties):
            file = "" if self._command_config else " (in a file that --command-config names)"
            raise UsageError(f"{told}{file}")

    @functools.cached_property
    def wire(self) -> BlockingClient:
        """A client for requests that confluent-kafka lacks. Raises UsageError for properties that it does not know."""
        from highwater.kafka.client.blocking import BlockingClient

        try:
            return BlockingClient(settings_of(self._properties))
        except ClientSettingsError as error:
            raise UsageError(str(error)) from None

    def brokers_that_listen(self) -> set[int]:
        """Return the brokers in metadata except those that cannot be reached.

        Metadata still lists a stopped broker for a while. A host that does not answer at all counts as listening.
        """
        return self.metadata.brokers.keys() - self.unreachable_brokers()

    def unreachable_brokers(self) -> dict[int, str]:
        """Return why brokers in metadata cannot be reached at their addresses, by id."""
        reasons = {
            broker.id: why_unreachable(str(broker.host), broker.port) for broker in self.metadata.brokers.values()
        }
        return {broker_id: reason for broker_id, reason in reasons.items() if reason is not None}

    @property
    def topic_names(self) -> list[str]:
        return sorted(self.metadata.topics)

    def require_topic(self, name: str) -> None:
        """Raises CommandError, which suggests the most similar name, when the topic does not exist."""
        if name not in self.metadata.topics:
            raise self.unknown_topic(name)

    def unknown_topic(self, name: str) -> CommandError:
        """The topic is asked for by its name: the list of all topics says nothing of those that are hidden."""
        may_be_hidden = False
        try:
            self.admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_TIMEOUT_S)[name].result()
        except KafkaException as error:
            may_be_hidden = error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        return CommandError(no_topic(name, self.topic_names, may_be_hidden=may_be_hidden))

    def partitions_of(self, topic: str) -> list[int]:
        self.require_topic(topic)
        return sorted(self.metadata.topics[topic].partitions)

    def offsets(self, partitions: Iterable[Partition], specification: Any) -> dict[Partition, int]:
        """Return the offset that the OffsetSpec asks for, without partitions whose leader does not return one."""
        wanted = {TopicPartition(*partition): specification for partition in partitions}
        if not wanted:
            return {}
        futures = self.admin.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S)
        found = {}
        for partition, future in futures.items():
            try:
                found[partition.topic, partition.partition] = future.result().offset
            except KafkaException:
                continue
        return found

    def log_ranges(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return (log start offset, log end offset) of each partition whose leader returns both."""
        partitions = list(partitions)
        starts = self.offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self.offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: (starts[partition], ends[partition]) for partition in starts if partition in ends}


def refusal(what: str, error: KafkaException) -> CommandError:
    """Return the error of a request about `what`: the broker refused it or did not answer."""
    reason: KafkaError = error.args[0]
    start = f"{what}: " if what else ""
    if reason.code() in GONE:
        return UsageError(f"{start}the broker did not answer in time ({reason.str()})")
    text = reason.str().rstrip(".")
    # librdkafka's word for a refusal without a message.
    return CommandError(f"{start}{reason.name()}" if text == "(null)" else f"{start}{text} ({reason.name()})")


def why_unreachable(host: str, port: int) -> str | None:
    """Return a sentence about the address; None if it accepts connections, or does not answer in time."""
    failure = _failure_to_connect(host, port)
    if failure is None or isinstance(failure, TimeoutError):
        return None
    if isinstance(failure, ConnectionRefusedError):
        return f"{host}:{port} refuses connections"
    return f"{host}:{port} cannot be reached: {failure.strerror or failure}"


def _failure_to_connect(host: str, port: int) -> OSError | None:
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return error
    return None


def result_of(what: str, future: Future[_Result]) -> _Result:
    """Wait for the result of the admin client. Raises CommandError when the broker refused the request."""
    try:
        return future.result(timeout=2 * REQUEST_TIMEOUT_S)
    except KafkaException as error:
        raise refusal(what, error) from None
    except TimeoutError:
        raise UsageError(f"{what}: the broker did not answer in time") from None


def key_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse `name=value` options into a mapping."""
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"{option} {text}: write it as name=value")
        pairs[name.strip()] = value
    return pairs


def only_action(actions: Mapping[str, bool]) -> str:
    """Return the one action option that was given. Raises UsageError for none or several."""
    given = [name for name, is_given in actions.items() if is_given]
    if len(given) != 1:
        choices = ", ".join(actions)
        raise UsageError(f"{' and '.join(given)} cannot go together" if given else f"give one of {choices}")
    return given[0]


def refuse_options(action: str, given: Mapping[str, bool]) -> None:
    """Raises UsageError for an option that the action would ignore."""
    for name, is_given in given.items():
        if is_given:
            raise UsageError(f"{name} does not go with {action}")


def _principal_of(properties: Mapping[str, str]) -> str:
    """Whom brokers take the client for, as far as its settings say so."""
    if mechanism_of(properties) == OAUTHBEARER:
        return "the user of its token"
    if properties.get("security.protocol", "").upper().startswith("SASL"):
        return f"User:{properties.get('sasl.username', '')}"
    has_certificate = any(name.startswith(("ssl.certificate.", "ssl.keystore.")) for name in properties)
    return "the user of its certificate" if has_certificate else ANONYMOUS


def _read(command_config: Path | None) -> dict[str, str]:
    if command_config is None:
        return {}
    try:
        return as_librdkafka_has_it({each.name: each.value for each in read_properties(command_config)})
    except errors.UsageError as error:
        raise UsageError(str(error)) from None
    except ClientSettingsError as error:
        raise UsageError(f"{command_config}: {error}") from None


def with_tokens(properties: Mapping[str, str]) -> dict[str, Any]:
    """librdkafka's configuration; for OAUTHBEARER with a callback in the place of where tokens come from.

    Raises UsageError if there is no token: librdkafka would say so of a broker, after its time-out.
    """
    if mechanism_of(properties) != OAUTHBEARER:
        return dict(properties)
    from highwater.kafka.client.tokens import librdkafka_callback, token_source

    try:
        settings = token_settings_of(properties)
        source = token_source(settings, REQUEST_TIMEOUT_S)
        source.token()
    except (ClientSettingsError, TlsError, LoginError) as error:
        raise UsageError(str(error)) from None
    ours = ("sasl.oauthbearer.", "https.")
    theirs: dict[str, Any] = {name: value for name, value in properties.items() if not name.startswith(ours)}
    return theirs | {"oauth_cb": librdkafka_callback(source, settings.extensions)}


def _check_reachable(bootstrap_servers: str) -> None:
    """Raises UsageError at once when no broker accepts connections: librdkafka would wait until the time-out."""
    reasons = []
    for server in bootstrap_servers.split(","):
        host, separator, port = server.strip().rpartition(":")
        if not separator or not host or not port.isdecimal() or int(port) > 65535:
            raise UsageError(f"--bootstrap-server {server.strip()}: write it as host:port")
        failure = _failure_to_connect(host.strip("[]"), int(port))
        if failure is None:
            return
        is_silent = isinstance(failure, TimeoutError)
        reason = f"no answer within {CONNECT_TIMEOUT_S:.0f} s" if is_silent else failure.strerror or failure
        reasons.append(f"{server.strip()}: {reason}")
    raise UsageError(f"no broker can be reached at {'; '.join(reasons)}")
