"""Data disks on a booted host: refused, made, there after a reboot, kept from those who use them, taken away.

Run by `python -m tests.lab test`, as root, on a lab of its own; `make test` does not collect it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab import making
from tests.lab.operating import Operator, differing
from tests.lab.record import Node, Store
from tests.lab.telling import tell

NAME = "disks"
SSD, HDD = "/dev/disk/by-id/lab-ssd", "/dev/disk/by-id/lab-hdd"
DISKS: list[dict[str, Any]] = [
    {
        "device": SSD,
        "mount_point": "/data/ssd1",
        "medium": "ssd",
        "filesystem": "xfs",
        "mount_options": ["noatime", "logbsize=256k"],
    },
    {"device": HDD, "mount_point": "/data/hdd1", "medium": "hdd"},
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Operator]:
    store = Store.of(NAME)
    yield Operator(store, making.up(store, 1, tell))
    making.down(store)


@pytest.fixture
def node(lab: Operator) -> Node:
    return lab.record.nodes[0]


def variables(**changes: Any) -> list[str]:
    return ["-e", json.dumps({"storage_disks": DISKS, **changes})]


def options(lab: Operator, node: Node, place: str) -> set[str]:
    return set(lab.run(node, f"findmnt --noheadings --output OPTIONS --mountpoint {place}").split(","))


def test_disks_from_bare_to_bare(lab: Operator, node: Node, tmp_path: Path) -> None:
    files, residue = lab.files(node), lab.residue(node)

    # Data of somebody's: nothing is changed, on no disk.
    lab.run(node, f"mkfs.ext4 -q -L theirs {HDD}")
    refused = lab.play("provision.yml", *variables(), status=2)
    assert "carries ext4 (label theirs" in refused.out
    assert "nothing was changed on any host" in refused.out
    assert lab.run(node, f"wipefs --no-act {SSD}") == ""
    lab.run(node, f"wipefs --all {HDD}")

    looked = lab.play("provision.yml", *variables(), "--check", "--diff")
    assert f"FORMAT {SSD} (" in looked.out
    assert differing(files, lab.files(node)) == {}
    made = lab.play("provision.yml", *variables(), "--diff")
    assert made.changes == looked.changes, "what was announced is what was done"
    assert lab.play("provision.yml", *variables()).changed == 0

    def as_wanted() -> None:
        assert {"noatime", "logbsize=256k"} <= options(lab, node, "/data/ssd1")
        assert "noatime" in options(lab, node, "/data/hdd1")
        assert lab.run(node, "findmnt --noheadings --output FSTYPE --mountpoint /data/ssd1") == "xfs"

    as_wanted()
    lab.run(node, "echo kept > /data/hdd1/records")
    lab.reboot(node)
    as_wanted()
    assert lab.run(node, "cat /data/hdd1/records") == "kept"
    lab.run(node, f"mount -o remount,relatime {HDD} /data/hdd1")
    assert lab.play("provision.yml", *variables()).changed == 1
    assert lab.play("provision.yml", *variables()).changed == 0
    as_wanted()

    # Without its disk a mount point takes no files of a service.
    lab.run(node, "umount /data/hdd1")
    assert "Permission denied" in lab.run(node, "setpriv --reuid 65534 touch /data/hdd1/x 2>&1 || true")
    assert lab.play("provision.yml", *variables()).changed == 1
    assert lab.run(node, "cat /data/hdd1/records") == "kept"

    # Taken away: not while it is in use, and erased only by name.
    playbook = tmp_path / "teardown.yml"
    roles = [
        {"ansible.builtin.include_role": {"name": name, "tasks_from": "teardown"}} for name in ("storage", "time_sync")
    ]
    playbook.write_text(yaml.safe_dump([{"hosts": "all", "become": True, "tasks": roles}]))
    away = variables(teardown_unmount=True, teardown_wipe_disks=[SSD])
    lab.run(node, "systemd-run --quiet --unit hold --working-directory /data/hdd1 sleep 600")
    busy = lab.play(str(playbook), *away, status=2)
    assert "cannot be unmounted (fuser -vm /data/hdd1 shows who uses it)" in " ".join(busy.out.split())
    lab.run(node, "systemctl stop hold")
    lab.play(str(playbook), *away)
    assert lab.play(str(playbook), *away[:1], json.dumps({"teardown_unmount": True})).changed == 0
    assert lab.run(node, f"wipefs --no-act {SSD}") == ""
    assert differing(files, lab.files(node)) == {}
    assert differing(residue, lab.residue(node)) == {}

    # The disk that was not erased has data, and is used again by its UUID alone.
    refused = lab.play("provision.yml", *variables(storage_disks=DISKS[1:]), status=2)
    assert "to use it as it is: uuid: " in refused.out
    uuid = lab.run(node, f"blkid --probe --match-tag UUID --output value {HDD}")
    lab.play("provision.yml", *variables(storage_disks=[{**DISKS[1], "uuid": uuid}]))
    assert lab.run(node, "cat /data/hdd1/records") == "kept"
