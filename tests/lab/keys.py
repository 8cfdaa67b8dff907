"""How the lab's hosts are reached: one key for whoever works with them, one for each host, and files that name both."""

from __future__ import annotations

from pathlib import Path

from highwater.bench.storage.block_tools import run
from tests.lab.record import Node, Record, Store

USER = "lab"


def make(path: Path, comment: str) -> None:
    """A key pair, made when it is not there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path))


def public(path: Path) -> str:
    return path.with_name(f"{path.name}.pub").read_text(encoding="utf-8").strip()


def host_key(store: Store, node: Node) -> Path:
    return store.of_node(node) / "identity/etc/ssh/ssh_host_ed25519_key"


def write_client_files(store: Store, record: Record) -> None:
    """For `ssh -F`, and for Ansible; all host keys are there."""
    lines = []
    for node in record.nodes:
        kind, key, *_ = public(host_key(store, node)).split()
        lines.append(f"{node.address},{node.name} {kind} {key}")
    store.known_hosts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    store.ssh_config.write_text(
        "".join(f"Host {node.name}\n  HostName {node.address}\n" for node in record.nodes)
        + f"Host *\n  User {USER}\n  IdentityFile {store.key}\n  IdentitiesOnly yes\n  ConnectTimeout 5\n"
        f"  UserKnownHostsFile {store.known_hosts}\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n",
        encoding="utf-8",
    )
