"""The lab itself: its hosts are what they claim to be, reach nothing beyond them, and leave nothing.

Run by `python -m tests.lab test`, as root, on a lab of its own; `make test` does not collect it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.lab import groups, hosts, making
from tests.lab.record import Node, Record, Store
from tests.lab.telling import tell
from tests.waiting import wait_until

NAME = "self"
ROOT = Path(__file__).parent.parent.parent
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def store() -> Store:
    return Store.of(NAME)


@pytest.fixture(scope="module")
def record(store: Store) -> Iterator[Record]:
    yield making.up(store, 2, tell)
    making.down(store)
    assert residue(NAME) == []


@pytest.fixture
def node(record: Record) -> Node:
    return record.nodes[0]


def on(store: Store, node: Node, command: str) -> str:
    """What a command of root's printed on a host."""
    done = hosts.run(store, node, f"sudo sh -ec {quoted(command)}")
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout.strip()


def refused(store: Store, node: Node, command: str) -> str:
    """What a command of root's complained of on a host."""
    done = hosts.run(store, node, f"sudo sh -ec {quoted(command)}")
    assert done.returncode not in (0, 255), f"{command} was not refused"
    return (done.stderr + done.stdout).strip()


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def residue(name: str) -> list[str]:
    """All that there is on this machine of a lab, by other means than the lab's own."""
    where = str(Path.home() / ".cache/highwater/lab" / name)
    asked = {
        ("ip", "-o", "link"): (f"hw-{name}:", f"vb-{name}-"),
        ("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"): (f"{where}/",),
        ("findmnt", "--raw", "--noheadings"): (f"{where}/",),
        ("ps", "-eo", "pid,args"): (f"{where}/", f"--machine={name}-"),
        ("find", "/sys/fs/cgroup", "-type", "d", "-path", f"*highwater-lab/{name}*"): ("/",),
        ("find", "/run/systemd/nspawn", "-mindepth", "2"): (f"/{name}-", f"{where}/"),
    }
    found = []
    for command, signs in asked.items():
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        found += [line for line in printed.splitlines() if any(sign in line for sign in signs)]
    return found + throttled_for_nobody() + ([where] if Path(where).exists() else [])


def throttled_for_nobody() -> list[str]:
    """Limits of loop devices that are no disks any more, of whatever lab."""
    attached = subprocess.run(
        ["losetup", "--list", "--noheadings", "--output", "MAJ:MIN"], capture_output=True, text=True, check=True
    ).stdout.split()
    limits = [
        line
        for path in Path("/sys/fs/cgroup").glob("*/blkio.throttle.*_device")
        for line in path.read_text().splitlines()
    ]
    return [line for line in limits if line.startswith("7:") and line.split()[0] not in attached]


def test_hosts_are_up_and_reached_by_their_own_keys(store: Store, record: Record) -> None:
    for node in record.nodes:
        assert on(store, node, "systemctl is-system-running") == "running"
        assert on(store, node, "hostname; systemctl list-units --failed --no-legend") == node.name
        other = next(other for other in record.nodes if other != node)
        on(store, node, f"ping -c 1 -W 5 {other.name}")
    machine_ids = {on(store, node, "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub") for node in record.nodes}
    assert len(machine_ids) == len(record.nodes)


def test_a_second_up_finds_it_there(store: Store, record: Record) -> None:
    before = groups.processes(NAME)
    lines: list[str] = []
    assert making.up(store, 2, lines.append) == record
    assert lines == ["the lab self is up"]
    assert before & groups.processes(NAME)


def test_each_host_has_two_blank_disks_of_its_own(store: Store, record: Record) -> None:
    seen = set()
    for node in record.nodes:
        for disk, rotational in (("hdd", "1"), ("ssd", "0")):
            device = on(store, node, f"readlink -f /dev/disk/by-id/lab-{disk}")
            seen.add(device)
            name = device.removeprefix("/dev/")
            assert on(store, node, f"cat /sys/block/{name}/queue/rotational") == rotational
            assert on(store, node, f"blockdev --getsize64 {device}") == str(4 << 30)
            assert refused(store, node, f"blkid -p {device}") == ""
            assert on(store, node, f"lsblk --noheadings --nodeps --output NAME {device}") == name
    assert len(seen) == 2 * len(record.nodes)


def test_a_disk_is_mounted_after_a_reboot_as_on_any_host(store: Store, record: Record) -> None:
    node = record.nodes[1]
    on(store, node, "mkfs.ext4 -q /dev/disk/by-id/lab-ssd && mkdir -p /data/ssd1")
    on(
        store,
        node,
        'echo "UUID=$(blkid -s UUID -o value /dev/disk/by-id/lab-ssd) /data/ssd1 ext4 noatime 0 2" >> /etc/fstab',
    )
    on(store, node, "mount /data/ssd1 && echo kept > /data/ssd1/file && umount /data/ssd1")
    booted = on(store, node, "systemctl show --property UserspaceTimestamp")
    hosts.run(store, node, "sudo systemctl reboot")

    def has_booted_again() -> bool:
        done = hosts.run(store, node, "systemctl show --property UserspaceTimestamp", 10.0)
        return done.returncode == 0 and done.stdout.strip() != booted

    wait_until(has_booted_again, "its next boot", WITHIN_S)
    assert hosts.wait_until_ready(store, node) == "running"
    assert on(store, node, "cat /data/ssd1/file; findmnt --noheadings --output OPTIONS /data/ssd1").startswith(
        "kept\nrw,noatime"
    )
    on(store, node, "umount /data/ssd1 && sed -i /ssd1/d /etc/fstab && wipefs --all --quiet /dev/disk/by-id/lab-ssd")


# None of them would change anything if it were not refused.
@pytest.mark.parametrize(
    "command",
    [
        "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness",
        "cat /proc/sys/fs/file-max > /proc/sys/fs/file-max",
        "echo none > /sys/block/$(basename $(readlink -f /dev/disk/by-id/lab-hdd))/queue/scheduler",
        'python3 -c "import time; time.clock_settime(time.CLOCK_REALTIME, time.time())"',
        "mknod /tmp/disk b 254 0",
        "ls /dev/vda",
        "ls /dev/sda",
        "losetup --find --show /etc/hostname",
        "ip route get 192.0.2.1",
    ],
)
def test_a_host_does_not_reach_beyond_itself(store: Store, node: Node, command: str) -> None:
    assert refused(store, node, command)


def test_a_host_switches_no_swap_of_the_machine_on_or_off(store: Store, node: Node) -> None:
    before = Path("/proc/swaps").read_text()
    on(store, node, "mkswap -q /dev/disk/by-id/lab-ssd")
    for command in ("swapon /dev/disk/by-id/lab-ssd", "swapoff /dev/disk/by-id/lab-ssd"):
        said = refused(store, node, f"{command} || exit 1")
        assert "Operation not permitted" in said or "Not superuser" in said
    on(store, node, "wipefs --all --quiet /dev/disk/by-id/lab-ssd")
    assert Path("/proc/swaps").read_text() == before


def test_a_host_has_network_settings_of_its_own(store: Store, record: Record) -> None:
    first, second = record.nodes
    name = "/proc/sys/net/ipv4/tcp_slow_start_after_idle"
    before = (Path(name).read_text().strip(), on(store, second, f"cat {name}"))
    on(store, first, f"echo 0 > {name}")
    assert on(store, first, f"cat {name}") == "0"
    assert before == (Path(name).read_text().strip(), on(store, second, f"cat {name}"))


def test_packages_come_through_the_proxy(store: Store, record: Record) -> None:
    for node in record.nodes:
        on(store, node, "DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends xfsprogs")


def test_a_host_that_was_switched_off_is_booted_again_with_what_it_had(store: Store, record: Record) -> None:
    node = record.nodes[0]
    on(store, node, "echo kept > /root/file")
    hosts.run(store, node, "sudo systemctl poweroff")
    wait_until(lambda: not hosts.is_up(node), "its end", WITHIN_S)
    making.up(store, 2, tell)
    assert on(store, node, "cat /root/file") == "kept"


def test_two_labs_stand_side_by_side(store: Store, record: Record) -> None:
    other = Store.of("self2")
    try:
        beside = making.up(other, 1, tell)
        assert beside.subnet != record.subnet
        assert on(other, beside.nodes[0], "systemctl is-system-running") == "running"
    finally:
        making.down(other)
    assert residue("self2") == []
    assert on(store, record.nodes[0], "systemctl is-system-running") == "running"


@pytest.mark.parametrize("after_s", [0.05, 0.3, 0.6, 1.0, 1.5, 2.5])
def test_an_up_that_was_killed_leaves_nothing_after_down(after_s: float) -> None:
    command = [sys.executable, "-m", "tests.lab", "up", "--name", "self3", "--hosts", "2"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after_s)
    process.kill()
    process.wait()
    making.down(Store.of("self3"))
    assert residue("self3") == []


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.4])
def test_a_down_that_was_killed_is_gone_on_with_by_the_next(after_s: float) -> None:
    store = Store.of("self3")
    making.up(store, 1, tell)
    process = get_context("fork").Process(target=making.down, args=(store,))
    process.start()
    time.sleep(after_s)
    process.kill()
    process.join()
    making.down(store)
    assert residue("self3") == []
