"""The features of a cluster: finalised levels in ZooKeeper, and what each live broker supports.

/highwater/features has the levels. Each of our brokers says in its registration what it supports, and a level counts
only while all that are registered support it. A broker that supports less may be a Kafka 3.9, which knows nothing of
our znode: every member therefore looks, and the first that sees such a broker takes the level back, under a higher
epoch. It stays so until somebody finalises the level again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Clock
from highwater.broker.cluster import znodes
from highwater.broker.cluster.zookeeper import (
    Children,
    Create,
    Created,
    Exists,
    Get,
    NodeData,
    Request,
    Set,
    Stat,
    WatchEvent,
    ZooKeeper,
    ZooKeeperError,
    run,
)
from highwater.broker.features import (
    NOTHING,
    SERVED,
    FeatureChange,
    Features,
    Finalised,
    Supported,
    serves,
)
from highwater.broker.settings.metadata_tree import FEATURES, features_value, parse_features
from highwater.kafka.protocol.problem import Problem

_logger = logging.getLogger(__name__)

T = TypeVar("T")
_Rounds = Generator[Sequence[Request], list[Any], T]

_ATTEMPTS: Final = 10
"""The most attempts to change levels that others change at the same time."""


class ClusterFeatures:
    """Implements `FeatureStore` and `SessionPart`."""

    def __init__(self, zookeeper: ZooKeeper, clock: Clock, supported: Supported = SERVED) -> None:
        """No level is known until `load` has run."""
        self.features = Features(supported)
        self._zookeeper = zookeeper
        self._clock = clock

    def load(self) -> _Rounds[ZooKeeperError | None]:
        """Take up what is finalised, before the broker is registered. Raises ValueError for a damaged znode."""
        (node,) = yield [Get(FEATURES)]
        if isinstance(node, NodeData):
            self.features.take_up(znodes.read(node.data, parse_features))
        return node if isinstance(node, ZooKeeperError) and node is not ZooKeeperError.NO_NODE else None

    # Following

    def session_began(self, broker_epoch: int) -> None:
        run(self._zookeeper, self._look())

    def session_ended(self) -> None:
        """Keep the known levels in force."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        if path in (FEATURES, znodes.BROKER_IDS):
            run(self._zookeeper, self._look())

    def _look(self) -> _Rounds[None]:
        """Take up what is finalised, after taking back what a registered broker does not support."""
        for _ in range(_ATTEMPTS):
            _, node = yield [Exists(FEATURES, watch=True), Get(FEATURES)]
            if not isinstance(node, NodeData):
                return
            try:
                finalised = znodes.read(node.data, parse_features)
            except ValueError as error:
                _logger.error("%s in ZooKeeper is not used: %s", FEATURES, error)
                return
            if not finalised.levels:
                self._take_up(finalised)
                return
            brokers = yield from _registered(watch=True)
            lacking = {
                name: broker_id
                for name, level in finalised.levels.items()
                for broker_id, told in brokers.items()
                if not serves(told, name, level)
            }
            if not lacking:
                self._take_up(finalised)
                return
            kept = {name: level for name, level in finalised.levels.items() if name not in lacking}
            taken_back = finalised.changed_to(kept, self._clock.now_ms())
            (written,) = yield [Set(FEATURES, znodes.encode(features_value(taken_back)), node.stat.version)]
            if isinstance(written, Stat):
                for name, broker_id in lacking.items():
                    _logger.warning(
                        "broker %d does not support level %d of the feature %s: the level is not finalised any more. "
                        "When each broker supports it: kafka-features.sh upgrade --feature %s=%d",
                        broker_id,
                        finalised.levels[name],
                        name,
                        name,
                        finalised.levels[name],
                    )
                self._take_up(taken_back)
                return
            if written is not ZooKeeperError.BAD_VERSION:
                return

    def _take_up(self, finalised: Finalised) -> None:
        before = self.features.finalised
        self.features.take_up(finalised)
        if self.features.finalised.levels != before.levels:
            told = ", ".join(f"{name}={level}" for name, level in finalised.levels.items()) or "none"
            _logger.info("finalised features, epoch %d: %s", finalised.epoch, told)

    # Changing

    def change_features(self, change: FeatureChange, then: Callable[[Problem | None], None]) -> None:
        run(self._zookeeper, self._change(change), then)

    def _change(self, change: FeatureChange) -> _Rounds[Problem | None]:
        failure: ZooKeeperError = ZooKeeperError.BAD_VERSION
        for _ in range(_ATTEMPTS):
            (node,) = yield [Get(FEATURES)]
            if isinstance(node, ZooKeeperError) and node is not ZooKeeperError.NO_NODE:
                return _not_written(node)
            try:
                now = znodes.read(node.data, parse_features) if isinstance(node, NodeData) else NOTHING
            except ValueError as error:
                return Problem(ErrorCode.unknown_server_error, f"{FEATURES} in ZooKeeper is damaged: {error}")
            brokers = yield from _registered(watch=False)
            outcome = change(now, brokers)
            if isinstance(outcome, Problem):
                return outcome
            if outcome == now:
                return None
            data = znodes.encode(features_value(outcome))
            if isinstance(node, NodeData):
                (written,) = yield [Set(FEATURES, data, node.stat.version)]
            else:
                _, written = yield [Create(znodes.parent_of(FEATURES)), Create(FEATURES, data)]
            if isinstance(written, Stat | Created):
                self._take_up(outcome)
                return None
            failure = written
            if failure not in (ZooKeeperError.BAD_VERSION, ZooKeeperError.NODE_EXISTS):
                break
        return _not_written(failure)


def _registered(*, watch: bool) -> _Rounds[Mapping[int, Supported]]:
    """What the registered brokers support; one whose registration cannot be understood supports nothing."""
    (names,) = yield [Children(znodes.BROKER_IDS, watch=watch)]
    ids = [] if isinstance(names, ZooKeeperError) else sorted(int(name) for name in names if name.isdecimal())
    nodes = (yield [Get(znodes.broker_path(broker_id)) for broker_id in ids]) if ids else []
    brokers: dict[int, Supported] = {}
    for broker_id, node in zip(ids, nodes, strict=True):
        if isinstance(node, NodeData):
            try:
                brokers[broker_id] = znodes.read(node.data, znodes.parse_broker_features)
            except ValueError as error:
                _logger.error("ignoring the features of broker %d: %s", broker_id, error)
                brokers[broker_id] = {}
    return brokers


def _not_written(error: ZooKeeperError) -> Problem:
    _logger.error("cannot write %s in ZooKeeper: %s", FEATURES, error.value)
    return Problem(ErrorCode.unknown_server_error, f"The broker could not write to ZooKeeper: {error.value}")
