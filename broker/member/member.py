"""One broker as a member of its cluster: its ZooKeeper session, registration and orderly departure.

In each session the broker registers its id, and then starts the parts that depend on ZooKeeper (the settings,
the controller). When the session ends, these parts stop at once, because other brokers may have replaced them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, Protocol

from highwater.broker.clock import Clock, Scheduler, Timer
from highwater.broker.cluster.peers import Peers
from highwater.broker.cluster.state import BrokerInfo
from highwater.broker.cluster.znodes import (
    LOG_DIR_EVENT_PREFIX,
    PERSISTENT_PATHS,
    broker_path,
    broker_value,
    encode,
    log_dir_event_value,
    parent_of,
    read,
)
from highwater.broker.cluster.zookeeper import (
    Create,
    Created,
    Get,
    NodeData,
    Request,
    WatchEvent,
    ZooKeeper,
    ZooKeeperError,
    run,
)
from highwater.broker.features import NOTHING, SERVED, Finalised, Supported
from highwater.broker.member.controlled_shutdown import ControlledShutdown
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.settings.metadata_tree import (
    CLUSTER_ID,
    FEATURES,
    cluster_id_value,
    features_value,
    parse_cluster_id,
)

_logger = logging.getLogger(__name__)

NOT_REGISTERED: Final = -1
_EXPIRY_TICK_MS: Final = 2000
"""ZooKeeper ends sessions once per tick, so a session may last one tick longer (the default of tickTime)."""


class SessionPart(Protocol):
    """A part of the broker that depends on the session: the controller, the settings."""

    def session_began(self, broker_epoch: int) -> None:
        """Start: the broker is registered in a new session."""

    def session_ended(self) -> None:
        """Stop: the session is not valid any more. `session_began` follows, maybe much later."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        """Handle a watch; called for the watches of all parts."""


class Member:
    """Implements `Session`."""

    def __init__(
        self,
        info: BrokerInfo,
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        peers: Peers,
        fail: Callable[[str], None],
        *,
        listener_name: str,
        session_timeout_ms: int,
        supported: Supported = SERVED,
    ) -> None:
        """`listener_name` is that of the brokers among themselves, `supported` the features that the others learn of.

        `fail` stops the broker: it cannot be a member, for the reason it is given.
        """
        self._info = info
        self._config = config
        self._clock = clock
        self._scheduler = scheduler
        self._peers = peers
        self._fail = fail
        self._listener_name = listener_name
        self._session_timeout_ms = session_timeout_ms
        self._supported = supported
        self._zookeeper: ZooKeeper | None = None
        self._parts: Sequence[SessionPart] = ()
        self._then: Callable[[], None] | None = None
        self._has_started = False
        self._is_stopping = False
        self._has_session = False
        self._id_is_taken: Timer | None = None
        """Ends the wait for somebody else's registration under our id to go."""
        self._has_news_of_directories = False
        self.broker_epoch = NOT_REGISTERED
        """The epoch of the current or last registration, which every request between brokers has."""
        self.is_registered = False

    def attach(self, zookeeper: ZooKeeper) -> None:
        """The client whose session this is; comes before anything else, as the client is made with its session."""
        self._zookeeper = zookeeper

    def start(self, parts: Sequence[SessionPart], then: Callable[[], None]) -> None:
        """Register, now or when there is a session, begin the parts in order, and call back once that is done."""
        self._parts = parts
        self._then = then
        self._has_started = True
        if self._has_session:
            self._register()

    def stop(self, then: Callable[[], None]) -> None:
        """Hand over what this broker leads, if that is wanted and possible, and call back.

        The session still stands then, and with it the registration: closing the client ends both.
        """
        self._is_stopping = True
        if not (self.is_registered and self._config.boolean("controlled.shutdown.enable")):
            self._scheduler.call_soon(then)
            return
        assert self._zookeeper is not None
        info = self._info._replace(epoch=self.broker_epoch)
        ControlledShutdown(info, self._listener_name, self._config, self._scheduler, self._zookeeper, self._peers, then)

    def log_directory_failed(self) -> None:
        """Have the controller ask this broker which of its replicas are offline."""
        self._has_news_of_directories = True
        if self.is_registered:
            self._tell_of_directories()

    # Session

    def session_began(self, session_id: int) -> None:
        self._has_session = True
        if self._has_started and not self._is_stopping:
            self._register()

    def session_ended(self) -> None:
        self._has_session = False
        self._stop_waiting_for_id()
        if self.is_registered:
            _logger.warning("the session with ZooKeeper ended: broker %d is not registered", self._info.broker_id)
            self.is_registered = False
            for part in reversed(self._parts):
                part.session_ended()

    def connection_changed(self, is_connected: bool) -> None:
        """Do nothing: the session is still valid."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        if path == broker_path(self._info.broker_id) and self._id_is_taken is not None:
            self._register()
        for part in self._parts:
            part.watch_fired(path, event)

    # Registration

    def _register(self) -> None:
        assert self._zookeeper is not None
        session_id = self._zookeeper.session_id
        run(self._zookeeper, self._registration(session_id), lambda outcome: self._registered(session_id, outcome))

    def _registration(
        self, session_id: int
    ) -> Generator[Sequence[Request], list[Any], int | NodeData | ZooKeeperError]:
        """The broker epoch; or what somebody else registered under our id, which is watched; or an error."""
        path = broker_path(self._info.broker_id)
        data = encode(broker_value(self._info, self._clock.now_ms(), self._supported))
        while True:
            (created,) = yield [Create(path, data, is_ephemeral=True)]
            if isinstance(created, Created):
                return created.stat.czxid
            if created is not ZooKeeperError.NODE_EXISTS:
                return created  # type: ignore[no-any-return]
            (found,) = yield [Get(path, watch=True)]
            if isinstance(found, NodeData):
                # Ours when the connection broke under the request, and it was asked again.
                return found.stat.czxid if found.stat.ephemeral_owner == session_id else found
            if found is not ZooKeeperError.NO_NODE:
                return found  # type: ignore[no-any-return]

    def _registered(self, session_id: int, outcome: int | NodeData | ZooKeeperError) -> None:
        assert self._zookeeper is not None
        if self._zookeeper.session_id != session_id or outcome is ZooKeeperError.SESSION_EXPIRED:
            return  # the next session starts with the registration
        broker_id = self._info.broker_id
        if isinstance(outcome, ZooKeeperError):
            self._fail(f"broker {broker_id} cannot be registered in ZooKeeper: {outcome.value}")
            return
        if isinstance(outcome, NodeData):
            if self._id_is_taken is None:
                # As long as the session of a broker that was killed may last; those of the living last longer.
                wait_ms = self._session_timeout_ms + _EXPIRY_TICK_MS
                _logger.info("waiting up to %d ms for an older session of broker %d to end", wait_ms, broker_id)
                self._id_is_taken = self._scheduler.call_later(wait_ms, self._give_up_on_id)
            return
        self._stop_waiting_for_id()
        self.broker_epoch = outcome
        self.is_registered = True
        _logger.info("registered broker %d at ZooKeeper with epoch %d", broker_id, outcome)
        for part in self._parts:
            part.session_began(outcome)
        if self._has_news_of_directories:
            self._tell_of_directories()
        then, self._then = self._then, None
        if then is not None:
            then()

    def _give_up_on_id(self) -> None:
        self._fail(
            f"a broker with the id {self._info.broker_id} is registered in ZooKeeper already: "
            "set another broker.id, or stop the other one"
        )

    def _stop_waiting_for_id(self) -> None:
        if self._id_is_taken is not None:
            self._id_is_taken.cancel()
            self._id_is_taken = None

    def _tell_of_directories(self) -> None:
        assert self._zookeeper is not None

        def told(results: list[Any]) -> None:
            if isinstance(results[0], Created):
                self._has_news_of_directories = False

        event = encode(log_dir_event_value(self._info.broker_id))
        self._zookeeper.execute([Create(LOG_DIR_EVENT_PREFIX, event, is_sequential=True)], told)


def take_up_cluster(
    new_cluster_id: str, first_levels: Finalised = NOTHING
) -> Generator[Sequence[Request], list[Any], str | ZooKeeperError]:
    """Make the places that all of Kafka expects, and the cluster's id unless it has one; which that is.

    A new cluster begins with these levels of features.
    Raises ValueError when another program's data is where the id should be.
    """
    paths = dict.fromkeys(prefix for path in (*PERSISTENT_PATHS, CLUSTER_ID) for prefix in _prefixes(path))
    del paths[CLUSTER_ID]
    results = yield [Create(path) for path in paths]
    for result in results:
        if isinstance(result, ZooKeeperError) and result is not ZooKeeperError.NODE_EXISTS:
            return result
    (found,) = yield [Get(CLUSTER_ID)]
    if found is ZooKeeperError.NO_NODE:
        if first_levels.levels:
            # Before the id: a start that is killed in between is not the last one of a new cluster.
            yield [Create(parent_of(FEATURES)), Create(FEATURES, encode(features_value(first_levels)))]
        # Another broker may write an id at the same moment: use the id that is read back.
        _, found = yield [Create(CLUSTER_ID, encode(cluster_id_value(new_cluster_id))), Get(CLUSTER_ID)]
    return read(found.data, parse_cluster_id) if isinstance(found, NodeData) else found


def _prefixes(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts) + 1)]
