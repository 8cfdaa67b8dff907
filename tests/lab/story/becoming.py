"""From bare hosts to a cluster that serves: what is refused, what check mode says, what is done, and that it is so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tests.lab.record import Node
from tests.lab.story import announcing, looking
from tests.lab.story.scene import Scene

_NOBODY_THERE: Final = "192.0.2.1"
_UNKNOWN_SYSTEM: Final = "ID=plan9\\nNAME=Plan9\\nVERSION_ID=4\\n"


def wrong_use(scene: Scene) -> str:
    """Every fault is told in one line, with the host, the thing and the way out, before anything is changed."""
    first, *rest = scene.hosts
    last = scene.hosts[-1]
    missing_disk = {"device": "/dev/disk/by-id/not-there", "mount_point": "/data/ssd1", "medium": "ssd"}
    wrong: dict[str, dict[str, object]] = {
        first.name: {"storage_disks": [missing_disk], "preflight_min_memory_bytes": {"brokers": 1 << 50}},
        **{node.name: {"broker_id": first.number, "zookeeper_id": node.number} for node in rest[:1]},
    }
    expected = {
        "a missing disk": (f"{first.name}: ", "/dev/disk/by-id/not-there"),
        "too little memory": (f"{first.name}: ", "memory"),
        "another system": (f"{last.name}: ", "Plan9"),
    }
    if rest:
        expected |= {
            "two hosts with one broker_id": ("broker_id 1 twice", first.name),
            "a disk with data": (f"{last.name}: ", "lab-hdd"),
        }
    with altered(scene, last, _another_system), altered(scene, last, _disk_with_data):
        _refused(scene, wrong, expected)
    with altered(scene, last, _no_python):
        _refused(scene, {}, {"no Python": (f"{last.name}", "python3")})
    _refused(scene, {last.name: {"ansible_host": _NOBODY_THERE}}, {"a host that cannot be reached": (last.name, "ssh")})
    if scene.is_secure:
        told = _wrong_security(scene)
        return f"{told}, {', '.join(expected)}, no Python, a host that cannot be reached: refused, nothing changed"
    return f"{', '.join([*expected, 'no Python, a host that cannot be reached'])}: refused, nothing changed"


def _wrong_security(scene: Scene) -> str:
    first = scene.hosts[0].name
    _refused(scene, {first: {"cluster_security": "tsl"}}, {"another security": (first, "cluster_security")})
    wrong: dict[str, object] = {
        "cluster_users": [{"name": "ada", "password": "{{ vault_of_nobody }}"}],
        "cluster_passwords": {"bench": ""},
    }
    _refused(
        scene,
        {first: wrong},
        {"no vault": ("cluster_users", "vault_of_nobody"), "no password": ("cluster_passwords.bench", "is empty")},
    )
    return "an unknown cluster_security, a variable of no vault, an empty password"


def _refused(scene: Scene, wrong: dict[str, dict[str, object]], expected: dict[str, tuple[str, str]]) -> None:
    before = scene.each(scene.operator.files, scene.hosts)
    scene.write_inventory(scene.hosts, [], wrong)
    try:
        played = scene.play("site.yml", "-e", "ansible_ssh_timeout=5", status=None)
    finally:
        scene.write_inventory(scene.hosts, [])
    lines = [" ".join(line.split()) for line in played.out.splitlines()]
    for what, (host, thing) in expected.items():
        told = [line for line in lines if host in line and thing in line]
        assert told, f"{what}: no line of site.yml names {host} and {thing}"
    assert played.changed == 0, "something was changed before it was refused"
    assert scene.each(scene.operator.files, scene.hosts) == before, "something was changed before it was refused"


@contextmanager
def altered(scene: Scene, node: Node, how: Callable[[], tuple[str, str]]) -> Iterator[None]:
    """With a command run on a host, and undone by another."""
    do, undo = how()
    scene.run(node, do)
    try:
        yield
    finally:
        scene.run(node, undo)


def _another_system() -> tuple[str, str]:
    return (
        f"mv /etc/os-release /etc/os-release.kept; printf '{_UNKNOWN_SYSTEM}' > /etc/os-release",
        "mv /etc/os-release.kept /etc/os-release",
    )


def _disk_with_data() -> tuple[str, str]:
    return "mkfs.ext4 -q /dev/disk/by-id/lab-hdd", "wipefs --all --quiet /dev/disk/by-id/lab-hdd"


def _no_python() -> tuple[str, str]:
    return (
        "mkdir /usr/bin/.kept; mv /usr/bin/python3* /usr/bin/.kept/",
        "mv /usr/bin/.kept/* /usr/bin/; rmdir /usr/bin/.kept",
    )


def check_mode(scene: Scene) -> str:
    """On bare hosts: it says what will change, and changes nothing."""
    scene.before = scene.each(scene.seen)
    scene.announced = scene.play("site.yml", "--check", "--diff").changes
    for name, now in scene.each(scene.seen, scene.hosts).items():
        assert (changed := now.differing(scene.before[name])) == {}, f"check mode has changed {name}: {changed}"
    return f"{sum(scene.announced.values())} changes announced, none made"


def site(scene: Scene) -> str:
    """What check mode said is what changes."""
    played = scene.play("site.yml", "--diff")
    not_announced = announcing.not_announced(scene.announced, played.changes)
    not_done = announcing.not_done(scene.announced, played.changes)
    told = [
        *(f"{host}: not announced: {task}" for host, task in not_announced),
        *(f"{host}: announced, and not done: {task}" for host, task in not_done),
    ]
    assert told == [], "; ".join(told)
    return f"{sum(played.changes.values())} changes, all of them announced, and all that was announced"


def second_run(scene: Scene) -> str:
    played = scene.play("site.yml")
    assert played.changed == 0, f"changed again: {sorted(task for _, task in played.changes)}"
    return f"changed=0 on {', '.join(node.name for node in scene.hosts)}"


def looked_at(scene: Scene) -> str:
    return "; ".join([looking.hosts(scene), looking.ensemble(scene), looking.clients(scene)])
