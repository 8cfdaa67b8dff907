"""Who is the controller: the election, the queue of events, and the end of a controllership.

A controller is who made /controller; the transaction that makes it raises /controller_epoch, by whose version every
later write of that controller is guarded. All events are taken one after another, each from its beginning to its end
(kafka.controller.ControllerEventManager).

Kafka waits until the session of a dead controller expires. Ours has every other broker keep a connection to it: when
its process is gone (see channels.py), they remove its /controller in the transaction of their own election. Were it
alive after all, it would be fenced by the epoch as any controller of the past.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Clock, Scheduler
from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import Peers
from highwater.broker.cluster.state import NO_BROKER, BrokerInfo
from highwater.broker.cluster.zookeeper import (
    Check,
    Create,
    Created,
    Delete,
    Exists,
    Get,
    Multi,
    NodeData,
    Set,
    Stat,
    WatchEvent,
    ZooKeeper,
)
from highwater.broker.controller.alter_partition import alter_partitions
from highwater.broker.controller.channels import Channel, way_to_brokers
from highwater.broker.controller.context import ControllerContext
from highwater.broker.controller.elections import Election
from highwater.broker.controller.partitions import AllowsUncleanElection
from highwater.broker.controller.producer_ids import allocate_producer_ids
from highwater.broker.controller.rebalance import Outcomes
from highwater.broker.controller.storage import ControllerMoved, Rounds, SessionOver, ask
from highwater.broker.controller.term import Term
from highwater.broker.controller.watches import Watches
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.topics.administration import NOT_CONTROLLER, ElectionType, PartitionOutcomes
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol import cold

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_STAND_AGAIN_MS: Final = 1000
"""The wait after an error of this broker, so that it is not repeated in a fast loop."""


class _Event(NamedTuple):
    begin: Callable[[], Rounds[Any] | None]
    """Its steps; None when they are not to be taken any more."""
    then: Callable[[Any], None]
    if_moved: Any
    """What `then` gets if this broker is not the controller, or not to the end of the event."""


class Controller:
    """A broker's part in it. Implements `SessionPart` of the member, and `PresenceListener` for the controller."""

    def __init__(
        self,
        *,
        broker_id: int,
        config: BrokerConfig,
        listener_name: str,
        zookeeper: ZooKeeper,
        peers: Peers,
        clock: Clock,
        scheduler: Scheduler,
        is_unclean_election_allowed: AllowsUncleanElection,
    ) -> None:
        """`listener_name` is that of the brokers among themselves."""
        self.broker_id = broker_id
        self.controller_id = NO_BROKER
        """The id of the controller that ZooKeeper reported last."""
        self._config = config
        self._way = way_to_brokers(peers, listener_name, config)
        self._zookeeper = zookeeper
        self._clock = clock
        self._scheduler = scheduler
        self._is_unclean_election_allowed = is_unclean_election_allowed
        self._watches = Watches()
        self._term: Term | None = None
        self._events: deque[_Event] = deque()
        self._noted: set[str] = set()
        """Changes in ZooKeeper that wait in the queue: a second one of the same kind is the same event."""
        self._current: tuple[_Event, Rounds[Any]] | None = None
        self._has_session = False
        self._is_superseded = False
        """Whether our last controllership was ended by others, who are not known yet."""
        self._superseded_by = -1
        """The transaction that made the /controller of whoever ended it."""
        self._looked_after: Channel | None = None
        """The connection to the controller, where that is another broker."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._term is not None

    @property
    def context(self) -> ControllerContext | None:
        """What it knows as the controller, for whoever looks at it between events; None if it is not."""
        return None if self._term is None else self._term.context

    @property
    def unreachable_broker_count(self) -> int:
        """Brokers that count as alive and that this controller cannot reach; 0 if it is not the controller."""
        return 0 if self._term is None else self._term.unreachable_broker_count

    # The session

    def session_began(self, broker_epoch: int) -> None:
        self._has_session = True
        self._enqueue(self._stand)

    def session_ended(self) -> None:
        self._has_session = False
        self._watches.clear()
        self._noted.clear()
        self._resign()
        self._forget_controller()
        events = [] if self._current is None else [self._current[0]]
        events += self._events
        self._current = None
        self._events.clear()
        for event in events:
            event.then(event.if_moved)

    def close(self) -> None:
        """The broker stops: nothing more is done."""
        self.session_ended()

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        if not self._watches.fired(path, event):
            return
        if path == znodes.CONTROLLER:
            self._note(path, self._stand)
            return
        handle = _HANDLERS.get(path)
        parent, name = znodes.parent_of(path), path.rpartition("/")[2]
        if parent == znodes.BROKER_IDS:
            self._note(path, lambda: self._in_term(lambda term: term.broker_changed(int(name))))
        elif parent == metadata_tree.TOPICS:
            self._note(path, lambda: self._in_term(lambda term: term.assignment_changed(name)))
        elif handle is not None:
            self._note(path, lambda: self._in_term(handle))

    def _in_term(self, make: Callable[[Term], Rounds[T]]) -> Rounds[T] | None:
        return None if self._term is None else make(self._term)

    # Events

    def submit(self, make: Callable[[Term], Rounds[T]], then: Callable[[T], None], *, if_moved: T) -> None:
        """Have an event of the controller take place, and call back with what came of it.

        That is `if_moved` when this broker is not the controller, or not to the end of the event. The call back may
        come before this returns.
        """
        self._enqueue(lambda: self._in_term(make), then, if_moved)

    def _note(self, name: str, begin: Callable[[], Rounds[Any] | None]) -> None:
        if name not in self._noted:
            self._noted.add(name)

            def begin_once() -> Rounds[Any] | None:
                self._noted.discard(name)
                return begin()

            self._enqueue(begin_once)

    def _enqueue(
        self,
        begin: Callable[[], Rounds[Any] | None],
        then: Callable[[Any], None] = lambda _: None,
        if_moved: Any = None,
    ) -> None:
        self._events.append(_Event(begin, then, if_moved))
        self._take_next()

    def _take_next(self) -> None:
        while self._current is None and self._events:
            event = self._events.popleft()
            steps = event.begin()
            if steps is None:
                event.then(event.if_moved)
            else:
                self._current = event, steps
                self._step(event, None)

    def _step(self, event: _Event, results: list[Any] | None) -> None:
        """Take the event one round further; events of a session that ended are taken no further."""
        if self._current is None or self._current[0] is not event:
            return
        try:
            requests = self._current[1].send(results)  # type: ignore[arg-type]
        except StopIteration as end:
            self._current = None
            event.then(end.value)
        except ControllerMoved as moved:
            self._moved(event, moved)
        except Exception:
            _logger.exception("the controller failed to handle an event: this broker resigns as the controller")
            self._failed(event)
        else:
            self._zookeeper.execute(requests, partial(self._answered, event))

    def _answered(self, event: _Event, results: list[Any]) -> None:
        self._step(event, results)
        self._take_next()

    def _moved(self, event: _Event, moved: ControllerMoved) -> None:
        if self._term is not None:
            _logger.warning("broker %d is not the controller any more: %s", self.broker_id, moved)
            self._forget_controller()
        self._resign()
        self._current = None
        if self._has_session and not isinstance(moved, SessionOver):
            self._events.appendleft(_Event(self._stand, lambda _: None, None))
        event.then(event.if_moved)

    def _failed(self, event: _Event) -> None:
        term = self._term
        self._resign()
        self._forget_controller()
        self._current = None
        if term is not None:
            self._events.appendleft(_Event(partial(self._give_up, term.context.epoch_version), lambda _: None, None))
        self._scheduler.call_later(_STAND_AGAIN_MS, self._stand_again)
        event.then(event.if_moved)

    def _stand_again(self) -> None:
        if self._has_session:
            self._note(znodes.CONTROLLER, self._stand)

    # Election

    def _stand(self) -> Rounds[None]:
        """Become the controller if there is none, and otherwise know who is."""
        while True:
            (found,) = yield from self._watches.ask([Exists(znodes.CONTROLLER)])
            if isinstance(found, Stat):
                is_settled = yield from self._is_settled()
                if is_settled:
                    return
            else:
                self._resign()
                self._forget_controller()
                (epoch,) = yield from ask([Get(metadata_tree.CONTROLLER_EPOCH)])
                version = yield from self._try_to_win(epoch)
                if version is not None:
                    yield from self._begin_term(*version)
                    return

    def _is_settled(self) -> Rounds[bool]:
        """Whether somebody is the controller, who is known then."""
        (node,) = yield from ask([Get(znodes.CONTROLLER)])
        if not isinstance(node, NodeData):
            return False
        if node.stat.ephemeral_owner == self._zookeeper.session_id:
            if self._term is not None:
                return True
            yield from ask([Delete(znodes.CONTROLLER)])
            return False
        self._resign()
        try:
            controller_id = znodes.read(node.data, znodes.parse_controller)
        except ValueError as error:
            _logger.error("cannot read the controller from %s: %s", znodes.CONTROLLER, error)
            return True
        if controller_id != self.controller_id:
            _logger.info("broker %d is the controller", controller_id)
        self.controller_id = controller_id
        if self._is_superseded:
            self._is_superseded = False
            self._superseded_by = node.stat.czxid
        # Two that cannot reach each other would depose each other for ever: the second bows, and others look.
        if self._superseded_by != node.stat.czxid:
            yield from self._look_after_controller(controller_id)
        return True

    def _try_to_win(self, found: Any, *removal: Delete) -> Rounds[tuple[int, int] | None]:
        """The epoch of our controllership and its version in ZooKeeper; None when somebody else was quicker.

        `found` is /controller_epoch as it was before it was seen that there is no controller, or who it is that is to
        be removed: every election since makes this one fail.
        """
        if not isinstance(found, NodeData):
            yield from ask([Create(metadata_tree.CONTROLLER_EPOCH, b"0")])
            return None
        epoch = int(found.data) + 1
        value = znodes.encode(znodes.controller_value(self.broker_id, self._clock.now_ms()))
        requests: tuple[Create | Set | Delete, ...] = (
            *removal,
            Create(znodes.CONTROLLER, value, is_ephemeral=True),
            Set(metadata_tree.CONTROLLER_EPOCH, str(epoch).encode(), found.stat.version),
        )
        (results,) = yield from ask([Multi(requests)])
        if isinstance(results, list) and isinstance(results[-2], Created) and isinstance(results[-1], Stat):
            return epoch, results[-1].version
        # The answer to the first attempt may have been lost with its connection.
        controller, now = yield from ask([Get(znodes.CONTROLLER), Get(metadata_tree.CONTROLLER_EPOCH)])
        is_ours = isinstance(controller, NodeData) and controller.stat.ephemeral_owner == self._zookeeper.session_id
        if is_ours and isinstance(now, NodeData) and int(now.data) == epoch:
            return epoch, now.stat.version
        return None

    def _begin_term(self, epoch: int, epoch_version: int, deposed: BrokerInfo | None = None) -> Rounds[None]:
        _logger.info("broker %d is the controller, with epoch %d", self.broker_id, epoch)
        self._forget_controller()
        self._is_superseded = False
        self.controller_id = self.broker_id
        term = self._term = Term(
            controller_id=self.broker_id,
            epoch=epoch,
            epoch_version=epoch_version,
            config=self._config,
            way=self._way,
            scheduler=self._scheduler,
            watches=self._watches,
            submit=lambda steps: self._enqueue(lambda: steps if self._term is term else None),
            is_unclean_election_allowed=self._is_unclean_election_allowed,
            gone=() if deposed is None else (deposed,),
        )
        # The watch reports when another broker removes or replaces the znode.
        yield from self._watches.ask([Exists(znodes.CONTROLLER)])
        yield from term.load()

    def _give_up(self, epoch_version: int) -> Rounds[None]:
        check = Check(metadata_tree.CONTROLLER_EPOCH, epoch_version)
        yield from ask([Multi((check, Delete(znodes.CONTROLLER)))])

    def _resign(self) -> None:
        if self._term is not None:
            self._term.end()
            self._term = None
            self._is_superseded = self._has_session

    # Looking after the controller where that is another broker

    def _look_after_controller(self, broker_id: int) -> Rounds[None]:
        (node,) = yield from ask([Get(znodes.broker_path(broker_id))])
        if not isinstance(node, NodeData):
            return
        try:
            broker = znodes.read(node.data, partial(znodes.parse_broker, broker_id, node.stat.czxid))
            if self._looked_after is None or self._looked_after.broker != broker:
                self._stop_looking()
                self._looked_after = Channel(broker, self._way, self._scheduler, self)
        except ValueError as error:
            _logger.warning("cannot check broker %d, the controller: %s", broker_id, error)

    def _stop_looking(self) -> None:
        if self._looked_after is not None:
            self._looked_after.close()
            self._looked_after = None

    def _forget_controller(self) -> None:
        self.controller_id = NO_BROKER
        self._stop_looking()

    def broker_is_gone(self, broker: BrokerInfo) -> None:
        self._enqueue(lambda: self._depose(broker))

    def broker_is_back(self, broker: BrokerInfo) -> None:
        """It was not deposed, or is no controller any more: nothing is to be done."""

    def _depose(self, broker: BrokerInfo) -> Rounds[None]:
        """Become the controller instead of this broker, if it still is."""
        paths = (metadata_tree.CONTROLLER_EPOCH, znodes.CONTROLLER, znodes.broker_path(broker.broker_id))
        epoch, controller, registration = yield from ask([Get(path) for path in paths])
        is_it = (
            isinstance(controller, NodeData)
            and isinstance(registration, NodeData)
            and registration.stat.czxid == broker.epoch
            and controller.stat.ephemeral_owner == registration.stat.ephemeral_owner
        )
        if not is_it:
            return
        _logger.warning("broker %d, the controller, has ended: standing for election", broker.broker_id)
        version = yield from self._try_to_win(epoch, Delete(znodes.CONTROLLER))
        if version is not None:
            yield from self._begin_term(*version, deposed=broker)

    # What other brokers and clients ask

    def alter_partitions(self, request: Any, version: int, then: Callable[[cold.Answer], None]) -> None:
        """AlterPartition; `request` as cold.decode_request gives it."""
        moved: cold.Answer = {"error_code": ErrorCode.not_controller}
        self.submit(lambda term: alter_partitions(term, request, version), then, if_moved=moved)

    def shut_down(
        self, broker_id: int, broker_epoch: int, then: Callable[[tuple[ErrorCode, list[TopicPartition]]], None]
    ) -> None:
        """ControlledShutdown: an error, or the partitions that the broker still leads."""
        moved: tuple[ErrorCode, list[TopicPartition]] = (ErrorCode.stale_controller_epoch, [])
        self.submit(lambda term: term.shut_down(broker_id, broker_epoch), then, if_moved=moved)

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int, then: Callable[[metadata_tree.ProducerIdBlock | ErrorCode], None]
    ) -> None:
        def allocate(term: Term) -> Rounds[metadata_tree.ProducerIdBlock | ErrorCode]:
            return allocate_producer_ids(term.context, broker_id, broker_epoch)

        moved: metadata_tree.ProducerIdBlock | ErrorCode = ErrorCode.not_controller
        self.submit(allocate, then, if_moved=moved)

    def elect_leaders(
        self, partitions: Collection[TopicPartition], election_type: ElectionType, then: Callable[[Outcomes], None]
    ) -> None:
        """ElectLeaders: who leads now, of each of these."""
        election = Election.UNCLEAN if election_type is ElectionType.UNCLEAN else Election.PREFERRED
        moved: Outcomes = dict.fromkeys(partitions, NOT_CONTROLLER)
        self.submit(lambda term: term.rebalance.elect(partitions, election), then, if_moved=moved)

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        then: Callable[[PartitionOutcomes], None],
        may_change_replication_factor: bool,
    ) -> None:
        """AlterPartitionReassignments: what is wrong with each, or with all."""

        def alter(term: Term) -> Rounds[PartitionOutcomes]:
            return (yield from term.reassignments.alter(wanted, may_change_replication_factor))

        moved: PartitionOutcomes = NOT_CONTROLLER
        self.submit(alter, then, if_moved=moved)

    def enable_unclean_election(self, topic: str | None = None) -> None:
        """Its settings allow it by now (None: those of all topics)."""

        def elect(term: Term) -> Rounds[None]:
            yield from term.partitions.bring_online(topic)

        self.submit(elect, lambda _: None, if_moved=None)


_HANDLERS: Final[dict[str, Callable[[Term], Rounds[object]]]] = {
    znodes.BROKER_IDS: Term.brokers_changed,
    metadata_tree.TOPICS: Term.topics_changed,
    metadata_tree.DELETE_TOPICS: Term.deletions_changed,
    znodes.ISR_CHANGE_NOTIFICATIONS: Term.in_sync_replicas_changed,
    znodes.LOG_DIR_EVENT_NOTIFICATIONS: Term.log_directories_failed,
    znodes.PREFERRED_REPLICA_ELECTION: lambda term: term.rebalance.preferred_election_asked(),
    znodes.REASSIGN_PARTITIONS: lambda term: term.reassignments.znode_changed(),
}
"""The handler of each path that changed, or whose children did."""
