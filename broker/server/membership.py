"""Joins the broker's process to its cluster: session with ZooKeeper, registration, parts.

Start: a session, the cluster's id, this broker's id, the settings that are in ZooKeeper; then, when the logs are
there, the broker registers, takes connections, and is ready once the controller has sent it the metadata.
Stop: another takes over what it leads (controlled shutdown), it asks nothing more of anybody, its session ends.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from highwater.broker.clock import Clock, Scheduler
from highwater.broker.cluster import znodes
from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.cluster.peers import Endpoint
from highwater.broker.cluster.state import NO_BROKER, BrokerInfo
from highwater.broker.cluster.zookeeper import Request, Set, Stat, ZooKeeperError, run
from highwater.broker.features import first_levels
from highwater.broker.log.checkpoint import META_PROPERTIES, MalformedFile, decode_properties, encode_topic_id
from highwater.broker.member.assembly import ClusteredNode
from highwater.broker.member.features import ClusterFeatures
from highwater.broker.member.member import Member, take_up_cluster
from highwater.broker.member.zookeeper_acls import ZooKeeperAcls
from highwater.broker.member.zookeeper_store import ZooKeeperStore
from highwater.broker.metrics.cluster_page import zookeeper_page
from highwater.broker.node import Node
from highwater.broker.runtime import Runtime
from highwater.broker.security.authorizer import Authorizer
from highwater.broker.server.listeners import BoundListener, endpoints_of
from highwater.broker.server.peer_security import PeerSecurity, inter_broker_listener
from highwater.broker.server.peers import SocketPeers
from highwater.broker.server.renewal import Renewable
from highwater.broker.server.zookeeper import KazooZooKeeper, SessionFile, ZooKeeperSettings
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.authorization import authorizer_of
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.broker.settings.store import MetadataError
from highwater.broker.topics.storage import Storage
from highwater.kafka.acl import CLUSTER_NAME, Operation, ResourceType
from highwater.kafka.client.zookeeper_security import ZooKeeperSecurity

_logger = logging.getLogger(__name__)

_NEEDED_BY_BROKERS: Final = (
    (Operation.CLUSTER_ACTION, "followers will get no records"),
    (Operation.CREATE, "__consumer_offsets, and topics that are created on first use, cannot be made"),
)
"""What they ask each other for, and what happens without it."""

_NO_NEWS_MS: Final = 10_000

T = TypeVar("T")


class Membership:
    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        clock: Clock,
        fail: Callable[[str], None],
    ) -> None:
        """`fail` stops the broker, for the reason it is given. Raises ConfigError."""
        self._config = config
        self._loop = loop
        self._scheduler = scheduler
        self._clock = clock
        self._fail = fail
        self._settings = ZooKeeperSettings.of(config)
        self._listener_name, _ = inter_broker_listener(config)
        self._peers = SocketPeers(config, loop)
        self._zookeeper = KazooZooKeeper(loop, self._settings, fail)
        self._acls: ZooKeeperAcls | None = None
        self._features = ClusterFeatures(self._zookeeper, clock)
        self._member: Member | None = None
        self._clustered: ClusteredNode | None = None

    def metrics(self) -> str:
        """What the way to ZooKeeper is like."""
        return zookeeper_page(self._zookeeper.counters)

    def renewables(self, bound: Sequence[BoundListener]) -> list[Renewable]:
        """What is read again when its files change."""
        if self._settings.security == ZooKeeperSecurity() and all(each.tls is None for each in bound):
            return []
        from highwater.broker.server import renewables  # only those with TLS pay for it

        of_listeners = renewables.of_listeners(self._config, bound, self._peers.security)
        return [*of_listeners, renewables.of_zookeeper(self._config, self._zookeeper)]

    # Starting

    async def connect(self) -> ZooKeeperStore:
        """Come back with what was set in the cluster. Raises MetadataError."""
        await self._zookeeper.start()
        try:
            first = first_levels(self._features.features.supported, self._clock.now_ms())
            cluster_id = await self._run(take_up_cluster(encode_topic_id(uuid.uuid4()), first))
        except ValueError as error:
            raise MetadataError(
                f"{self._place}{metadata_tree.CLUSTER_ID} is not a cluster id of Kafka's: {error}"
            ) from None
        if isinstance(cluster_id, ZooKeeperError):
            raise MetadataError(f"{self._place}: the cluster cannot be read: {cluster_id.value}")
        store = ZooKeeperStore(self._zookeeper, self._clock, cluster_id)
        failure = await self._run(store.load())
        if failure is not None:
            raise MetadataError(f"{self._place}: the settings cannot be read: {failure.value}")
        try:
            failure = await self._run(self._features.load())
        except ValueError as error:
            raise MetadataError(f"{self._place}{metadata_tree.FEATURES} is damaged: {error}") from None
        if failure is not None:
            raise MetadataError(f"{self._place}: the features cannot be read: {failure.value}")
        if (authorizer := authorizer_of(self._config)) is not None:
            self._acls = ZooKeeperAcls(self._zookeeper, self._clock, authorizer)
            failure = await self._run(self._acls.load())
            if failure is not None:
                raise MetadataError(f"{self._place}: the ACLs cannot be read: {failure.value}")
            self._warn_of_locked_out_brokers(authorizer)
        return store

    def _warn_of_locked_out_brokers(self, authorizer: Authorizer) -> None:
        user = PeerSecurity(self._config).user
        for operation, consequence in () if user is None else _NEEDED_BY_BROKERS:
            if not authorizer.allows(f"User:{user}", "", operation, ResourceType.CLUSTER, CLUSTER_NAME):
                _logger.warning(
                    "brokers come to each other as User:%s, who may not do %s on the cluster: %s; add User:%s to "
                    "super.users of every broker",
                    user,
                    operation.name,
                    consequence,
                    user,
                )

    async def broker_id(self, paths: Sequence[Path]) -> int:
        """The id of a broker without broker.id: that of its log directories, or a new one (kafka.utils.ZkUtils)."""
        if not self._config.boolean("broker.id.generation.enable"):
            raise ConfigError("broker.id is not set, and broker.id.generation.enable is false; set broker.id")
        for path in paths:
            try:
                properties = decode_properties((path / META_PROPERTIES).read_bytes())
                return int(properties["broker.id"])
            except (OSError, MalformedFile, KeyError, ValueError):
                continue  # what is the matter with it is reported when the directory is opened
        (stat,) = await self._run(_ask([Set(znodes.BROKER_SEQUENCE, b"")]))
        if not isinstance(stat, Stat):
            raise MetadataError(f"{self._place}{znodes.BROKER_SEQUENCE} gives no broker id: {stat.value}")
        return stat.version + self._config.integer("reserved.broker.max.id")

    async def own(self, home: Path) -> None:
        """The log directory `home` is locked now: the session of the last run, kept there, has nobody any more."""
        await self._zookeeper.keep_sessions_in(SessionFile(home, self._settings))

    def assemble(self, runtime: Runtime, store: ZooKeeperStore, storage: Storage) -> Node:
        """The node of this member; its parts are started by `join` and closed by `stop_asking`."""
        self._clustered = ClusteredNode(
            runtime,
            store,
            self._acls,
            self._features,
            storage,
            self._zookeeper,
            self._peers,
            listener_name=self._listener_name,
            random=Random(),
        )
        return self._clustered.node

    async def join(self, bound: Sequence[BoundListener], listen: Callable[[], None]) -> None:
        """Register, `listen`, and return when the controller has sent the metadata of the cluster.

        A registered broker that refuses connections is reported by the controller, but not at once.
        """
        clustered = self._clustered
        assert clustered is not None, "assemble comes first"
        broker_id = clustered.node.broker_id
        protocols = {endpoint.listener_name: endpoint.security_protocol for endpoint in endpoints_of(self._config)[0]}
        endpoints = tuple(
            Endpoint(entry.listener.name, protocols[entry.listener.name], entry.listener.host, entry.listener.port)
            for entry in bound
        )
        self._member = Member(
            BrokerInfo(broker_id, NO_BROKER, endpoints, self._config.string("broker.rack")),
            self._config,
            self._clock,
            self._scheduler,
            self._peers,
            self._fail,
            listener_name=self._listener_name,
            session_timeout_ms=self._settings.session_timeout_ms,
            supported=self._features.features.supported,
        )
        self._member.attach(self._zookeeper)
        self._zookeeper.attach(self._member)
        registered: asyncio.Future[None] = self._loop.create_future()
        clustered.start()
        self._member.start(clustered.session_parts(), lambda: registered.set_result(None))
        await registered
        listen()
        inside = next(endpoint for endpoint in endpoints if endpoint.listener_name == self._listener_name)
        await self._hear_of(broker_id, inside, clustered.parts.metadata)

    async def _hear_of(self, broker_id: int, inside: Endpoint, metadata: MetadataCache) -> None:
        heard: asyncio.Future[None] = self._loop.create_future()

        def look() -> None:
            if metadata.broker(broker_id) is not None and not heard.done():
                heard.set_result(None)

        end = metadata.when_changed(look)
        look()
        waiting = self._loop.call_later(
            _NO_NEWS_MS / 1000,
            _logger.warning,
            "the controller has sent no state of the cluster yet; waiting for it. It must reach this broker at %s:%d "
            "(listener %s)",
            inside.host,
            inside.port,
            inside.listener_name,
        )
        try:
            await heard
        finally:
            waiting.cancel()
            end()

    # Running

    def log_directory_failed(self) -> None:
        if self._member is not None:
            self._member.log_directory_failed()

    # Stopping

    async def hand_over(self) -> None:
        """Have others lead what this broker leads, while it serves still."""
        if self._member is not None:
            done: asyncio.Future[None] = self._loop.create_future()
            self._member.stop(lambda: done.set_result(None))
            await done

    def stop_asking(self) -> None:
        """Nothing more is asked of other brokers."""
        clustered, self._clustered = self._clustered, None
        if clustered is not None:
            clustered.close()
        self._peers.close()

    async def leave(self) -> None:
        """End the session, and the registration with it."""
        await self._zookeeper.stop()

    @property
    def _place(self) -> str:
        return f"ZooKeeper at {self._settings.hosts}{self._settings.chroot}"

    async def _run(self, steps: Generator[Sequence[Request], list[Any], T]) -> T:
        """Raises what the steps raise."""
        done: asyncio.Future[T] = self._loop.create_future()

        def guarded() -> Generator[Sequence[Request], list[Any], None]:
            try:
                done.set_result((yield from steps))
            except Exception as error:
                done.set_exception(error)

        run(self._zookeeper, guarded())
        return await done


def _ask(requests: Sequence[Request]) -> Generator[Sequence[Request], list[Any], list[Any]]:
    return (yield requests)
