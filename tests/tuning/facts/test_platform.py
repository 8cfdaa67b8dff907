"""Kernel, container, virtual machine, namespaces and systemd of hosts that this machine is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.tuning.facts import collect
from highwater.tuning.facts.platform import parse_kernel_version
from tests.tuning.host_tree import make_host, write

_OWN_PID_NAMESPACE = "pid:[4026532281]"


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("6.18.5-x", (6, 18)),
        ("5.14.0-503.el9", (5, 14)),
        ("4.18.0-553.el8_10.x86_64", (4, 18)),
        ("6.12-rc3", (6, 12)),
        ("5.15.167.4-microsoft-standard-WSL2", (5, 15)),
        ("6.1", (6, 1)),
        ("10.0+", (10, 0)),
        ("six.one", None),
        ("6", None),
        ("6.1x", None),
        ("", None),
        ("v6.1.0", None),
        ("999999999999.1", None),
    ],
)
def test_the_version_of_odd_releases(release: str, version: tuple[int, int] | None) -> None:
    assert parse_kernel_version(release) == version


def test_a_release_without_a_version_says_so(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, kernel="unknown-build"))
    assert facts.kernel_version is None
    assert facts.unknown["kernel_version"] == "kernel release 'unknown-build' begins with no version"


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("/run/systemd/container", "systemd-nspawn\n", "systemd-nspawn"),
        ("/run/host/container-manager", "podman\n", "podman"),
        ("/run/.containerenv", "", "podman"),
        ("/run/secrets/kubernetes.io/serviceaccount/namespace", "default", "kubernetes"),
        ("/dev/lxd/sock", "", "lxd"),
        ("/proc/self/cgroup", "0::/kubepods.slice/pod1\n", "kubernetes"),
        ("/proc/self/cgroup", "4:memory:/docker/abc\n", "docker"),
        ("/proc/self/cgroup", "0::/lxc.payload.web\n", "lxc"),
    ],
)
def test_kinds_of_containers(tmp_path: Path, path: str, text: str, kind: str) -> None:
    make_host(tmp_path, pid_namespace=_OWN_PID_NAMESPACE)
    write(tmp_path, path, text)
    assert collect(tmp_path).container == kind


def test_the_first_network_namespace_is_told_by_what_only_it_shows(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host", sysctls={"net.core.netdev_max_backlog": "1000"})
    own = make_host(tmp_path / "own", sysctls={"net.core.netdev_max_backlog": None})
    assert collect(host).namespaces.network is True
    assert collect(own).namespaces.network is False
    assert collect(tmp_path / "nothing").namespaces.network is None


def test_the_user_namespace(tmp_path: Path) -> None:
    make_host(tmp_path)
    (tmp_path / "proc/self/ns/user").symlink_to("user:[4026532999]")
    assert collect(tmp_path).namespaces.user is False


def test_systemd_tells_its_version_by_its_library_and_that_it_runs_by_its_folder(tmp_path: Path) -> None:
    write(tmp_path, "/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-252.so", "")
    assert (collect(tmp_path).systemd.running, collect(tmp_path).systemd.version) == (False, 252)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert collect(tmp_path).systemd.running


def test_an_unlimited_hard_limit_is_none(tmp_path: Path) -> None:
    make_host(tmp_path)
    limits = "Max open files  1024  unlimited  files\nMax locked memory  65536  65536  bytes\n"
    write(tmp_path, "/proc/self/limits", limits)
    facts = collect(tmp_path)
    assert facts.limits["nofile"] == (1024, None)
    assert facts.limits["memlock"].hard == 65536
    assert "nproc" not in facts.limits


def test_capabilities_are_bits(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, capabilities="000001fffeffffff"))
    assert facts.can_raise_limits is False
    assert facts.effective_capabilities == 0x1FFFEFFFFFF


def test_a_hypervisor_without_firmware_tables_is_named_by_its_clock(tmp_path: Path) -> None:
    make_host(tmp_path)
    write(tmp_path, "/proc/cpuinfo", "flags : fpu hypervisor tsc\n")
    assert collect(tmp_path).virtual_machine == "unidentified"
    write(tmp_path, "/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock\n")
    assert collect(tmp_path).virtual_machine == "KVM"
