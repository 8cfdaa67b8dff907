"""The client instances whose telemetry is taken: what each is asked for, when it may ask and push.

The rules are those of Kafka's ClientMetricsManager and ClientMetricsInstance. An instance is dropped with its
connection, when it was silent for three intervals, or when too many came after it; its next request makes it anew, and
it has the same subscription id, on this broker or another one.
"""

from __future__ import annotations

import base64
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.telemetry.subscriptions import ALL_METRICS, DEFAULT_INTERVAL_MS, Identity, Subscription
from highwater.kafka.records.checksum import crc32c

MOST_INSTANCES: Final = 16_384
_LEAST_LIFE_MS: Final = 60_000
_LIFE_INTERVALS: Final = 3
_SWEEP_MS: Final = 60_000
_NEVER: Final = -(1 << 62)
_RESERVED: Final = (uuid.UUID(int=0), uuid.UUID(int=1))
_CODECS: Final = range(5)
"""The numbers of Kafka's compression types."""


class Wanted(NamedTuple):
    """What an instance is asked for."""

    metrics: tuple[str, ...]
    """Sorted prefixes of names; `*` alone for all."""
    interval_ms: int


_NOTHING: Final = Wanted((), DEFAULT_INTERVAL_MS)


class Push(NamedTuple):
    """What a client pushes, as far as it decides whether it may."""

    subscription_id: int
    is_terminating: bool
    codec: int
    size_bytes: int


class Instance:
    __slots__ = (
        "_has_asked",
        "_last_get_ms",
        "_last_push_ms",
        "connection",
        "id",
        "identity",
        "is_terminating",
        "last_error",
        "subscription_id",
        "used_ms",
        "version",
        "wanted",
    )

    def __init__(self, instance_id: uuid.UUID, identity: Identity, connection: object) -> None:
        self.id = instance_id
        self.identity = identity
        self.connection = connection
        """The connection that it is dropped with; only its identity counts."""
        self.is_terminating = False
        self.used_ms = 0
        self.subscribe(_NOTHING, -1)

    def subscribe(self, wanted: Wanted, version: int) -> None:
        """Ask for something else from now on. The instance may ask and push at once."""
        self.wanted = wanted
        self.version = version
        self.subscription_id = _subscription_id(self.id, wanted)
        self.last_error = ErrorCode.none
        self._has_asked = False
        self._last_get_ms = self._last_push_ms = _NEVER

    @property
    def lives_until_ms(self) -> int:
        return self.used_ms + max(_LEAST_LIFE_MS, _LIFE_INTERVALS * self.wanted.interval_ms)

    def may_get(self, now_ms: int) -> bool:
        is_due = now_ms - max(self._last_get_ms, self._last_push_ms) >= self.wanted.interval_ms
        may_get = is_due or self.last_error in _LEADS_TO_GET
        if may_get:
            self._last_get_ms = now_ms
            self._has_asked = True
        return may_get

    def may_push(self, now_ms: int) -> bool:
        # Clients spread their first push over half to one and a half intervals.
        is_due = self._has_asked or now_ms - self._last_push_ms >= self.wanted.interval_ms
        if is_due:
            self._last_push_ms = now_ms
            self._has_asked = False
        return is_due


_LEADS_TO_GET: Final = (ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type)


class Instances:
    def __init__(self, max_bytes: int, new_id: Callable[[], uuid.UUID] = uuid.uuid4) -> None:
        self.max_bytes = max_bytes
        self._new_id = new_id
        self._known: OrderedDict[uuid.UUID, Instance] = OrderedDict()
        """The least recently used one comes first."""
        self._subscriptions: tuple[Subscription, ...] = ()
        self._version = 0
        self._swept_ms = _NEVER

    def __len__(self) -> int:
        return len(self._known)

    def subscribe(self, subscriptions: Iterable[Subscription]) -> None:
        """Use these subscriptions from now on."""
        self._subscriptions = tuple(subscriptions)
        self._version += 1

    def get(
        self, instance_id: uuid.UUID | None, identify: Callable[[uuid.UUID], Identity], connection: object, now_ms: int
    ) -> tuple[Instance, ErrorCode]:
        """Return the instance that asks what to push, a new one if it has no id, and whether it may ask now."""
        if instance_id is None:
            instance_id = self._new_id()
        instance = self._instance(instance_id, identify, connection, now_ms)
        if not instance.may_get(now_ms):
            return instance, ErrorCode.throttling_quota_exceeded
        instance.last_error = ErrorCode.none
        return instance, ErrorCode.none

    def push(
        self,
        instance_id: uuid.UUID,
        push: Push,
        identify: Callable[[uuid.UUID], Identity],
        connection: object,
        now_ms: int,
    ) -> Instance | ErrorCode:
        """Return the instance whose push may be taken, or why it may not."""
        if instance_id in _RESERVED:
            return ErrorCode.invalid_request
        instance = self._instance(instance_id, identify, connection, now_ms)
        error = self._problem(instance, push, now_ms)
        instance.last_error = error
        # Kafka forgets this with the next push. The last push of a client is its last.
        instance.is_terminating |= push.is_terminating
        return error or instance

    def _problem(self, instance: Instance, push: Push, now_ms: int) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.invalid_request
        if not instance.may_push(now_ms) and not push.is_terminating:
            return ErrorCode.throttling_quota_exceeded
        if push.subscription_id != instance.subscription_id:
            return ErrorCode.unknown_subscription_id
        if push.codec not in _CODECS:
            return ErrorCode.unsupported_compression_type
        return ErrorCode.telemetry_too_large if push.size_bytes > self.max_bytes else ErrorCode.none

    def disconnected(self, instance_id: uuid.UUID, connection: object) -> None:
        """A connection ended: drop its instance, if no other connection had it since."""
        instance = self._known.get(instance_id)
        if instance is not None and instance.connection is connection:
            del self._known[instance_id]

    def sweep(self, now_ms: int) -> None:
        """Drop those that were silent for too long."""
        self._swept_ms = now_ms
        for instance in [each for each in self._known.values() if each.lives_until_ms <= now_ms]:
            del self._known[instance.id]

    def _instance(
        self, instance_id: uuid.UUID, identify: Callable[[uuid.UUID], Identity], connection: object, now_ms: int
    ) -> Instance:
        if now_ms - self._swept_ms >= _SWEEP_MS:
            self.sweep(now_ms)
        instance = self._known.get(instance_id)
        if instance is None:
            instance = self._known[instance_id] = Instance(instance_id, identify(instance_id), connection)
            if len(self._known) > MOST_INSTANCES:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(instance_id)
        if instance.version != self._version:
            instance.subscribe(self._wanted_of(instance.identity), self._version)
        instance.connection = connection
        instance.used_ms = now_ms
        return instance

    def _wanted_of(self, identity: Identity) -> Wanted:
        metrics: set[str] = set()
        interval_ms = DEFAULT_INTERVAL_MS
        for subscription in self._subscriptions:
            if subscription.matches(identity):
                metrics |= subscription.metrics
                interval_ms = min(interval_ms, subscription.interval_ms)
        return Wanted((ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics)), interval_ms)


def text_of_id(instance_id: uuid.UUID) -> str:
    """The id as clients write it: org.apache.kafka.common.Uuid.toString."""
    return base64.urlsafe_b64encode(instance_id.bytes).decode().rstrip("=")


def _subscription_id(instance_id: uuid.UUID, wanted: Wanted) -> int:
    """Kafka's number, but for the order of its sets: the same on each broker and after each start."""
    printed = f"[{', '.join(wanted.metrics)}]{wanted.interval_ms}".encode()
    halves = (instance_id.int >> 64) ^ (instance_id.int & (1 << 64) - 1)
    number = crc32c(printed) ^ (halves >> 32) ^ (halves & 0xFFFFFFFF)
    return number - (1 << 32) if number >> 31 else number
