"""`ansible-playbook provision.yml` as an operator runs it, on loop devices and a host's files of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.playing import Played, play, succeeded
from tests.playbooks.private_host import loop_devices, on_private_host
from tests.playbooks.test_storage import needs_disks


def provision(folder: Path, devices: list[str], *arguments: str, **variables: Any) -> Played:
    names = zip(devices, ("ssd1", "hdd1"), ("ssd", "hdd"), strict=True)
    settings = {
        "storage_disks": [
            {"device": device, "mount_point": f"/mnt/data/{name}", "medium": medium} for device, name, medium in names
        ],
        "time_sync_service": "none",
        # The machine of a test may be any; what is asked of systems has tests of its own.
        "preflight_skip": ["system", "memory", "space"],
        "ansible_become": False,
        **variables,
    }
    return play(folder, "-i", "inventories/local", "provision.yml", *arguments, **settings)


def changed(done: Played) -> int:
    return int(succeeded(done).stdout.rpartition("changed=")[2].split()[0])


@pytest.mark.slow
@needs_disks
def test_looked_at_allowed_made_and_left_alone(tmp_path: Path) -> None:
    def body() -> None:
        before = Path("/etc/fstab").read_text()
        looked = provision(tmp_path, devices, "--check", "--diff")
        assert changed(looked) == 1
        said = " ".join((looked.stdout + looked.stderr).split())
        for device, label in zip(devices, ("hw-ssd1", "hw-hdd1"), strict=True):
            assert f"FORMAT {device} (32 MiB, " in said
            assert "-blank, 32 MiB" in said
            assert f"+FORMATTED as ext4, label {label}" in said
            assert f"{device} (32 MiB, " in said
        assert "allow it with storage_allow_format: true" in said
        assert Path("/etc/fstab").read_text() == before
        assert all(Path(device).read_bytes() == bytes(32 << 20) for device in devices)

        refused = provision(tmp_path, devices)
        assert refused.returncode == 2
        assert "2 faults; nothing was changed on any host:" in refused.stdout
        assert all(Path(device).read_bytes() == bytes(32 << 20) for device in devices)

        made = provision(tmp_path, devices, "--diff", storage_allow_format=True)
        assert changed(made) == 1
        assert "/mnt/data/hdd1 ext4 noatime,nofail,x-systemd.device-timeout=30s 0 2" in made.stdout
        mounted = subprocess.run(["findmnt", "-n", "-o", "SOURCE", "/mnt/data/ssd1"], capture_output=True, text=True)
        assert mounted.stdout.strip() == devices[0]
        assert changed(provision(tmp_path, devices)) == 0

    with loop_devices(tmp_path, 2) as devices:
        on_private_host(tmp_path, body)
