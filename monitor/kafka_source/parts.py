"""What one tick asked, by part, and what came of it: answers, brokers that failed, the time left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from highwater.kafka.client.client import Client
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import Request, error_text
from highwater.kafka.client.settings import Address
from highwater.kafka.protocol.primitives import error_code_of
from highwater.monitor.model import SourceState

Answer = TypeVar("Answer")

_LEAST_WAIT_S: Final = 0.05


class Part(Enum):
    """What is asked of a cluster, each with a SourceState of its own."""

    METADATA = "kafka"
    OFFSETS = "kafka offsets"
    GROUPS = "kafka groups"
    LOG_DIRS = "kafka log directories"
    CONFIGS = "kafka settings"
    MOVES = "kafka reassignments"
    CONTROLLER = "kafka controller"
    TRANSACTIONS = "kafka transactions"
    CLIENTS = "kafka client metrics"


_RIGHTS: Final = {
    ErrorCode.cluster_authorization_failed: "give the monitor's user Describe and DescribeConfigs on the cluster",
    ErrorCode.group_authorization_failed: "give the monitor's user Describe on groups",
    ErrorCode.topic_authorization_failed: "give the monitor's user Describe and DescribeConfigs on topics",
}


def refusal(code: int, detail: str = "") -> str:
    """Why a broker refused something, with the way out if it is a matter of rights."""
    error_code = error_code_of(code)
    way_out = _RIGHTS.get(error_code)
    return error_text(error_code, detail) + (f"; {way_out}" if way_out else "")


def now_ms() -> int:
    """Monotonic."""
    return time.monotonic_ns() // 1_000_000


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class PartLife:
    """A part over the ticks."""

    as_of_ms: int | None = None
    error: str = ""
    """The error of the newest tick that requested the part."""


@dataclass(slots=True)
class _Asked:
    requests: int = 0
    duration_ms: float = 0.0
    errors: list[str] = field(default_factory=list)


class SourceTick:
    """Asks the brokers of a cluster within the time of one tick. A broker that fails once is not asked again."""

    def __init__(self, client: Client, addresses: Mapping[int, Address], timeout_s: float, tick_s: float) -> None:
        self.at_ms = now_ms()
        self.taken_at_ms = unix_ms()
        self.failed: dict[int, str] = {}
        """Why, by node id."""
        self.addresses = dict(addresses)
        self._client = client
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + tick_s
        self._asked: dict[Part, _Asked] = {}
        self._as_of: dict[Part, int] = {}
        traffic = client.traffic
        self._before = traffic.requests, traffic.received_bytes, traffic.late_answers

    async def ask(self, part: Part, node_id: int, request: Request[Answer]) -> Answer | None:
        """None if the broker does not answer, now or before in this tick, or does not serve the request."""
        if node_id in self.failed or node_id not in self.addresses:
            return None
        asked = self._asked.setdefault(part, _Asked())
        begin_s = time.monotonic()
        left_s = self._deadline_s - begin_s
        try:
            asked.requests += 1
            async with asyncio.timeout(max(_LEAST_WAIT_S, min(2 * self._timeout_s, left_s))):
                answer = await self._client.ask(self.addresses[node_id], request, min(self._timeout_s, left_s))
        except (ClientError, TimeoutError) as error:
            reason = str(error) or f"the tick was over before broker {node_id} answered {request.name}"
            is_unserved = isinstance(error, ClientError) and error.is_refusal and bool(error.api)
            if not is_unserved:
                self.failed.setdefault(node_id, reason)
            self.fail(part, reason)
            return None
        finally:
            asked.duration_ms += (time.monotonic() - begin_s) * 1000
        self.succeed(part)
        return answer

    async def serves(self, node_id: int, request: Request[Answer]) -> bool:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._client.serves(self.addresses[node_id], request)
        except (ClientError, TimeoutError):
            return False

    def succeed(self, part: Part) -> None:
        self._as_of[part] = unix_ms()

    def fail(self, part: Part, reason: str) -> None:
        errors = self._asked.setdefault(part, _Asked()).errors
        if reason not in errors:
            errors.append(reason)

    def refuse(self, part: Part, reason: str) -> None:
        """What was answered is not of this cluster: the part has no answer."""
        self._as_of.pop(part, None)
        self.fail(part, reason)

    def states(self, lives: dict[Part, PartLife]) -> dict[str, SourceState]:
        """The state of every part that was ever asked for, by name. Keeps in `lives` what the next tick needs."""
        traffic = self._client.traffic
        requests, received_bytes, late = (
            traffic.requests - self._before[0],
            traffic.received_bytes - self._before[1],
            traffic.late_answers - self._before[2],
        )
        states = {}
        for part in Part:
            life = lives.setdefault(part, PartLife())
            asked = self._asked.get(part)
            if asked is not None:
                life.error = _sentence(asked.errors)
            life.as_of_ms = self._as_of.get(part, life.as_of_ms)
            if asked is None and life.as_of_ms is None and not life.error:
                continue  # clusters with ZooKeeper have no quorum to describe
            is_whole = part is Part.METADATA
            # The handshakes of new connections count as the first part's.
            others = sum(each.requests for of, each in self._asked.items() if of is not Part.METADATA)
            states[part.value] = SourceState(
                part.value,
                life.as_of_ms,
                life.error,
                max(0, requests - others) if is_whole else asked.requests if asked is not None else 0,
                received_bytes if is_whole else 0,
                now_ms() - self.at_ms if is_whole else asked.duration_ms if asked is not None else 0.0,
                late if is_whole else 0,
            )
        return states


def _sentence(errors: list[str]) -> str:
    if not errors:
        return ""
    more = len(errors) - 1
    return errors[0] + (f" (and {more} more)" if more else "")
