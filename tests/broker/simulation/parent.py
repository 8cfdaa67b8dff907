"""A simulated parent of broker processes: the real home, journal and tree, on a simulated disk, through all its lives.

It stands where ZooKeeper stands in other simulated clusters (`Ensemble`). The processes speak ZooKeeper's protocol with
it, die with it, and are started again by it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from highwater.broker.cluster.zookeeper import Create, Request, Session, Set, Stat, WatchEvent, ZooKeeperError
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import DISK_IS_FULL
from highwater.broker.server.process_home import JOURNAL_DIRECTORY, ProcessHome
from highwater.broker.tree.journal import Journal
from highwater.broker.tree.serving import PASSWORD_BYTES, TICK_MS, Serving
from highwater.broker.tree.snapshot import encode_tree
from highwater.broker.tree.tree import Tree
from tests.broker.log.simulated_files import SimulatedFiles
from tests.broker.simulation.checker import Violation
from tests.broker.simulation.link import Delay
from tests.broker.simulation.tree_client import TreeClient
from tests.broker.simulation.world import Process, World

BASE_ID: Final = 1
_HOME: Final = Path("/home")
_SNAPSHOT_FROM_BYTES: Final = 2000
"""Small, so that a history sees several snapshots."""
_FULL_DISK_PAUSE_MS: Final = 1000
_RESTART_PAUSES_MS: Final = (0, 200, 400, 1000)


class ParentLife:
    """One run of the parent."""

    def __init__(self, parent: Parent, count: int) -> None:
        """Raises LogDirectoryError when so many processes are too few."""
        self.parent = parent
        self.world = parent.world
        self.count = count
        self.process = Process(self.world, "parent")
        self.process.on_killed = parent.kill
        home = ProcessHome(parent.files, [_HOME], BASE_ID)
        home.open_journal(count).close()
        self.journal = Journal(parent.files, _HOME / JOURNAL_DIRECTORY, _SNAPSHOT_FROM_BYTES)
        rng = Random(self.world.rng.getrandbits(32))
        self.serving = Serving(self.journal.tree, self.process.now_ms, lambda: rng.randbytes(PASSWORD_BYTES))
        if self.tree.zxid < parent.told_zxid:
            raise Violation(f"the tree ends at {self.tree.zxid}, and {parent.told_zxid} was told to a process")
        self._is_writing = False
        self.serving.has_changes = self._changed
        fired = self.tree.fired

        def fire(path: str, event: WatchEvent) -> None:
            if event is not WatchEvent.CHILDREN:
                node = self.tree.nodes.get(path)
                parent.changed(path, None if node is None else node.data)
            fired(path, event)

        self.tree.fired = fire

    @property
    def tree(self) -> Tree:
        return self.serving.tree

    def begin(self) -> None:
        self.serving.end_all_sessions()
        self._tick()

    def _tick(self) -> None:
        self.serving.tick(self.world.now_ms)
        self.process.call_later(TICK_MS, self._tick)

    # For the processes

    def group_of(self, name: str) -> int:
        return int(name.removeprefix("broker")) - BASE_ID

    def process_ended(self, name: str) -> None:
        self.serving.end_sessions_of(self.group_of(name))
        self.parent.process_ended(self, name)

    def told(self, zxid: int) -> None:
        """See `tree_client.Server`."""
        self.parent.told_zxid = max(self.parent.told_zxid, zxid)

    # The journal, as highwater.broker.server.tree_server keeps it

    def _changed(self) -> None:
        if not self._is_writing:
            self._is_writing = True
            self.process.call_soon(self._write)

    def _write(self) -> None:
        payload, zxid = self.serving.take_changes()
        if not payload:
            self._is_writing = False
            return
        snapshot = encode_tree(self.tree) if self.journal.wants_snapshot else None
        self._append(payload, zxid, snapshot)

    def _append(self, payload: bytes, zxid: int, snapshot: bytes | None) -> None:
        try:
            self.journal.append(payload)
        except OSError as error:
            if error.errno not in DISK_IS_FULL:
                raise
            self.process.call_later(_FULL_DISK_PAUSE_MS, lambda: self._append(payload, zxid, snapshot))
            return
        # A kill from now on finds the change in the journal, though nobody was told.
        self.process.call_later(self.parent.sync_delay_ms, lambda: self._appended(zxid, snapshot))

    def _appended(self, zxid: int, snapshot: bytes | None) -> None:
        self.serving.durable(zxid)
        if snapshot is not None:
            try:
                self.journal.begin_anew(snapshot, zxid)
            except OSError as error:
                if error.errno not in DISK_IS_FULL or self.journal.has_snapshot(zxid):
                    self.parent.tell(f"the journal cannot go on: {error}")
                    self.parent.kill()
                    return
        self._write()


class Parent:
    """Has what a cluster asks of its `Ensemble`."""

    def __init__(self, world: World, count: int) -> None:
        self.world = world
        self.files = SimulatedFiles()
        self.count = count
        """How many processes there are, or will be when it starts again."""
        self.sync_delay_ms = self.usual_sync_delay_ms = 1
        self.is_stopping = False
        """In good order: it starts no process any more."""
        self.told_zxid = 0
        self.lives = 0
        self.life: ParentLife | None = None
        self.changed: Callable[[str, bytes | None], None] = lambda path, data: None
        self.has_begun: Callable[[], None] = lambda: None
        """Called when it serves: the processes are to be started."""
        self.has_ended: Callable[[], None] = lambda: None
        """Called when it died: so do the processes."""
        self.start_process: Callable[[str], None] = lambda name: None
        self._unheard: list[tuple[int, str, bytes]] = []
        """What administrators wrote, with its transaction: they write it again if it was not on the disk."""

    def tell(self, text: str) -> None:
        self.world.tell(text)

    @property
    def is_up(self) -> bool:
        return self.life is not None and not self.life.process.is_paused and not self.is_stopping

    # Its lives

    def start(self, count: int | None = None) -> None:
        """Nothing happens while it runs. With a count, so many processes from now on, unless that leaves replicas."""
        if self.life is not None:
            return
        wanted = self.count if count is None else count
        try:
            life = ParentLife(self, wanted)
        except LogDirectoryError as error:
            self.tell(f"{wanted} processes are refused: {error}")
            self.files = self.files.restarted()
            life = ParentLife(self, self.count)
            wanted = self.count
        self.count = wanted
        self.life = life
        self.lives += 1
        self.is_stopping = False
        self.tell(f"the parent starts with {wanted} processes")
        life.process.call_soon(lambda: self._begin(life))

    def _begin(self, life: ParentLife) -> None:
        unheard, self._unheard = self._unheard, []
        recovered_zxid = life.tree.zxid
        life.begin()
        self.has_begun()
        for zxid, path, data in unheard:
            if zxid > recovered_zxid:
                self.make(path, data)

    def kill(self) -> None:
        """kill -9, and the kernel ends the processes with it."""
        life, self.life = self.life, None
        if life is not None:
            life.process.kill()
            self.files = self.files.restarted()
            self.has_ended()

    def cut_power(self) -> None:
        self.kill()
        self.files = self.files.after_power_cut(self.world.rng.getrandbits(32))

    def pause(self) -> None:
        if self.life is not None:
            self.life.process.pause()

    def resume(self) -> None:
        if self.life is not None and self.life.process.is_paused:
            self.life.process.resume()

    def process_ended(self, life: ParentLife, name: str) -> None:
        if self.is_stopping:
            return
        pause_ms = self.world.rng.choice(_RESTART_PAUSES_MS)
        life.process.call_later(pause_ms, lambda: None if self.is_stopping else self.start_process(name))

    # What a cluster asks of its ensemble

    def client(
        self,
        session: Session,
        *,
        scheduler: Process,
        session_timeout_ms: int,
        delay_ms: Delay,
        rng: Random,
    ) -> TreeClient:
        assert self.life is not None, "processes die with their parent"
        return TreeClient(self.life, session, scheduler, session_timeout_ms, delay_ms)

    def do(self, request: Request) -> Any:
        assert self.life is not None
        return self.life.tree.execute(0, request, self.life.process.now_ms())

    def make(self, path: str, data: bytes = b"") -> None:
        """Create a node with its parents, or set it. Whoever does so tries again when the parent dies before."""
        parts = path.split("/")[1:]
        for depth in range(1, len(parts)):
            self.do(Create("/" + "/".join(parts[:depth])))
        if isinstance(self.do(Create(path, data)), ZooKeeperError):
            self.do(Set(path, data))
        assert self.life is not None
        self._unheard.append((self.life.tree.zxid, path, data))

    def data(self, path: str) -> bytes | None:
        node = None if self.life is None else self.life.tree.nodes.get(path)
        return None if node is None else node.data

    def stat(self, path: str) -> Stat | None:
        node = None if self.life is None else self.life.tree.nodes.get(path)
        return None if node is None else node.stat

    def children(self, path: str) -> list[str]:
        node = None if self.life is None else self.life.tree.nodes.get(path)
        return [] if node is None else sorted(node.children)

    def expire(self, session_id: int) -> None:
        if self.is_up and self.life is not None and session_id in self.life.tree.sessions:
            self.life.serving.end_session(session_id)
