"""What a kernel of its own shows of the playbooks: vm.*, block queues, swap, fstab, boots of a broker, the way back.

Run by `python -m tests.lab test`, as root, on a lab of its own; `make test` does not collect it. Everything is looked
at by the guest's own commands, and compared with what was there before the first playbook.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.lab import image, making
from tests.lab.ledger import Ledger
from tests.lab.operating import Operator, differing
from tests.lab.record import Node, Store
from tests.lab.telling import tell

NAME = "guest"
# Two of the forms that turn swap on at boot; the guest has both before it is tuned.
SWAP = """
for name in swapfile swapfile2; do
  fallocate -l 64M /$name
  chmod 600 /$name
  mkswap /$name
done
echo '/swapfile none swap sw,pri=5 0 0' >> /etc/fstab
printf '[Swap]\\nWhat=/swapfile2\\n\\n[Install]\\nWantedBy=swap.target\\n' > /etc/systemd/system/swapfile2.swap
systemctl daemon-reload
systemctl enable swapfile2.swap
systemctl start swapfile2.swap
swapon --all
"""
TAKE_ALL_AWAY = '{"teardown_confirmed": true, "teardown_remove_data": true, "teardown_unmount": true}'
# The kernel reckons it from what is free as it boots (init_user_reserve in mm/mmap.c).
_OF_EACH_BOOT = {"vm.user_reserve_kbytes"}


@pytest.fixture(scope="module", params=image.SUITES)
def lab(request: pytest.FixtureRequest) -> Iterator[Operator]:
    store = Store.of(NAME)
    yield Operator(store, making.up(store, 1, tell, own_kernel=True, suite=request.param))
    making.down(store)


@pytest.fixture
def node(lab: Operator) -> Node:
    return lab.record.nodes[0]


def test_from_a_bare_host_over_a_reboot_to_the_originals(lab: Operator, node: Node) -> None:
    lab.run(node, SWAP)
    before, files_before, residue_before = lab.settings(node), lab.files(node), lab.residue(node)
    assert set(before["swap"].split()) >= {"/swapfile", "/swapfile2"}

    announced = lab.play("tune.yml", "--check", "--diff")
    assert differing(before, lab.settings(node)) == {}, "check mode changes nothing"
    assert differing(files_before, lab.files(node)) == {}, "check mode changes nothing"
    lab.play("provision.yml")
    tuned = lab.play("tune.yml", "--diff")
    rules = [line for line in announced.diff if line.startswith("+ACTION")]
    assert any("lab-hdd" in line for line in rules), "queues of disks that are not mounted yet are announced"
    assert [line for line in tuned.diff if line.startswith("+ACTION")] == rules
    is_tuned(lab, node, before)
    assert lab.play("tune.yml").changed == 0
    lab.play("zookeeper.yml")
    lab.play("broker.yml")
    ledger = Ledger(f"{node.address}:9092", "kept", lab.patience)
    ledger.create_topic(partitions=3, copies=1)

    # Producers wait for a broker that boots; what it acknowledged before is still there.
    with ledger.producing():
        lab.reboot(node)
        lab.play("verify.yml")
    assert ledger.faults() == []
    assert len(ledger.acknowledged) == ledger.sent > 0
    is_tuned(lab, node, before)
    assert lab.play("tune.yml").changed == 0
    assert lab.play("broker.yml").changed == 0

    lab.play("rollback.yml")
    assert differing(before, settings_of_before(lab, node, before)) == {}
    lab.reboot(node)
    assert differing(before, settings_of_before(lab, node, before)) == {}

    lab.play("teardown.yml", "-e", TAKE_ALL_AWAY)
    assert differing(residue_before, lab.residue(node)) == {}
    assert differing(files_before, lab.files(node)) == {}


def settings_of_before(lab: Operator, node: Node, before: dict[str, str]) -> dict[str, str]:
    """Now, without those of modules that somebody loaded since."""
    own = {name: before[name] for name in before.keys() & _OF_EACH_BOOT}
    return {name: value for name, value in lab.settings(node).items() if name in before} | own


def is_tuned(lab: Operator, node: Node, before: dict[str, str]) -> None:
    """Settings, queues, swap and mounts are as the files say that keep them, and not as they were."""
    now = lab.settings(node)
    assert now["swap"] == ""
    lines = lab.run(node, "grep -v '^#' /etc/sysctl.d/90-highwater.conf").splitlines()
    wanted = {key.strip(): " ".join(value.split()) for key, _, value in (line.partition("=") for line in lines if line)}
    assert {"vm.swappiness", "vm.dirty_bytes", "vm.dirty_background_bytes", "vm.max_map_count"} <= wanted.keys()
    assert {key: now[key] for key in wanted} == wanted
    assert all(before[key] != value for key, value in wanted.items())
    rules = lab.run(node, "cat /etc/udev/rules.d/90-highwater.rules")
    for disk in ("lab-hdd", "lab-ssd"):
        name = lab.run(node, f"basename $(realpath /dev/disk/by-id/{disk})")
        kept = dict(re.findall(rf'{disk}.*ATTR\{{([^}}]+)\}}="([^"]*)"', rules))
        shown = {key: now[f"/sys/block/{name}/{key}"] for key in kept}
        assert {key: re.sub(r".*\[(.+)\].*", r"\1", value) for key, value in shown.items()} == kept
    for point in ("/data/hdd1", "/data/ssd1"):
        assert "noatime" in lab.run(node, f"findmnt --noheadings --output OPTIONS --mountpoint {point}").split(",")
        assert lab.run(node, f"findmnt --fstab --noheadings --output SOURCE --mountpoint {point}").startswith("UUID=")
