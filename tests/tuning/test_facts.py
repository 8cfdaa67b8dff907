"""Facts from trees of hosts that this machine is not, and from this machine."""

from __future__ import annotations

import json
from pathlib import Path

from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts
from tests.tuning.host_tree import GIB, Disk, make_host, write


def test_a_plain_host(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, memory_bytes=64 * GIB, swaps="/dev/sda2 partition 8388604 1024 -2\n"))
    assert facts.kernel_release == "6.1.0-18-amd64"
    assert facts.operating_system == "Debian GNU/Linux 12 (bookworm)"
    assert (facts.cpu_count, facts.cpu_model) == (8, "Example CPU")
    assert facts.memory.total_bytes == 64 * GIB
    assert facts.swaps is not None
    assert facts.swaps[0].used_bytes == 1024 * 1024
    assert (facts.nofile_soft, facts.nofile_hard) == (1024, 524288)
    assert facts.container is None
    assert facts.unknown == {}


def test_this_machine_and_its_json() -> None:
    facts = collect()
    assert facts.memory.total_bytes
    assert json.loads(json.dumps(facts.as_json()))["kernel_release"] == facts.kernel_release


def test_an_empty_tree_leaves_reasons_and_no_crash(tmp_path: Path) -> None:
    facts = collect(tmp_path)
    assert facts.kernel_release is None
    assert facts.swaps is None
    assert facts.unknown["kernel_release"] == "/proc/sys/kernel/osrelease does not exist"
    assert facts.unknown["memory.available_bytes"] == "/proc/meminfo does not exist"
    assert facts.unknown["nofile"] == "/proc/self/limits does not exist"
    json.dumps(facts.as_json())


def test_garbage_leaves_reasons_and_no_crash(tmp_path: Path) -> None:
    make_host(tmp_path)
    for path in ("/proc/meminfo", "/proc/self/mountinfo", "/proc/self/limits", "/sys/devices/system/cpu/online"):
        write(tmp_path, path, "what is this\n- - -\n")
    facts = collect(tmp_path)
    assert facts.mounts == ()
    assert facts.cpu_count is None
    assert {"memory.total_bytes", "cpu_count", "nofile"} <= set(facts.unknown)


def test_a_partition_leads_to_its_disk(tmp_path: Path) -> None:
    disks = (Disk("nvme0n1", "/data/fast"), Disk("sdb", "/data/slow", rotational=True))
    facts = collect(make_host(tmp_path, disks=disks))
    assert [disk.name for disk in facts.disks_of("/data/fast/topic-0")] == ["nvme0n1"]
    assert [(disk.name, disk.medium) for disk in facts.disks_of("/data/slow")] == [("sdb", "hdd")]
    assert facts.disks_of("/data/fast")[0].medium == "nvme"
    assert facts.disks_of("/data/faster") == [], "/data/fast does not hold /data/faster"


def test_raid_and_lvm_lead_to_their_disks(tmp_path: Path) -> None:
    make_host(tmp_path, disks=(Disk("sda", "/a"), Disk("sdb", "/b")))
    for layer, number, members in (("md0", "9:0", ("sda1", "sdb")), ("dm-0", "253:0", ("md0",))):
        write(tmp_path, f"/sys/block/{layer}/dev", number)
        write(tmp_path, f"/sys/block/{layer}/size", "1000")
        for member in members:
            (tmp_path / f"sys/block/{layer}/slaves/{member}").mkdir(parents=True)
    with (tmp_path / "proc/self/mountinfo").open("a") as mountinfo:
        mountinfo.write("50 1 253:0 / /data rw,noatime - xfs /dev/mapper/vg-data rw\n")
    assert [disk.name for disk in collect(tmp_path).disks_of("/data")] == ["sda", "sdb"]


def test_btrfs_is_found_by_its_source(tmp_path: Path) -> None:
    make_host(tmp_path, disks=(Disk("sda", "/a"),))
    write(tmp_path, "/proc/self/mountinfo", "50 1 0:41 /@data /data rw - btrfs /dev/sda1 rw\n")
    assert [disk.name for disk in collect(tmp_path).disks_of("/data")] == ["sda"]


def test_empty_loop_devices_and_hidden_paths_are_no_disks(tmp_path: Path) -> None:
    make_host(tmp_path)
    write(tmp_path, "/sys/block/loop0/size", "0\n")
    write(tmp_path, "/sys/block/nvme0c0n1/size", "1000\n")
    write(tmp_path, "/sys/block/nvme0c0n1/hidden", "1\n")
    assert [device.name for device in collect(tmp_path).block_devices] == ["sda"]


def test_a_virtio_disk_does_not_tell_its_medium(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, disks=(Disk("vda", "/data", rotational=True),)))
    assert facts.disks_of("/data")[0].medium is None


def test_a_later_mount_hides_an_earlier_one_and_spaces_are_unescaped(tmp_path: Path) -> None:
    make_host(tmp_path)
    lines = [
        r"20 1 8:1 / /my\040data rw,relatime - ext4 /dev/sda1 rw",
        r"21 1 8:2 / /my\040data rw,noatime - xfs /dev/sda2 ro,attr2",
    ]
    write(tmp_path, "/proc/self/mountinfo", "\n".join(lines))
    mount = collect(tmp_path).mount_of("/my data/x")
    assert mount is not None
    assert (mount.filesystem, mount.options) == ("xfs", ("ro", "noatime", "attr2"))


def _limited(tmp_path: Path, limits: dict[str, str], cgroup: str, mount: str) -> Facts:
    make_host(tmp_path)
    write(tmp_path, "/proc/self/cgroup", cgroup)
    write(tmp_path, "/proc/self/mountinfo", mount)
    for path, text in limits.items():
        write(tmp_path, path, text)
    return collect(tmp_path)


def test_the_tightest_limit_of_the_control_groups_above_counts(tmp_path: Path) -> None:
    limits = {
        "/sys/fs/cgroup/a/memory.max": f"{4 * GIB}\n",
        "/sys/fs/cgroup/a/b/memory.max": f"{8 * GIB}\n",
        "/sys/fs/cgroup/a/b/c/memory.max": "max\n",
    }
    mount = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    facts = _limited(tmp_path, limits, "0::/a/b/c\n", mount)
    assert facts.memory.cgroup_limit_bytes == 4 * GIB
    assert facts.memory.usable_bytes == 4 * GIB


def test_a_version_1_group_without_a_limit_has_none(tmp_path: Path) -> None:
    limits = {"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n"}
    mount = "31 1 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    facts = _limited(tmp_path, limits, "4:memory:/x\n0::/\n", mount)
    assert facts.memory.cgroup_limit_bytes is None


def test_a_containers_own_limit_at_the_top_of_what_it_sees(tmp_path: Path) -> None:
    limits = {"/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n"}
    mount = "31 1 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    facts = _limited(tmp_path, limits, "4:memory:/docker/abc\n", mount)
    assert facts.memory.cgroup_limit_bytes == 2 * GIB


def test_the_pid_namespace_tells_a_container_not_a_left_over_marker(tmp_path: Path) -> None:
    write(tmp_path / "host", "/.dockerenv", "")
    write(tmp_path / "container", "/.dockerenv", "")
    assert collect(make_host(tmp_path / "host")).container is None
    assert collect(make_host(tmp_path / "container", pid_namespace="pid:[4026532281]")).container == "docker"
    unnamed = collect(make_host(tmp_path / "unnamed", pid_namespace="pid:[4026532281]"))
    assert unnamed.container == "unidentified"


def test_a_virtual_machine_is_told_by_its_cpu(tmp_path: Path) -> None:
    make_host(tmp_path)
    write(tmp_path, "/proc/cpuinfo", "processor : 0\nflags : fpu hypervisor tsc\n")
    write(tmp_path, "/sys/class/dmi/id/sys_vendor", "QEMU\n")
    assert collect(tmp_path).virtual_machine == "QEMU"


def test_a_link_of_a_tree_leads_to_where_it_leads_on_its_own_host(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    (root / "etc/os-release").unlink()
    (root / "etc/os-release").symlink_to("/usr/lib/os-release")
    write(root, "/usr/lib/os-release", 'PRETTY_NAME="Another system"\n')
    assert collect(root).operating_system == "Another system"
    (root / "usr/lib/os-release").unlink()
    (root / "usr/lib/os-release").symlink_to("/etc/os-release")
    assert "cannot be read: Too many levels of symbolic links" in collect(root).unknown["operating_system"]
