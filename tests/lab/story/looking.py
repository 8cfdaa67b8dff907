"""Hosts and clusters looked at with tools that others wrote: nothing of the playbooks' own."""

from __future__ import annotations

import re
import socket
import ssl
from contextlib import ExitStack
from typing import Final

from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kazoo.client import KazooClient

from tests.lab.ledger import Ledger
from tests.lab.record import Node
from tests.lab.story import access
from tests.lab.story.scene import DISKS, OURS, Scene
from tests.waiting import wait_until

_OPEN_FILES: Final = 100_000
_ZOOKEEPER_PORT: Final = 2181
_RECORDS: Final = 200
_WITHIN_S: Final = 60.0
_TOPIC: Final = "story-looked-at"


def disks(scene: Scene, node: Node) -> str:
    """findmnt: a file system of its own on each disk, by UUID in fstab, with the options that are wanted."""
    for point, name in DISKS.items():
        device = scene.run(node, f"readlink -f /dev/disk/by-id/{name}")
        source, kind, options = scene.run(node, f"findmnt -n -o SOURCE,FSTYPE,OPTIONS --mountpoint {point}").split()
        assert (source, kind) == (device, "ext4"), f"{node.name}: {point} is {kind} of {source}"
        assert "noatime" in options.split(","), f"{node.name}: {point} has {options}"
        uuid = scene.run(node, f"blkid -s UUID -o value {device}")
        kept = scene.run(node, f"findmnt -n --fstab -o SOURCE --mountpoint {point}")
        assert kept == f"UUID={uuid}", f"{node.name}: fstab has {kept} on {point}"
    return f"{len(DISKS)} disks mounted by UUID"


def swap(scene: Scene, node: Node) -> str:
    assert (used := scene.run(node, "swapon --show --noheadings")) == "", f"{node.name}: swaps to {used}"
    return "no swap"


def settings(scene: Scene, node: Node) -> str:
    """sysctl: every setting that is kept for the next boot is that of now."""
    lines = scene.run(node, "grep -hv '^ *\\(#\\|$\\)' /etc/sysctl.d/90-highwater.conf").splitlines()
    assert lines, f"{node.name}: /etc/sysctl.d/90-highwater.conf is empty"
    kept = {key.strip(): value.split() for key, _, value in (line.partition("=") for line in lines)}
    shown = scene.run(node, f"sysctl {' '.join(kept)}").splitlines()
    now = {key.strip(): value.split() for key, _, value in (line.partition("=") for line in shown)}
    different = [f"{key} is {now.get(key)} and not {value}" for key, value in kept.items() if now.get(key) != value]
    assert different == [], f"{node.name}: {'; '.join(different)}"
    return f"{len(kept)} sysctls"


def _require_listening(scene: Scene, node: Node, unit: str, port: int, process: str) -> None:
    """A unit may be active before it listens: Spark's say nothing to systemd."""
    listens = re.compile(rf":{port} .*pid={process},")
    what = f"{node.name}: {unit} listens on {port}"
    wait_until(lambda: listens.search(scene.run(node, "ss -Hltnp")), what, _WITHIN_S)


def services(scene: Scene, node: Node) -> str:
    """systemctl, ss and /proc: each service runs, starts at boot, has its ports, its limits and its user."""
    wanted = {
        "zookeeper.service": (_ZOOKEEPER_PORT, "zookeeper"),
        **{f"highwater-broker@{name}.service": (port, "highwater") for name, (port, _) in OURS.items()},
        **{f"reference-kafka@{name}.service": (port, "reference-kafka") for name, (port, _) in scene.reference.items()},
        "spark-worker.service": (7078, "spark"),
    }
    if node == scene.hosts[0]:
        wanted["spark-master.service"] = (7077, "spark")
    most = int(scene.run(node, "awk '/Max open files/ {print $5}' /proc/1/limits"))
    for unit, (port, user) in wanted.items():
        shown = f"systemctl is-active {unit}; systemctl is-enabled {unit}; systemctl show -p MainPID --value {unit}"
        *state, process = scene.run(node, shown).split()
        assert state == ["active", "enabled"], f"{node.name}: {unit} is {' and '.join(state)}"
        _require_listening(scene, node, unit, port, process)
        owner = scene.run(node, f"stat -c %U /proc/{process}")
        assert owner == user, f"{node.name}: {unit} runs as {owner}"
        if unit.startswith(("highwater-broker@", "reference-kafka@")):
            limit = int(scene.run(node, f"awk '/Max open files/ {{print $4}}' /proc/{process}/limits"))
            assert limit >= min(_OPEN_FILES, most), f"{node.name}: {unit} may open {limit} files"
    failed = scene.run(node, "systemctl list-units --failed --plain --no-legend")
    assert failed == "", f"{node.name}: {failed}"
    return f"{len(wanted)} services"


def ensemble(scene: Scene) -> str:
    """ZooKeeper's own words, and what is in it by kazoo: one leader, and the brokers of each cluster."""
    modes = [_mode(scene, node) for node in scene.hosts]
    wanted = ["follower"] * (len(modes) - 1) + ["leader"] if len(modes) > 1 else ["standalone"]
    assert sorted(modes) == wanted, f"the members of ZooKeeper are {', '.join(modes)}"
    servers = ",".join(f"{node.address}:{_ZOOKEEPER_PORT}" for node in scene.hosts)
    client = access.zookeeper(scene.keys, servers) if scene.is_secure else KazooClient(hosts=servers)
    client.start(_WITHIN_S)
    try:
        paths = [
            *(f"/highwater/{cluster}" for cluster in OURS),
            *(f"/reference/{cluster}" for cluster in scene.reference),
        ]
        for path in paths:
            ids = sorted(map(int, client.get_children(f"{path}/brokers/ids")))
            assert ids == [node.number for node in scene.hosts], f"{path} has the brokers {ids}"
    finally:
        client.stop()
        client.close()
    return f"ZooKeeper is {' + '.join(modes)} and has {len(paths)} clusters of {len(scene.hosts)}"


def clients(scene: Scene) -> str:
    """From the controller: kafka-python produces with acks=all, librdkafka consumes."""
    clusters = {f"highwater {name}": port for name, (port, _) in OURS.items()}
    clusters |= {f"Apache Kafka {name}": port for name, (port, _) in scene.reference.items()}
    settings = access.of_kafka_python(scene.keys) if scene.is_secure else {}
    for name, port in clusters.items():
        servers = [f"{node.address}:{port}" for node in scene.hosts]
        ledger = Ledger(",".join(servers), _TOPIC, connection=scene.connection)
        ledger.create_topic(len(scene.hosts), scene.copies)
        producer = KafkaProducer(bootstrap_servers=servers, acks="all", **settings)
        for answer in [producer.send(_TOPIC, str(number).encode()) for number in range(_RECORDS)]:
            answer.get(_WITHIN_S)
        producer.close()
        read = ledger.consumed()
        assert read.keys() == set(range(_RECORDS)), f"{name}: {len(read)} of {_RECORDS} records came back"
        admin = AdminClient(ledger.client)
        admin.delete_topics([_TOPIC])[_TOPIC].result(_WITHIN_S)
    return f"kafka-python to librdkafka, {_RECORDS} records with acks=all through {', '.join(clusters)}"


def hosts(scene: Scene, nodes: list[Node] | None = None) -> str:
    """All of the above that is asked of a host."""
    looks = (disks, swap, settings, services)
    found = scene.each(lambda node: "; ".join(look(scene, node) for look in looks), nodes or scene.hosts)
    return "; ".join(f"{name}: {seen}" for name, seen in found.items())


def _mode(scene: Scene, node: Node) -> str:
    with ExitStack() as stack:
        plain = socket.create_connection((node.address, _ZOOKEEPER_PORT), timeout=_WITHIN_S)
        connection = stack.enter_context(plain)
        if scene.is_secure:
            tls = ssl.create_default_context(cafile=access.authority(scene.keys))
            connection = stack.enter_context(tls.wrap_socket(plain, server_hostname=node.address))
        connection.sendall(b"srvr")
        answer = b""
        while part := connection.recv(4096):
            answer += part
    found = re.search(r"Mode: (\w+)", answer.decode())
    return found[1] if found else answer.decode().strip() or "silent"
