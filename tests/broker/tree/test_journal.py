"""The journal of a tree after kills, power cuts and damage: nothing answered is lost in silence."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import pytest

from highwater.broker.cluster.zookeeper import Create, Set
from highwater.broker.settings.store import MetadataError
from highwater.broker.tree.changes import Change, encode_change
from highwater.broker.tree.journal import Journal
from highwater.broker.tree.snapshot import encode_tree
from highwater.broker.tree.tree import Tree
from tests.broker.log.simulated_files import Killed, SimulatedFiles

HOME = Path("/home")
DIRECTORY = HOME / "metadata"
SNAPSHOT_FROM_BYTES = 600


def disk() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directory(HOME)
    files.sync_directory(Path("/"))
    return files


class Life:
    """One run of a process with a tree; `trees` has what the tree was like after each change that was made durable."""

    def __init__(self, files: SimulatedFiles, snapshot_from_bytes: int = SNAPSHOT_FROM_BYTES) -> None:
        self.journal = Journal(files, DIRECTORY, snapshot_from_bytes)
        self.tree = self.journal.tree
        self.changes: list[Change] = []
        self.tree.recorded = self.changes.append
        self.begun = [encode_tree(self.tree)]
        """Of all changes, also of one that is being written."""
        self.durable = self.begun[0]

    def live(self, count: int) -> None:
        for number in range(count):
            self.do(number)

    def do(self, number: int) -> None:
        if number % 3 == 0:
            self.tree.execute(0, Create("/n", is_sequential=True), number)
        elif number % 5 == 1:
            session_id = self.tree.open_session(b"%d" % number, 1000, number)
            self.tree.execute(session_id, Create(f"/e{number}", is_ephemeral=True), number)
        else:
            self.tree.execute(0, Set("/", b"x" * (number % 40)), number)
        self.begun.append(encode_tree(self.tree))
        payload = b"".join(map(encode_change, self.changes))
        self.changes.clear()
        snapshot = encode_tree(self.tree) if self.journal.wants_snapshot else None
        self.journal.append(payload)
        self.durable = self.begun[-1]
        if snapshot is not None:
            self.journal.begin_anew(snapshot, self.tree.zxid)


def recovered(files: SimulatedFiles) -> Tree:
    journal = Journal(files, DIRECTORY, SNAPSHOT_FROM_BYTES)
    tree = journal.tree
    journal.close()
    assert files.open_descriptors == 0
    return tree


def operations() -> Iterator[int]:
    files = disk()
    first = files.changes_made
    Life(files).live(40)
    return iter(range(first, files.changes_made + 1))


@pytest.mark.parametrize("power_is_cut", [False, True])
def test_what_was_answered_outlives_a_kill_at_every_operation(power_is_cut: bool) -> None:
    for at in operations():
        files = disk()
        files.kill_at = at
        durable, begun = encode_tree(Tree()), [encode_tree(Tree())]
        with suppress(Killed):
            life = Life(files)
            durable, begun = life.durable, life.begun
            with suppress(Killed):
                life.live(40)
            durable, begun = life.durable, life.begun
        survivors = [files.after_power_cut(seed) for seed in range(4)] if power_is_cut else [files.restarted()]
        for survivor in survivors:
            tree = recovered(survivor)
            found = encode_tree(tree)
            assert found in begun[begun.index(durable) :], f"killed at operation {at}"
            # And again, after a life that goes on from there.
            second = Life(survivor.restarted())
            second.live(3)
            assert encode_tree(recovered(survivor.restarted())) == second.durable


def test_a_journal_that_ends_at_any_byte_is_read_up_to_its_last_whole_change() -> None:
    files = disk()
    life = Life(files, 1 << 30)
    ends = {life.journal.size_bytes: life.durable}
    for number in range(20):
        life.do(number)
        ends[life.journal.size_bytes] = life.durable
    path = DIRECTORY / f"journal.{0:016x}"
    content = files.read(path)
    for size in range(len(content) + 1):
        for rest in (b"", bytes(7), b"\xff" * 30):
            cut, damaged = deepcopy(files.restarted()), content[:size] + rest
            cut.overwrite(path, damaged)
            whole = max(end for end in ends if damaged[:end] == content[:end])
            assert encode_tree(recovered(cut)) == ends[whole], size
            assert len(cut.read(path)) == whole


def test_damage_in_the_middle_is_told_and_nothing_is_cut_off() -> None:
    files = disk()
    Life(files, 1 << 30).live(20)
    path = DIRECTORY / f"journal.{0:016x}"
    content = files.read(path)
    rng = random.Random(3)
    for _ in range(200):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content) - 100)] ^= 1 << rng.randrange(8)
        copy = deepcopy(files.restarted())
        copy.overwrite(path, bytes(damaged))
        with pytest.raises(MetadataError, match=rf"^{path} is damaged .*; restore it from a copy$"):
            recovered(copy)
        assert copy.read(path) == damaged
        assert copy.open_descriptors == 0


def test_a_damaged_or_missing_snapshot_is_told() -> None:
    files = disk()
    Life(files, 1 << 30).live(5)
    path = DIRECTORY / f"snapshot.{0:016x}"
    content = files.read(path)
    for size in range(len(content)):
        copy = deepcopy(files.restarted())
        copy.overwrite(path, content[:size])
        with pytest.raises(MetadataError, match=rf"^{path} is damaged: its checksum is wrong; restore it from a copy$"):
            recovered(copy)
    files.remove(path)
    with pytest.raises(MetadataError, match=rf"^{path} is missing; restore it from a copy$"):
        recovered(files.restarted())


def test_snapshots_bound_the_files() -> None:
    files = disk()
    life = Life(files)
    sizes = []
    for number in range(300):
        life.do(number % 2 + 1)
        sizes.append(sum(entry.size_bytes for entry in files.list(DIRECTORY)))
        assert len(files.list(DIRECTORY)) == 2
    snapshot_bytes = len(encode_tree(life.tree))
    assert max(sizes) < 5 * snapshot_bytes + 2 * SNAPSHOT_FROM_BYTES


def test_a_full_disk_takes_nothing_and_the_same_changes_can_be_tried_again() -> None:
    for at in range(6):
        files = disk()
        life = Life(files, 1 << 30)
        life.live(5)
        files.fail_at = {files.changes_made + at: errno.ENOSPC}
        life.tree.execute(0, Create("/late"), 1)
        payload = b"".join(map(encode_change, life.changes))
        with suppress(OSError):
            life.journal.append(payload)
        if life.tree.zxid and recovered_zxid(files) != life.tree.zxid:
            life.journal.append(payload)
        assert encode_tree(recovered(files.restarted())) == encode_tree(life.tree)


def recovered_zxid(files: SimulatedFiles) -> int:
    return recovered(deepcopy(files.restarted())).zxid


def test_a_snapshot_that_finds_no_room_leaves_the_journal_as_it_was() -> None:
    files = disk()
    life = Life(files, 1 << 30)
    life.live(10)
    total = files.changes_made
    life.journal.begin_anew(encode_tree(life.tree), life.tree.zxid)
    for at in range(files.changes_made - total):
        files = disk()
        life = Life(files, 1 << 30)
        life.live(10)
        assert files.changes_made == total
        files.fail_at = {total + at: errno.ENOSPC}
        try:
            life.journal.begin_anew(encode_tree(life.tree), life.tree.zxid)
        except OSError:
            if life.journal.has_snapshot(life.tree.zxid):
                continue  # the process ends, as it cannot know with what a start would begin
        life.live(3)
        assert encode_tree(recovered(files.restarted())) == life.durable, at
