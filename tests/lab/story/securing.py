"""Clusters with cluster_security: tls: who is let in, certificates that are renewed, and what cannot be undone."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError

from tests.lab.record import Node
from tests.lab.story import access
from tests.lab.story.scene import OURS, Scene
from tests.waiting import wait_until

_CLUSTER: Final = "ssd"
_INSIDE_ABOVE: Final = 1000
_ZOOKEEPER_PORT: Final = 2181
_WITHIN_S: Final = 60.0
_SHORT_S: Final = 10.0
_PLACES: Final = "/etc /opt/highwater /var/lib"


def closed(scene: Scene) -> str:
    """By clients that others wrote, from the controller."""
    port = OURS[_CLUSTER][0]
    inside = ",".join(f"{node.address}:{port + _INSIDE_ABOVE}" for node in scene.hosts)
    known = access.of_librdkafka(scene.keys)
    strangers = {
        "without TLS": {"bootstrap.servers": scene.bootstrap(_CLUSTER)},
        "without a login": {
            "bootstrap.servers": scene.bootstrap(_CLUSTER),
            "security.protocol": "SSL",
            "ssl.ca.location": access.authority(scene.keys),
        },
        "with a wrong password": {**scene.client(_CLUSTER), "sasl.password": "another"},
        "with another authority": {**scene.client(_CLUSTER), "ssl.ca.location": "probe"},
        "at the port of brokers": {**known, "bootstrap.servers": inside},
    }
    for how, properties in strangers.items():
        client = AdminClient({**properties, "log_level": 0})
        try:
            client.list_topics(timeout=_SHORT_S)
        except KafkaException:
            continue
        raise AssertionError(f"a client {how} came in")
    seen = (_reader(scene), _zookeeper(scene), _files(scene), _journals(scene))
    return f"{', '.join(strangers)}: refused; {'; '.join(seen)}"


def _reader(scene: Scene) -> str:
    """Who may read one topic sees that one alone, and writes to none."""
    admin = AdminClient(scene.client(_CLUSTER))
    admin.create_topics([NewTopic(access.READ_ONLY, 1, scene.copies)])[access.READ_ONLY].result(_WITHIN_S)
    properties = {**scene.client(_CLUSTER), **access.of_librdkafka(scene.keys, access.READER)}
    _wait(lambda: list(AdminClient(properties).list_topics(timeout=_SHORT_S).topics), [access.READ_ONLY])
    refused: list[str] = []
    producer = Producer({**properties, "delivery.timeout.ms": 20_000, "log_level": 0})
    producer.produce(
        access.READ_ONLY, b"x", on_delivery=lambda error, _: refused.append(error.name() if error else "written")
    )
    producer.flush(_WITHIN_S)
    assert refused == ["TOPIC_AUTHORIZATION_FAILED"], f"a reader's record: {refused}"
    admin.delete_topics([access.READ_ONLY])[access.READ_ONLY].result(_WITHIN_S)
    return "a reader sees its topic alone, and cannot write"


def _zookeeper(scene: Scene) -> str:
    servers = ",".join(f"{node.address}:{_ZOOKEEPER_PORT}" for node in scene.hosts)
    for how, client in {
        "without TLS": KazooClient(servers, timeout=_SHORT_S),
        "without a login": access.zookeeper(scene.keys, servers, logs_in=False),
    }.items():
        try:
            client.start(_SHORT_S)
            client.get_children("/")
        except (KazooException, KazooTimeoutError):
            continue
        finally:
            client.stop()
            client.close()
        raise AssertionError(f"ZooKeeper lets in who comes {how}")
    client = access.zookeeper(scene.keys, servers)
    client.start(_SHORT_S)
    try:
        root = f"/highwater/{_CLUSTER}"
        for path in (f"{root}/brokers/ids", f"{root}/brokers/topics", f"{root}/config"):
            acls = {(acl.id.scheme, acl.id.id, acl.perms) for acl in client.get_acls(path)[0]}
            assert acls == {("sasl", "broker", 31), ("world", "anyone", 1)}, f"{path} has the ACLs {acls}"
        for ask in (client.get, client.get_acls, client.get_children):
            try:
                ask(f"{root}/config/users")
            except NoAuthError:
                continue
            raise AssertionError(f"others may {ask.__name__} of the users")
    finally:
        client.stop()
        client.close()
    return "ZooKeeper is shut likewise, its znodes are the brokers'"


def _files(scene: Scene) -> str:
    """No file with a secret can be read by everybody, and no key of the authority is on a host."""
    for node in scene.hosts:
        listed = scene.run(node, "find /etc/highwater -type f -perm /007 -printf '%f\\n' | sort -u").split()
        assert set(listed) <= {"authority.pem", "base.yaml", "workload.yaml"}, f"{node.name}: all may read {listed}"
    key = (scene.keys / "authority.key").read_text("utf-8").splitlines()[1]
    for node in scene.hosts:
        # Compared here: sudo writes the command into the journal.
        found = scene.run(node, f"grep -rIA 1 -e 'BEGIN PRIVATE KEY' {_PLACES} 2>/dev/null || true")
        assert "/etc/highwater/security/broker.pem" in found, f"{node.name}: its own key was not found"
        assert key not in found, f"{node.name} has the key of the authority"
    modes = {path.name: path.stat().st_mode & 0o777 for path in scene.keys.iterdir() if path.name != ".lock"}
    assert set(modes.values()) == {0o600}, f"modes of keys on the controller: {modes}"
    return f"{len(modes)} keys on the controller for its owner alone"


def _journals(scene: Scene) -> str:
    """Nor does any journal have one, as it is or as it is written in a list or in JSON."""
    secrets = {path.name: path.read_text("utf-8").strip() for path in scene.keys.glob("cluster-*.secret")}
    secrets["the story's password"] = access.PASSWORD
    for node in scene.hosts:
        journal = scene.run(node, "journalctl --no-pager --output=cat")
        assert "Invoked with" in journal, f"{node.name}: the journal does not say which modules ran"
        processes = scene.run(node, "ps -eww -o args")
        for name, text in secrets.items():
            for written in (text, repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
                assert written not in journal, f"{node.name}: the journal has {name}"
                assert written not in processes, f"{node.name}: a process has {name} on its command line"
    return f"{len(secrets)} passwords in no journal and on no command line"


def renewed(scene: Scene) -> str:
    """Of a host: brokers serve the new certificate, and are the processes that they were."""
    node, port = scene.hosts[0], OURS[_CLUSTER][0]
    before, served = _processes(scene, node), _certificate(node, port)
    (scene.keys / f"host-{node.name}.pem").unlink()
    scene.operator.play("zookeeper.yml", "broker.yml", "-i", str(scene.inventory))
    wait_until(lambda: _certificate(node, port) != served, f"another certificate of {node.name}:{port}", _WITHIN_S)
    kept = ssl.PEM_cert_to_DER_cert((scene.keys / f"host-{node.name}.pem").read_text("utf-8"))
    assert _certificate(node, port) == kept, f"{node.name}: port {port} has not the certificate of the controller"
    assert _processes(scene, node) == before, f"{node.name}: brokers were restarted"
    scene.wait_until_whole({host.number for host in scene.hosts})
    again = scene.operator.play("zookeeper.yml", "broker.yml", "-i", str(scene.inventory))
    assert again.changed == 0, f"changed again: {sorted(task for _, task in again.changes)}"
    return f"{node.name}: another certificate, the same processes; the next run changed nothing"


def _processes(scene: Scene, node: Node) -> dict[str, str]:
    return {name: scene.run(node, f"systemctl show -p MainPID --value highwater-broker@{name}") for name in OURS}


def _certificate(node: Node, port: int) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((node.address, port), _SHORT_S) as plain, context.wrap_socket(plain) as secure:
        return secure.getpeercert(binary_form=True) or b""


def kept(scene: Scene) -> str:
    """What would leave a half is refused before anything is changed."""
    before = scene.each(scene.operator.files, scene.hosts)
    nowhere = scene.operator.store.directory / "other-keys"
    wrong: dict[str, tuple[dict[str, object], str]] = {
        "cluster_security=none": ({"cluster_security": "none"}, "has TLS and logins, and cluster_security is none"),
        "keys of another controller": ({"keys_directory": str(nowhere)}, "runs with keys of another authority"),
        "another password of brokers": (
            {"cluster_passwords": {"broker": "another", "bench": access.PASSWORD}},
            "brokers run with another password than cluster_passwords.broker",
        ),
    }
    for how, (variables, reason) in wrong.items():
        for playbook in ("zookeeper.yml", "broker.yml"):
            played = scene.play(playbook, "-e", json.dumps(variables), status=None)
            text = " ".join(played.out.split())
            assert reason in text, f"{playbook} does not say why it ended with {how}"
            assert played.changed == 0, f"{playbook} with {how} has changed something"
    assert not nowhere.exists(), "keys were made before it was refused"
    assert scene.each(scene.operator.files, scene.hosts) == before, "something was changed before it was refused"
    return f"{', '.join(wrong)}: refused, with nothing changed"


def _wait(get: Callable[[], list[str]], wanted: list[str]) -> None:
    wait_until(lambda: get() == wanted, lambda: f"found {get()}, wanted {wanted}", _WITHIN_S)
