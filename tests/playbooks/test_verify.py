"""How verify.yml judges: hosts by what their own commands print, clusters by a real broker's answers to librdkafka."""

from __future__ import annotations

import importlib.util
import os
import socketserver
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.broker.running import running_broker
from tests.serving import ANY_PORT, serving

LIBRARY = Path(__file__).parents[2] / "playbooks/library"
DISK = {"device": "/dev/sdb", "mount_point": "/data/ssd1/"}
LIVE = "findmnt --noheadings --output SOURCE,FSTYPE,OPTIONS --mountpoint /data/ssd1"
AT_BOOT = "findmnt --fstab --noheadings --output SOURCE --mountpoint /data/ssd1"
BLKID = "blkid --output value --match-tag UUID"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, LIBRARY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


highwater_verify = module("highwater_verify")
highwater_round_trip = module("highwater_round_trip")


class FakeHost:
    """Prints what it is told to by the beginning of a command; of other commands nothing, with status 1."""

    def __init__(self, printed: Mapping[str, str], *, in_container: bool = False) -> None:
        self.in_container = in_container
        self._printed = printed

    def run(self, *argv: str) -> tuple[int, str]:
        command = " ".join(argv)
        return next(((0, out) for known, out in self._printed.items() if command.startswith(known)), (1, ""))


def judged(rows: Iterator[Any]) -> dict[str, bool | None]:
    return {row.what: row.good for row in rows}


@pytest.mark.parametrize(
    ("live", "at_boot", "good"),
    [
        ("/dev/sdb ext4 rw,noatime", "UUID=12", (True, True)),
        ("/dev/sdb ext4 rw,relatime", "UUID=12", (False, True)),
        ("/dev/sdb xfs rw,noatime", "UUID=12", (False, True)),
        ("/dev/sda1 ext4 rw,noatime", "UUID=12", (False, True)),
        ("/dev/sdb ext4 rw,noatime", "/dev/sdb", (True, False)),
    ],
)
def test_a_mount_is_of_its_disk_with_its_options_and_by_uuid_at_boot(
    live: str, at_boot: str, good: tuple[bool, bool]
) -> None:
    host = FakeHost({LIVE: live, AT_BOOT: at_boot, BLKID: "12"})
    rows = judged(highwater_verify.mount_rows(host, DISK))
    assert rows == {"mount /data/ssd1": good[0], "mount /data/ssd1 at boot": good[1]}


def test_a_disk_that_is_not_mounted_is_one_difference() -> None:
    (row,) = highwater_verify.mount_rows(FakeHost({}), DISK)
    assert row.line() == f"BAD  mount /data/ssd1: wanted ext4 of /dev/sdb, noatime, found not mounted (by {LIVE})"


def test_swap_of_a_container_is_not_judged() -> None:
    assert highwater_verify.swap_row(FakeHost({"swapon": ""})).good is True
    assert highwater_verify.swap_row(FakeHost({"swapon": "/swapfile"})).good is False
    assert highwater_verify.swap_row(FakeHost({"swapon": "/swapfile"}, in_container=True)).good is None


def test_what_is_kept_at_boot_and_what_was_asked_for_is_held_against_the_kernel(tmp_path: Path) -> None:
    kept = tmp_path / "90-highwater.conf"
    kept.write_text("# vm.swappiness = 60\nvm.swappiness = 1\nnet.ipv4.tcp_rmem = 4096 131072 16777216\n")
    wanted = dict(highwater_verify.sysctls_of(kept, {"vm.max_map_count": 262144}))
    assert wanted == {
        "vm.swappiness": "1",
        "net.ipv4.tcp_rmem": "4096 131072 16777216",
        "vm.max_map_count": "262144",
    }
    host = FakeHost(
        {
            "sysctl --values vm.swappiness": "60",
            "sysctl --values net.ipv4.tcp_rmem": "4096\t131072\t16777216",
            "sysctl --values vm.max_map_count": "262144",
        }
    )
    rows = judged(highwater_verify.sysctl_row(host, *pair) for pair in wanted.items())
    assert rows == {"vm.swappiness": False, "net.ipv4.tcp_rmem": True, "vm.max_map_count": True}
    assert list(highwater_verify.sysctls_of(tmp_path / "none", {})) == []


def test_a_queue_is_held_against_what_udev_makes_of_our_rules(tmp_path: Path) -> None:
    rules, queue = tmp_path / "90-highwater.rules", tmp_path / "scheduler"
    rules.write_text("")
    queue.write_text("none [mq-deadline] kyber\n")
    printed = (
        f"{rules}:3 ATTR '{queue}' writing 'mq-deadline'\n"
        f"/usr/lib/udev/rules.d/60-block.rules:9 ATTR '{queue}' writing 'none'\n"
    )
    host = FakeHost({"udevadm test --action=change /sys/class/block/sdb": printed})
    assert list(judged(highwater_verify.queue_rows(host, DISK, str(rules))).values()) == [True]
    queue.write_text("[none] mq-deadline kyber\n")
    assert list(judged(highwater_verify.queue_rows(host, DISK, str(rules))).values()) == [False]


def test_a_service_is_judged_by_its_process() -> None:
    pid = os.getpid()
    soft = next(
        line.split()[3] for line in Path("/proc/self/limits").read_text().splitlines() if line.startswith("Max open")
    )
    shown = f"ActiveState=active\nUnitFileState=enabled\nMainPID={pid}\nNeedDaemonReload=no\nLimitNOFILESoft={soft}"
    wanted = {"unit": "highwater-broker@ssd.service", "user": "highwater", "ports": [9092, 9093]}
    ss = "ss --no-header --listening --tcp --numeric --processes sport = "
    host = FakeHost(
        {
            "systemctl show": shown,
            "ps": "highwater",
            f"{ss}:9092": f'users:(("python",pid={pid},fd=5))',
            f"{ss}:9093": 'users:(("java",pid=1,fd=5))',
        }
    )
    unit = wanted["unit"]
    assert judged(highwater_verify.service_rows(host, wanted)) == {
        unit: True,
        f"{unit}: its user": True,
        f"{unit}: open files": True,
        f"{unit}: port 9092": True,
        f"{unit}: port 9093": False,
    }
    older = FakeHost({"systemctl show": shown.replace(f"Soft={soft}", "Soft=99999999")})
    assert judged(highwater_verify.service_rows(older, {"unit": unit}))[f"{unit}: open files"] is False
    stopped = FakeHost({"systemctl show": "ActiveState=failed\nUnitFileState=enabled\nMainPID=0"})
    assert [row.found for row in highwater_verify.service_rows(stopped, wanted)] == ["failed, enabled"]


class _ZooKeeper(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        answers = {
            b"ruok": b"imok",
            b"mntr": b"zk_version\t3.8.0\nzk_server_state\tleader\nzk_synced_followers\t1\n",
        }
        self.request.sendall(answers[self.request.recv(4)])


def test_an_ensemble_that_lacks_a_member_is_a_difference() -> None:
    with serving(socketserver.TCPServer(ANY_PORT, _ZooKeeper)) as port:
        address = f"127.0.0.1:{port}"
        whole = judged(highwater_verify.zookeeper_rows(address, 2))
        one_is_gone = judged(highwater_verify.zookeeper_rows(address, 3))
        alone = judged(highwater_verify.zookeeper_rows(address, 1))
    assert list(whole.values()) == [True, True, True]
    assert list(one_is_gone.values()) == [True, True, False]
    assert list(alone.values())[1] is False
    assert highwater_verify.four_letters(address, "ruok").startswith("no answer")


class FakeAdmin:
    """Of a cluster in which each topic has one partition on these brokers."""

    def __init__(self, **replicas: list[int]) -> None:
        topics = {
            name: SimpleNamespace(topic=name, partitions={0: SimpleNamespace(id=0, replicas=brokers)})
            for name, brokers in replicas.items()
        }
        self.metadata = SimpleNamespace(topics=topics)

    def list_topics(self, timeout: float) -> SimpleNamespace:
        return self.metadata


def test_two_replicas_of_a_partition_on_one_host_are_a_difference() -> None:
    brokers = [
        {"broker_id": number + 100 * process, "host": f"h{number}", "process": process}
        for number in (1, 2)
        for process in (0, 1)
    ]
    wanted = {"brokers": brokers, "timeout_seconds": 1}
    apart = FakeAdmin(a=[1, 102], b=[101, 2], c=[101], strange=[9, 1])
    assert highwater_round_trip.replicas_are_apart(apart, wanted) == "no host of 2 has two replicas of a partition"
    together = FakeAdmin(a=[1, 102], b=[101, 2, 1])
    with pytest.raises(highwater_round_trip.DifferenceError, match=r"on one host: b-0 \(2 on h1\); move them apart"):
        highwater_round_trip.replicas_are_apart(together, wanted)


@pytest.mark.clients
def test_a_cluster_is_judged_by_what_a_client_of_others_sees(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log", properties=("broker.id=4", "offsets.topic.replication.factor=1")) as broker:
        address, _, port = broker.address.rpartition(":")
        wanted: dict[str, Any] = {
            "bootstrap_servers": broker.address,
            "brokers": [{"broker_id": 4, "address": address, "port": int(port)}],
            "records": 20,
            "timeout_seconds": 10,
        }
        admin = highwater_round_trip.AdminClient(highwater_round_trip.client_settings(wanted))
        assert highwater_round_trip.brokers_are_there(admin, wanted) == f"brokers 4 at {address}:{port}"
        found = highwater_round_trip.records_come_back(admin, wanted)
        assert found == "20 records through 1 partitions with acks=all and back"
        assert [name for name in admin.list_topics(timeout=60).topics if name.startswith("highwater-verify-")] == []
        brokers = [*wanted["brokers"], {"broker_id": 5, "address": "b", "port": 1}]
        with pytest.raises(highwater_round_trip.DifferenceError, match=r"wanted brokers 4 at .*, 5 at b:1, found 4 at"):
            highwater_round_trip.brokers_are_there(admin, {**wanted, "brokers": brokers, "timeout_seconds": 1})
