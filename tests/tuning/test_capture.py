"""A captured tree reads back the same, is small, keeps no secret, and leads nowhere else."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from highwater.tuning.capture import save
from highwater.tuning.catalogue import KNOBS
from highwater.tuning.check import evaluate
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect
from highwater.tuning.facts.captured import MARKER, is_captured
from highwater.tuning.planning import make_plan
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import Disk, make_big_host, make_host, write


def _texts(tree: Path) -> str:
    return "".join(path.read_text("utf-8") for path in tree.rglob("*") if path.is_file() and not path.is_symlink())


def test_this_host_reads_back_the_same(tmp_path: Path) -> None:
    facts = save(Path("/"), tmp_path / "capture")
    again = collect(tmp_path / "capture")
    assert again == facts
    assert again.as_json() == facts.as_json()
    assert is_captured(tmp_path / "capture")
    assert not is_captured(Path("/"))


def test_a_made_host_gives_the_same_reports_and_the_same_plan(tmp_path: Path) -> None:
    root = make_big_host(tmp_path / "host", disks=3, queues=4, cpus=8)
    write(root, "/etc/fstab", "/dev/sda1 /data/0 ext4 defaults 0 2\n/dev/sdb9 none swap sw 0 0\n")
    write(root, "/etc/sysctl.d/99-late.conf", "vm.swappiness = 30\n")
    write(root, "/etc/systemd/system/multi-user.target.wants/tuned.service", "")
    write(root, "/etc/tuned/active_profile", "mine\n")
    write(root, "/etc/tuned/mine/tuned.conf", "\n[disk]\nreadahead = 64\n[sysctl]\nvm.max_map_count = 70000\n")
    workload = Workload(data_dirs=("/data/0", "/data/1"))
    facts = save(root, tmp_path / "capture", workload)
    again = collect(tmp_path / "capture")
    assert again == facts == collect(root)
    assert evaluate(again, workload) == evaluate(collect(root), workload)
    plan = make_plan(again, workload, KNOBS)
    assert plan == make_plan(collect(root), workload, KNOBS)
    assert any("/etc/tuned/mine/tuned.conf:3: " in warning for warning in plan.warnings)


def test_no_link_leads_out_of_the_tree_and_links_lead_on_inside(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    write(root, "/srv/late.conf", "vm.swappiness = 30\n")
    (root / "etc/sysctl.d/99-late.conf").symlink_to("/srv/late.conf")
    write(root, "/sys/devices/pci0/block/sdx/size", "1000\n")
    (root / "sys/block/sdx").symlink_to("../devices/pci0/block/sdx")
    save(root, tmp_path / "capture")
    links = [path for path in (tmp_path / "capture").rglob("*") if path.is_symlink()]
    assert links
    for link in links:
        assert not link.readlink().is_absolute(), link
        assert (link.parent / link.readlink()).resolve().is_relative_to(tmp_path / "capture"), link
    assert (tmp_path / "capture/sys/devices/pci0/block/sdx/size").read_text("utf-8") == "1000\n"
    assert (tmp_path / "capture/etc/sysctl.d/99-late.conf").read_text("utf-8") == "vm.swappiness = 30\n"
    assert "sdx" in [disk.name for disk in collect(tmp_path / "capture").block_devices]


def test_secrets_stay_where_they_are(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    write(
        root, "/etc/fstab", "//nas/x /mnt cifs username=eve,password=hunter2,rw 0 0\n/dev/sda1 /data ext4 noatime 0 2\n"
    )
    write(root, "/proc/cmdline", "root=/dev/sda rd.iscsi.password=hunter2 isolcpus=2-3\n")
    write(root, "/proc/self/environ", "TOKEN=hunter2\0")
    write(root, "/proc/self/cmdline", "x\0--password\0hunter2\0")
    unit = (
        "# of the vendor\n#Environment=A=hunter2\n[Service]\nEnvironment=PASSWORD=hunter2 \\\n  OTHER=hunter2\n"
        "ExecStart=/bin/broker --token hunter2\nLimitNOFILE=5\n"
    )
    write(root, "/etc/systemd/system/highwater-broker@.service", unit)
    write(root, "/etc/systemd/system/highwater-broker@.service.d/50-env.conf", "[Service]\nEnvironment=K=hunter2\n")
    facts = save(root, tmp_path / "capture")
    assert "hunter2" not in _texts(tmp_path / "capture")
    assert "eve" not in (tmp_path / "capture/etc/fstab").read_text("utf-8")
    again = collect(tmp_path / "capture")
    unit_name = "highwater-broker@.service"
    assert again.unit(unit_name) == facts.unit(unit_name)
    assert again.unit(unit_name).settings == {"LimitNOFILE": "5"}
    assert "isolcpus=2-3" in (again.files.read("/proc/cmdline").text or "")


def test_a_capture_is_small_and_can_be_mailed(tmp_path: Path) -> None:
    root = make_big_host(tmp_path / "host", disks=24, queues=16)
    save(root, tmp_path / "capture")
    archive = tmp_path / "capture.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(tmp_path / "capture", arcname="capture")
    assert archive.stat().st_size < 2**17
    (tmp_path / "elsewhere").mkdir()
    subprocess.run(["tar", "--extract", f"--file={archive}"], cwd=tmp_path / "elsewhere", check=True)
    assert collect(tmp_path / "elsewhere/capture") == collect(root)


def test_the_reason_of_what_could_not_be_read_is_kept(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    (root / "proc/swaps").unlink()
    (root / "proc/swaps").mkdir()
    facts = save(root, tmp_path / "capture")
    assert facts.unknown["swaps"] == "/proc/swaps cannot be read: Is a directory"
    assert collect(tmp_path / "capture").unknown == facts.unknown


def test_modes_are_kept_as_they_tell_what_can_be_written(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    (root / "proc/sys/net/core/rmem_max").chmod(0o444)
    save(root, tmp_path / "capture")
    modes = [
        (tmp_path / f"capture/proc/sys/net/core/{name}").stat().st_mode & 0o777 for name in ("rmem_max", "somaxconn")
    ]
    assert modes == [0o444, 0o644]


def test_an_empty_tree_can_be_captured(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    assert save(tmp_path / "host", tmp_path / "capture") == collect(tmp_path / "capture")


def test_what_cannot_be_captured_says_so_in_one_line(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host", disks=(Disk("sda", "/data"),))
    write(tmp_path, "/full/file", "x")
    with pytest.raises(TuningError, match="full is not empty; name a new folder"):
        save(root, tmp_path / "full")
    with pytest.raises(TuningError, match="cannot be made"):
        save(root, tmp_path / "full/file/below")
    save(root, tmp_path / "capture")
    with pytest.raises(TuningError, match="is a capture already"):
        save(tmp_path / "capture", tmp_path / "again")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "tuning.capture/9", "unreadable": {}}', '{"schema"'])
def test_a_damaged_marker_is_said(tmp_path: Path, text: str) -> None:
    write(tmp_path, MARKER, text)
    with pytest.raises(TuningError, match="capture the host again"):
        collect(tmp_path)
