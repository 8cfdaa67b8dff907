"""What can be changed from where, and what to where it cannot; nothing is ever written to find out."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.tuning.capabilities import capability
from highwater.tuning.catalogue import KNOBS, find_knob
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts
from highwater.tuning.formulas.targets import targets_of
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import make_host, snapshot, write

_OWN = "pid:[4026532281]"
_NETWORK = {"net.core.netdev_max_backlog": "1000"}


def _container(root: Path, kind: str, *, read_only: bool = True, network: bool = True) -> Facts:
    """In a container of its own network namespace, unless told otherwise."""
    make_host(root, pid_namespace=_OWN, read_only_proc_sys=read_only, sysctls=None if network else _NETWORK)
    write(root, "/run/systemd/container", f"{kind}\n")
    return collect(root)


def test_a_plain_host_can_everything_but_what_is_advice(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, sysctls=_NETWORK))
    assert capability(facts, find_knob("vm.swappiness")).can
    assert capability(facts, find_knob("unit.limit_nofile"), "x.service", "100000").can
    assert capability(facts, find_knob("mount.noatime"), "/data", "noatime").can
    assert not capability(facts, find_knob("disk.write_cache"), "sda").can


def test_what_the_kernel_does_not_have_has_nobody_to_ask(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, sysctls={"vm.swappiness": None}))
    found = capability(facts, find_knob("vm.swappiness"), "", "1")
    assert found.why == "/proc/sys/vm/swappiness does not exist on kernel 6.1.0-18-amd64"
    assert (found.can, found.ask) == (False, "")


def test_every_knob_is_judged_on_an_ordinary_host_and_in_an_empty_tree(tmp_path: Path) -> None:
    for root in (make_host(tmp_path / "host"), tmp_path / "empty"):
        facts = collect(root)
        for knob in KNOBS:
            for target in targets_of(knob.scope, facts, Workload()):
                found = capability(facts, knob, target, "1")
                assert found.can or found.why, knob.id
                assert "\n" not in found.why + found.ask


@pytest.mark.parametrize(
    ("kind", "knob_id", "ask"),
    [
        ("docker", "net.core.somaxconn", "--sysctl 'net.core.somaxconn=4096' when docker makes the container"),
        ("podman", "net.core.somaxconn", "--sysctl 'net.core.somaxconn=4096' when podman makes the container"),
        ("lxd", "net.core.somaxconn", "linux.sysctl.net.core.somaxconn = 4096"),
        ("lxc", "net.core.somaxconn", "lxc.sysctl.net.core.somaxconn = 4096"),
        ("systemd-nspawn", "net.core.somaxconn", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network"),
        ("kubernetes", "net.core.somaxconn", "--allowed-unsafe-sysctls=net.core.somaxconn on the kubelet"),
        ("kubernetes", "net.ipv4.tcp_rmem", "(a safe sysctl since Kubernetes 1.32)"),
        ("kubernetes", "vm.swappiness", "vm.swappiness = 4096 on the node"),
        ("docker", "vm.swappiness", "vm.swappiness = 4096 on the host below"),
        ("docker", "net.core.rmem_max", "net.core.rmem_max = 4096 on the host below"),
        ("unidentified", "net.core.somaxconn", "when the container is made"),
    ],
)
def test_whom_to_ask_in_a_container_with_a_read_only_proc(tmp_path: Path, kind: str, knob_id: str, ask: str) -> None:
    found = capability(_container(tmp_path, kind), find_knob(knob_id), "", "4096")
    assert not found.can
    assert found.why == f"/proc/sys is mounted read-only in this container ({kind})"
    assert ask in found.ask


def test_all_numbers_of_a_setting_are_asked_for(tmp_path: Path) -> None:
    found = capability(_container(tmp_path, "docker"), find_knob("net.ipv4.tcp_rmem"), "", "8388608")
    assert found.ask == "--sysctl 'net.ipv4.tcp_rmem=4096 131072 8388608' when docker makes the container"


def test_a_network_namespace_shows_some_read_only_and_others_not_at_all(tmp_path: Path) -> None:
    facts = _container(tmp_path, "docker", read_only=False)
    (tmp_path / "proc/sys/net/core/rmem_max").chmod(0o444)
    assert capability(facts, find_knob("net.core.somaxconn"), "", "4096") == capability(
        facts, find_knob("net.ipv4.tcp_rmem"), "", "1"
    )
    assert capability(facts, find_knob("net.core.somaxconn"), "", "4096").can
    read_only = capability(facts, find_knob("net.core.rmem_max"), "", "1")
    assert read_only.why == "/proc/sys/net/core/rmem_max is read-only in a network namespace of its own"
    absent = capability(facts, find_knob("net.core.netdev_max_backlog"), "", "1")
    assert absent.why.endswith("does not exist in a network namespace of its own")
    assert absent.ask == "net.core.netdev_max_backlog = 1 on the host below (in its /etc/sysctl.d)"


def test_a_privileged_container_is_told_that_it_writes_the_hosts_own_value(tmp_path: Path) -> None:
    facts = _container(tmp_path, "docker", read_only=False)
    found = capability(facts, find_knob("vm.swappiness"), "", "1")
    assert found.can
    assert found.why == "this container is privileged: it is the host's own value, of all that run there"
    assert capability(facts, find_knob("net.core.somaxconn"), "", "1").why == "", "that is the container's own"


def test_the_swap_of_the_machine_below_is_left_to_it_by_a_booted_container(tmp_path: Path) -> None:
    found = capability(_container(tmp_path, "systemd-nspawn", read_only=False), find_knob("swap.devices"), "", "none")
    assert found.why == "the swap is the host's below, and this container (systemd-nspawn) may not call swapoff"
    assert found.ask == "swap turned off by the host below"


def test_root_of_a_user_namespace_is_not_root_of_the_host(tmp_path: Path) -> None:
    make_host(tmp_path, pid_namespace=_OWN)
    (tmp_path / "proc/self/ns/user").symlink_to("user:[4026532999]")
    write(tmp_path, "/dev/lxd/sock", "")
    facts = collect(tmp_path)
    found = capability(facts, find_knob("vm.swappiness"), "", "1")
    assert found.why == "root of this container (lxd) is root of its user namespace only, not of the host"
    assert capability(facts, find_knob("net.ipv4.tcp_rmem"), "", "1").can
    assert not capability(facts, find_knob("mount.noatime"), "/data", "noatime").can
    assert not capability(facts, find_knob("swap.devices"), "", "none").can


def test_limits_beyond_the_hard_one_need_a_capability(tmp_path: Path) -> None:
    make_host(tmp_path, pid_namespace=_OWN, nofile=(1024, 4096), capabilities="000001fffeffffff")
    write(tmp_path, "/.dockerenv", "")
    facts = collect(tmp_path)
    found = capability(facts, find_knob("unit.limit_nofile"), "x.service", "100000")
    assert found.why == ("the hard limit is 4096, and this container (docker) has no CAP_SYS_RESOURCE to raise it")
    assert found.ask == "--ulimit nofile=100000:100000 when docker makes the container"
    assert capability(facts, find_knob("unit.limit_nofile"), "x.service", "4096").can
    assert not capability(facts, find_knob("login.nofile"), "", "100000").can


def test_mounts_need_a_capability_too(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, capabilities="0000000000000000"))
    found = capability(facts, find_knob("mount.noatime"), "/data", "noatime")
    assert (found.can, found.why) == (False, "this system has no CAP_SYS_ADMIN")


def test_a_system_without_systemd_keeps_no_unit_settings(tmp_path: Path) -> None:
    make_host(tmp_path)
    (tmp_path / "etc/systemd/system").rmdir()
    (tmp_path / "etc/systemd").rmdir()
    found = capability(collect(tmp_path), find_knob("unit.limit_nofile"), "x.service", "5")
    assert found.why == "there is no systemd here (/etc/systemd does not exist)"


def test_nothing_is_written_to_find_out(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path))
    before = snapshot(tmp_path)
    for knob in KNOBS:
        capability(facts, knob, "sda", "1")
    assert snapshot(tmp_path) == before
    live = collect()
    modified = Path("/proc/sys/vm/swappiness").read_text("utf-8")
    assert capability(live, find_knob("vm.swappiness"), "", "1").why is not None
    assert Path("/proc/sys/vm/swappiness").read_text("utf-8") == modified
