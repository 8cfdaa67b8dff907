"""Whatever mounts and files a host has, each way there and back leaves the host as it was.

Apply and rollback, a printed script and its undo, the playbooks. What is refused has changed nothing, and all ways
refuse the same hosts.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from highwater.tuning.boot_files.precedence import simulate_boot
from highwater.tuning.hostfiles import HostFiles
from tests.playbooks.private_host import loop_devices, on_private_host, why_not
from tests.tuning.round_trip import (
    FSTAB,
    SYSTEMD_SYSCTL,
    Way,
    World,
    changed,
    enter,
    go,
    go_back,
    host_of,
    mountable,
    snapshot,
    swappiness_after_boot,
)

WAYS: tuple[Way, ...] = ("apply", "script", "playbook")
DEVICE, UUID = b"<device>", b"<uuid>"
_ATIME = st.sampled_from(["relatime", "noatime", "strictatime"])
_FLAGS = st.builds(
    lambda read_only, others, atime: (read_only, *sorted(others), atime),
    st.sampled_from(["rw", "ro"]),
    st.sets(st.sampled_from(["nosuid", "nodev", "noexec", "nodiratime"]), max_size=2),
    _ATIME,
)
_DISK_LINES = (
    b"<device> /mnt/disk ext4 defaults 0 2",
    b"<device>\t/mnt/disk/  ext4",
    b"UUID=<uuid> //mnt/disk ext4 commit=7,nodev 0 2 # data",
    b'UUID="<uuid>" /mnt/disk auto rw,relatime 0 0',
    b"/dev/null /mnt/disk ext4 defaults 0 2",
)
_DATA_LINES = (
    b"/mnt/disk/kafka /mnt/data none bind 0 0",
    b"/mnt/disk/kafka /mnt/data/ none ro,bind",
    b"overlay /mnt/data overlay lowerdir=/mnt/disk/kafka:/mnt/other 0 0",
    b"<device> /mnt/data ext4 defaults 0 2",
)
_FOREIGN_LINES = (
    *(b"# caf\xe9 \xff", b"# caf\xc3\xa9", b"", b" \t", b"short line", b"tmpfs /tmp tmpfs defaults 0 0"),
    *(b"proc\t/proc  proc\tdefaults 0 0", b"/dev/sr0 /media\\040disk iso9660 noauto,ro 0 0\r", b"  #indented"),
    *(b"server:/x /m\xe9 nfs noauto 0 0", b"none none swap sw,noauto 0 0"),
)


def _table(disk: bytes | None, data: bytes | None, foreign: list[tuple[int, bytes]], end: bytes) -> bytes:
    lines = [line for line in (disk, data) if line is not None]
    for place, line in foreign:
        lines.insert(place % (len(lines) + 1), line)
    return b"\n".join(lines) + (end if lines else b"")


_TABLES = st.builds(
    _table,
    st.sampled_from([*_DISK_LINES, None]),
    st.sampled_from([*_DATA_LINES, None]),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(_FOREIGN_LINES)), max_size=4),
    st.sampled_from([b"\n", b"", b"\n\n"]),
)
# Most files are plain: what is refused at once shows little.
_FORMS = st.sampled_from(["file"] * 6 + ["link", "link to nowhere", "second name", "missing"])
_SYSCTLS = st.lists(
    st.sampled_from([b"# f\xfcr uns", b"vm.swappiness = 10", b"-vm.swappiness", b"kernel.x=1", b"vm/nothing = 2\r"]),
    max_size=3,
).map(b"\n".join)
_KNOBS = st.sampled_from(
    [
        *(["mount.noatime"], ["mount.noatime", "vm.swappiness"], ["mount.noatime", "mount.commit"], ["vm.swappiness"]),
        *(["mount.commit", "mount.lazytime"], ["mount.noatime", "mount.commit", "mount.lazytime", "vm.swappiness"]),
        *(["mount.fstab_source"], ["mount.noatime", "mount.fstab_source", "vm.swappiness"]),
    ]
)
_WORLDS = st.builds(
    World,
    disk_flags=_FLAGS,
    filesystem_options=st.sets(st.sampled_from(["commit=7", "lazytime", "nodelalloc", "ro"]), max_size=2)
    .map(sorted)
    .map(tuple),
    shown=st.sampled_from(["folder", "bind", "bind", "layers"]),
    data_flags=_FLAGS,
    fstab=_TABLES,
    form=_FORMS,
    ours=st.none() | _SYSCTLS,
    theirs=_SYSCTLS,
    knobs=_KNOBS.map(frozenset),
)


def _check(world: World, device: str, uuid: str, folder: Path) -> dict[Way, str]:
    """Go each way there and back. Returns the refusal of each way, empty for one that was gone."""
    text = world.fstab.replace(DEVICE, device.encode()).replace(UUID, uuid.encode())
    world = World(**{**vars(world), "fstab": text})
    refusals: dict[Way, str] = {}
    with host_of(world, device):
        before, could_be_mounted = snapshot(), mountable()
        for way in WAYS:
            refusals[way] = go(way, world, folder)
            if refusals[way]:
                assert not (left := changed(before)), f"{way} was refused, and changed {left}"
                continue
            _check_there(world, before, could_be_mounted, way)
            go_back(way, world, folder)
            assert not (left := changed(before)), f"{way} left {left}"
    assert len(set(refusals.values())) == 1, refusals
    return refusals


def _check_there(world: World, before: dict[str, object], could_be_mounted: dict[Path, bool], way: Way) -> None:
    after, can_be_mounted = snapshot(), mountable()
    for place, could in could_be_mounted.items():
        assert can_be_mounted[place] or not could, f"{way}: {place} cannot be mounted any more"
    for name, state in before.items():
        if name.startswith("mount "):
            for layer in (2, 3):
                was, now = (found[layer] & {"ro", "rw"} for found in (state, after[name]))  # type: ignore[index]
                assert was == now, f"{way}: {name} is {now} and was {was}"
    if "vm.swappiness" in world.knobs and SYSTEMD_SYSCTL.exists():
        winner = simulate_boot(HostFiles()).winner("vm.swappiness")
        assert swappiness_after_boot() == (winner.value if winner else None), f"{way}: {winner}"
    lines, now_lines = (_lines_of(state.get(str(FSTAB))) for state in (before, after))
    assert len(lines) == len(now_lines)
    for line, now_line in zip(lines, now_lines, strict=True):
        assert line == now_line or b"/mnt/" in line, f"{way}: {line!r} became {now_line!r}"


def _lines_of(state: object) -> list[bytes]:
    """Lines of a file as `snapshot` has it; none of a link or of a file that is not there."""
    content = state[-1] if isinstance(state, tuple) else None
    return content.split(b"\n") if isinstance(content, bytes) else []


def try_worlds(device: str, folder: Path) -> None:
    """In a process with mounts of its own."""
    uuid = enter(device)

    # A world takes seconds, so that smaller ones than the first that fails are not looked for.
    @settings(
        max_examples=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(world=_WORLDS)
    def leaves_it_as_it_was(world: World) -> None:
        _check(world, device, uuid, folder)

    leaves_it_as_it_was()


needs_a_host = pytest.mark.skipif(why_not() is not None, reason=f"no private host: {why_not()}")
# A read-only mount of a folder, and a file with a remark in Latin-1.
_ONE = World(
    disk_flags=("rw", "nosuid", "relatime"),
    filesystem_options=("commit=7",),
    shown="bind",
    data_flags=("ro", "nodev", "relatime"),
    fstab=b"# caf\xe9\n<device> /mnt/disk/ ext4\n/mnt/disk/kafka /mnt/data none bind,ro 0 0",
    form="file",
    ours=b"# theirs too\nkernel.x = 1\n",
    theirs=b"vm.swappiness = 10",
    knobs=frozenset({"mount.noatime", "mount.commit", "vm.swappiness"}),
)


def try_one(device: str, folder: Path) -> None:
    uuid = enter(device)
    assert set(_check(_ONE, device, uuid, folder).values()) == {""}, "it is not refused"


@needs_a_host
def test_a_read_only_mount_there_and_back(disk_path: Path) -> None:
    """A private host has no memory of others, as /dev/shm."""
    with loop_devices(disk_path, 1, size_bytes=16 << 20) as (device,):
        on_private_host(disk_path, partial(try_one, device, disk_path))


@needs_a_host
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_way_there_and_back_leaves_the_host_as_it_was(tmp_path: Path) -> None:
    with loop_devices(tmp_path, 1, size_bytes=16 << 20) as (device,):
        on_private_host(tmp_path, partial(try_worlds, device, tmp_path))
