"""One simulated broker: the real node and member on a simulated disk, clock and network, through all of its lives."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import Endpoint
from highwater.broker.cluster.state import BrokerInfo
from highwater.broker.cluster.zookeeper import ZooKeeperError, run
from highwater.broker.handlers.dispatch import Dispatcher
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import FilePiece
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.member.assembly import ClusteredNode
from highwater.broker.member.features import ClusterFeatures
from highwater.broker.member.member import Member, take_up_cluster
from highwater.broker.member.zookeeper_acls import ZooKeeperAcls
from highwater.broker.member.zookeeper_store import ZooKeeperStore
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.settings.authorization import authorizer_of
from highwater.broker.settings.config import BrokerConfig, Setting, TopicConfig
from highwater.broker.settings.metadata_tree import FEATURES, parse_features
from highwater.broker.topics.log_settings import log_config_of
from highwater.broker.topics.storage import Storage
from highwater.broker.turns import Turns
from tests.broker.log.simulated_files import Killed, SimulatedFiles
from tests.broker.simulation.network import Network
from tests.broker.simulation.parent import Parent
from tests.broker.simulation.peers import SimulatedPeers
from tests.broker.simulation.tree_client import TreeClient
from tests.broker.simulation.world import Process, World
from tests.broker.simulation.zookeeper import Ensemble, SimulatedZooKeeper

SESSION_TIMEOUT_MS: Final = 3000
_CLUSTER_ID: Final = "simulatedsimulatedsimu"
_PATH: Final = Path("/data")
_HOUSEKEEPING_MS: Final = 500
_CHECKPOINT_MS: Final = 2000
_RESTART_AFTER_FAILURE_MS: Final = 1000
_COLD_RATE: Final = 0.03
"""How often the page cache lacks what a fetch reads."""
_MOST_COLD_READ_MS: Final = 50


class SimulatedBroker:
    """Implements network.Server while it runs."""

    def __init__(
        self, broker_id: int, world: World, network: Network, ensemble: Ensemble | Parent, properties: Mapping[str, str]
    ) -> None:
        self._world = world
        self._network = network
        self._ensemble = ensemble
        self._properties = properties
        self.broker_id = broker_id
        self.host = f"broker{broker_id}"
        self.endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", self.host, 9092)
        self.files = SimulatedFiles()
        self.sync_delay_ms = self.usual_sync_delay_ms = 1
        self.skew_ms = 0
        self.is_running = False
        """Whether there is a process, paused or not."""
        self.is_stopping = False
        self.had_full_disk = False
        """In this life."""
        self.lives = 0
        self.process = Process(self._world, self.host)
        self.process.kill()
        self.dies: Callable[[], None] = lambda: None
        """Called when it is killed, while it still has all that it had then."""
        self.zookeeper: SimulatedZooKeeper | TreeClient | None = None
        self.member: Member | None = None
        self.node: Node | None = None
        self.parts: ClusteredNode | None = None
        self._dispatcher: Dispatcher | None = None
        self._is_cut_from_zookeeper = False
        self._wanted_flushes: set[Partition] = set()
        self._is_flushing = False
        # Of its own, so that the page cache takes none of the numbers that decide about the world.
        self._cache_rng = Random(f"{world.seed} {self.host}")
        self.cold_reads = 0

    @property
    def dispatcher(self) -> Dispatcher:
        assert self._dispatcher is not None
        return self._dispatcher

    @property
    def is_registered(self) -> bool:
        return self.member is not None and self.member.is_registered

    @property
    def session_id(self) -> int:
        """With ZooKeeper; 0 for none."""
        return 0 if self.zookeeper is None else self.zookeeper.session_id

    # Its lives

    def start(self) -> None:
        assert not self.is_running
        self.lives += 1
        self.is_running = True
        self.is_stopping = False
        self.had_full_disk = False
        self.process = process = Process(self._world, self.host)
        process.on_killed = self.kill
        process.skew_ms = self.skew_ms
        self._wanted_flushes = set()
        self._is_flushing = False
        config = BrokerConfig(
            Setting("simulation", name, text)
            for name, text in {**self._properties, "broker.id": str(self.broker_id)}.items()
        )
        peers = SimulatedPeers(self._network, process, self.host)
        member = Member(
            BrokerInfo(self.broker_id, -1, (self.endpoint,), None),
            config,
            process,
            process,
            peers,
            self._fail,
            listener_name=self.endpoint.listener_name,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        self.member = member
        self.zookeeper = zookeeper = self._ensemble.client(
            member,
            scheduler=process,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            delay_ms=self._network.delay_ms,
            rng=self._world.rng,
        )
        if self._is_cut_from_zookeeper:
            zookeeper.cut()
        member.attach(zookeeper)

        def begin() -> None:
            if zookeeper.session_id:
                run(zookeeper, take_up_cluster(_CLUSTER_ID), found)
            else:
                process.call_later(10, begin)

        def found(cluster_id: str | ZooKeeperError) -> None:
            if isinstance(cluster_id, ZooKeeperError):
                process.call_later(100, begin)
            else:
                store = ZooKeeperStore(zookeeper, process, cluster_id)
                run(zookeeper, store.load(), lambda error: loaded(store, error))

        def loaded(store: ZooKeeperStore, error: ZooKeeperError | None) -> None:
            if error is not None:
                process.call_later(100, begin)
            elif (authorizer := authorizer_of(config)) is None:
                self._open(config, member, zookeeper, peers, store, None)
            else:
                acls = ZooKeeperAcls(zookeeper, process, authorizer)
                run(zookeeper, acls.load(), lambda error: loaded_acls(store, acls, error))

        def loaded_acls(store: ZooKeeperStore, acls: ZooKeeperAcls, error: ZooKeeperError | None) -> None:
            if error is not None:
                process.call_later(100, begin)
            else:
                self._open(config, member, zookeeper, peers, store, acls)

        process.call_soon(begin)

    def _open(
        self,
        config: BrokerConfig,
        member: Member,
        zookeeper: SimulatedZooKeeper | TreeClient,
        peers: SimulatedPeers,
        store: ZooKeeperStore,
        acls: ZooKeeperAcls | None,
    ) -> None:
        process = self.process
        defaults = log_config_of(TopicConfig(config, {}))
        self.files.is_in_cache = lambda piece: self._cache_rng.random() >= _COLD_RATE
        try:
            directory = LogDirectory(
                self.files, _PATH, defaults, broker_id=self.broker_id, clock=process, cluster_id=store.cluster_id
            )
            directories = LogDirectories([directory])
            directories.load(lambda _: defaults, lambda done, total: None)
        except (LogDirectoryError, OSError) as error:
            self._fail(f"cannot start: {error}")
            return
        features = ClusterFeatures(zookeeper, process)
        # At once: where none are finalised, a history is as it would be without this.
        if (finalised := self._ensemble.data(FEATURES)) is not None:
            features.features.take_up(znodes.read(finalised, parse_features))
        self.parts = parts = ClusteredNode(
            Runtime(
                broker_id=self.broker_id,
                config=config,
                clock=process,
                scheduler=process,
                turns=Turns(process, process),
            ),
            store,
            acls,
            features,
            Storage(
                log_directories=directories,
                request_flush=self._request_flush,
                storage_failed=lambda error, partition: self._storage_failed(error),
                request_checkpoint=self._checkpoint_for,
                bring_into_cache=self._bring_into_cache,
            ),
            zookeeper,
            peers,
            listener_name=self.endpoint.listener_name,
            random=Random(self._world.rng.random()),
        )
        self.node = parts.node
        self._dispatcher = Dispatcher(parts.node)
        process.call_later(_HOUSEKEEPING_MS, self._housekeeping)
        process.call_later(_CHECKPOINT_MS, self._checkpoint)
        parts.start()
        member.start(parts.session_parts(), self._registered)

    def _registered(self) -> None:
        # Before, a controller that still sees the last life's registration would be obeyed.
        self._network.listen(self.host, self)
        self._world.tell(f"{self.host} is registered")

    def _bring_into_cache(self, pieces: Sequence[FilePiece], done: Callable[[OSError | None], None]) -> None:
        self.cold_reads += 1
        self.process.call_later(self._cache_rng.randint(1, _MOST_COLD_READ_MS), lambda: done(None))

    def stop(self) -> None:
        """In good order, with controlled shutdown."""
        if not self.is_running or self.is_stopping or self.member is None or self.node is None:
            return
        self.is_stopping = True
        life = self.lives
        self.member.stop(lambda: self._stopped(life))

    def _stopped(self, life: int) -> None:
        if life != self.lives or not self.is_running:
            return
        if self._is_flushing:
            self.process.call_later(1, lambda: self._stopped(life))
            return
        node, parts, zookeeper = self.node, self.parts, self.zookeeper
        assert node is not None
        assert parts is not None
        assert zookeeper is not None
        parts.close()
        try:
            node.storage.log_directories.close(clean=True, high_watermarks=node.partitions.high_watermarks())
        except OSError as error:
            self._world.tell(f"{self.host} cannot bring its logs to the disk: {error.strerror}")
        zookeeper.close()
        self._end()
        self._world.tell(f"{self.host} has stopped")

    def kill(self) -> None:
        """kill -9: what was written stays."""
        if self.is_running:
            self.dies()
            if self.zookeeper is not None:
                self.zookeeper.kill()
            self._end()

    def cut_power(self) -> None:
        """What was not synced may be gone; the network hears nothing of it until it is back."""
        self.kill()
        self.files = self.files.after_power_cut(self._world.rng.getrandbits(32))

    def cut_power_and_lose_all(self) -> None:
        """The same, and nothing is left of what was not synced."""
        self.kill()
        self.files = self.files.as_synced()

    def _end(self) -> None:
        self.is_running = False
        self.process.kill()
        self._network.stop_listening(self.host)
        self.files = self.files.restarted()
        self.node = None
        self.member = None
        self.zookeeper = None
        self.parts = None
        self._dispatcher = None

    def _fail(self, reason: str) -> None:
        """The broker ends itself, and whoever watches over it starts it again."""
        self._world.tell(f"{self.host} gives up: {reason}")
        self.kill()
        self._world.call_later(_RESTART_AFTER_FAILURE_MS, self.start_if_not_running)

    def start_if_not_running(self) -> None:
        if not self.is_running:
            self.start()

    def _storage_failed(self, error: OSError) -> None:
        self._fail(f"its disk failed: {error}")
        raise Killed

    # What befalls it

    def pause(self) -> None:
        if self.is_running and not self.process.is_paused:
            self.process.pause()
            if self.zookeeper is not None:
                self.zookeeper.pause()

    def resume(self) -> None:
        if self.process.is_paused:
            self.process.resume()
            if self.zookeeper is not None:
                self.zookeeper.resume()

    def cut_from_zookeeper(self) -> None:
        self._is_cut_from_zookeeper = True
        if self.zookeeper is not None:
            self.zookeeper.cut()

    def heal_zookeeper(self) -> None:
        self._is_cut_from_zookeeper = False
        if self.zookeeper is not None:
            self.zookeeper.heal()

    def set_clock(self, skew_ms: int) -> None:
        self.skew_ms = self.process.skew_ms = skew_ms

    # What highwater.broker.server does for it

    def _request_flush(self, partition: Partition) -> None:
        self._wanted_flushes.add(partition)
        if not self._is_flushing:
            self._is_flushing = True
            self.process.call_soon(self._flush)

    def _flush(self) -> None:
        wanted, self._wanted_flushes = sorted(self._wanted_flushes, key=lambda p: (p.topic, p.index)), set()
        if not wanted:
            self._is_flushing = False
            return
        tickets = [(partition, partition.log.begin_flush()) for partition in wanted if not partition.has_ended]

        def synced() -> None:
            for partition, ticket in tickets:
                if ticket is not None:
                    try:
                        ticket.sync()
                    except OSError as error:
                        if not partition.has_ended:
                            self._storage_failed(error)
                        continue
                    finally:
                        partition.log.complete_flush(ticket)
                    if not ticket.is_synced:
                        continue
                partition.flushed()
            self._flush()

        self.process.call_later(self.sync_delay_ms, synced)

    def _housekeeping(self) -> None:
        node = self.node
        assert node is not None
        for partition in list(node.partitions.live()):
            if partition.log.flush_is_due(node.clock.now_ms()):
                self._request_flush(partition)
        if node.partitions.take_purge():
            for directory in node.storage.log_directories.live:
                self._try(directory.purge_deleted)
        self.process.call_later(_HOUSEKEEPING_MS, self._housekeeping)

    def _checkpoint(self) -> None:
        self._try(self._write_checkpoints)
        self.process.call_later(_CHECKPOINT_MS, self._checkpoint)

    def _write_checkpoints(self) -> None:
        assert self.node is not None
        high_watermarks = self.node.partitions.high_watermarks()
        for directory in self.node.storage.log_directories.live:
            directory.checkpoint(high_watermarks)

    def _checkpoint_for(self, done: Callable[[OSError | None], None]) -> None:
        try:
            self._write_checkpoints()
        except OSError as error:
            done(error)
        else:
            done(None)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                self._storage_failed(error)
