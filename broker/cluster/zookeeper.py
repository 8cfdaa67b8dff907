"""Requests to ZooKeeper as values; broker/server/zookeeper.py executes them, tests simulate them.

Code that needs several rounds with ZooKeeper is a generator: it yields requests and is sent their results, so that it
reads from top to bottom and knows neither threads nor callbacks (`Steps`, `run`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeVar

ANY_VERSION: Final = -1


class ZooKeeperError(Enum):
    """Why a request failed. A lost connection is not among them: the bridge retries within the session."""

    NO_NODE = "no such node"
    NODE_EXISTS = "the node exists"
    NOT_EMPTY = "the node has children"
    BAD_VERSION = "the node changed"
    """Also the result of a conditional write that succeeded before the connection broke, and was sent again."""
    SESSION_EXPIRED = "the session is over"
    ROLLED_BACK = "another request of the transaction failed"
    REFUSED = "not authorised"
    LOGIN_REQUIRED = "ZooKeeper wants a login (zookeeper.sasl.jaas.config)"
    MALFORMED = "ZooKeeper cannot understand it"


class Stat(NamedTuple):
    version: int
    czxid: int
    """The transaction that made the node; of /brokers/ids/N it is the broker's epoch."""
    ephemeral_owner: int
    """The session that owns the ephemeral node; 0 for none."""
    created_ms: int = 0
    """The time of its creation by ZooKeeper's clock; 0 if unknown."""
    mzxid: int = 0
    """The transaction that wrote it last; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Get:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Exists:
    path: str
    watch: bool = False
    """The watch also fires when the node is created."""


@dataclass(frozen=True, slots=True)
class Children:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node; its parents must exist."""

    path: str
    data: bytes = b""
    is_ephemeral: bool = False
    is_sequential: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Only in a transaction: the node has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Multi:
    """Requests that succeed or fail together."""

    requests: tuple[Create | Set | Delete | Check, ...]


Request = Get | Exists | Children | Create | Set | Delete | Multi


class NodeData(NamedTuple):
    """The result of Get."""

    data: bytes
    stat: Stat


class Created(NamedTuple):
    """The result of Create."""

    path: str
    """The path with the number that ZooKeeper gave it, if it is sequential."""
    stat: Stat
    """The stat of the node; in a transaction only its version is certain."""


Result = NodeData | Stat | list[str] | Created | None | ZooKeeperError | list[Any]
"""Get: NodeData. Exists, Set: Stat. Children: names. Create: Created. Delete, Check: None. Multi: a list with a
result for each of its requests, in which every one is an error if any is (those not at fault ROLLED_BACK). Or an error.
"""

Steps = Generator[Sequence[Request], list[Any], Any]
"""Work in rounds: yields requests, is sent their results in order, returns what it found."""


class WatchEvent(Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class Session(Protocol):
    """Receives the events of the session, in their order, between the answers to requests."""

    def session_began(self, session_id: int) -> None:
        """Handle a new session, without ephemeral nodes and watches."""

    def session_ended(self) -> None:
        """It expired; requests under way have been given SESSION_EXPIRED. `session_began` follows, maybe much later."""

    def connection_changed(self, is_connected: bool) -> None:
        """Handle a change of the connection within a session; requests wait for a connection."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        """Handle a watch; it fires once and is then removed."""


class ZooKeeper(Protocol):
    """One client of one ensemble. All calls and callbacks are on the event loop; paths are without the chroot."""

    @property
    def session_id(self) -> int:
        """0 while there is none."""

    def execute(self, requests: Sequence[Request], then: Callable[[list[Any]], None]) -> None:
        """Execute these in order, and call back (never before this returns) with a Result for each.

        They wait while there is no connection. Without a session each gets SESSION_EXPIRED.
        """


T = TypeVar("T")


def run(
    zookeeper: ZooKeeper,
    steps: Generator[Sequence[Request], list[Any], T],
    then: Callable[[T], None] = lambda _: None,
) -> None:
    """Run the steps, one round after another. An exception of a step is a bug and is raised in ZooKeeper's callback."""

    def step(results: list[Any] | None) -> None:
        try:
            requests = next(steps) if results is None else steps.send(results)
        except StopIteration as end:
            then(end.value)
            return
        zookeeper.execute(requests, step)

    step(None)
