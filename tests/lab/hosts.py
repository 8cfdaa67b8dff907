"""One host of a lab: Debian's tree below a layer of its own, booted by systemd-nspawn.

The layer is mounted in a namespace that ends with the host, so that nothing of it is mounted on this machine. What a
host may not do, as it would reach beyond it: make device nodes (it has those of its two disks), set the clock, switch
swap on or off, write to /sys and to /proc/sys outside of its own network.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from tests.lab import disks, groups, keys, processes, proxy
from tests.lab.record import Node, Record, Store, held

_READY_WITHIN_S: Final = 120.0
_POLL_S: Final = 0.1
_NSPAWN: Final = Path("/run/systemd/nspawn")

# nspawn's exit status for a host that wants to be booted again, where whoever started it has to do so.
_REBOOT: Final = 133
# $1 is the host's directory, $2 the image, $3 the groups that the machine has to itself, and the rest is what boots it.
# Each boot finds its groups new: those that an earlier one has divided take no process any more in cgroup v2.
# A layer that is not synced is not mounted again without being told so.
_MOUNT_AND_BOOT: Final = f"""
set -eu
rm -rf "$1/work/work/incompat"
mount -t overlay lab -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work,volatile" "$1/root"
cp -r --preserve=mode "$1/identity/." "$1/root/"
groups=$3
shift 3
status={_REBOOT}
while [ "$status" = {_REBOOT} ]; do
    for group in $groups; do
        [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {{}} +
        mkdir "$group"
    done
    status=0
    "$@" || status=$?
done
exit "$status"
"""


def prepare(store: Store, record: Record, node: Node) -> None:
    """The files that make it this host and no other."""
    directory = store.of_node(node)
    for name in ("upper", "work", "root", "by-id"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "root").chmod(0o755)
    (directory / "upper").chmod(0o755)
    identity = directory / "identity"
    keys.make(keys.host_key(store, node), node.name)
    names = "".join(f"{other.address} {other.name}\n" for other in record.nodes)
    machine_id = uuid.uuid5(uuid.NAMESPACE_OID, str(directory)).hex
    files = {
        "etc/hostname": f"{node.name}\n",
        "etc/hosts": f"127.0.0.1 localhost\n{names}",
        "etc/machine-id": f"{machine_id}\n",
        "etc/ssh/lab_authorized_keys": f"{keys.public(store.key)}\n",
        "etc/apt/apt.conf.d/90lab-proxy": f'Acquire::http::Proxy "http://{record.gateway}:{proxy.PORT}";\n',
        "etc/systemd/network/10-lab.network": (
            f"[Match]\nType=ether\n\n[Network]\nAddress={node.address}/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
        ),
    }
    for name, text in files.items():
        path = identity / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
    for path in (identity, *(path for path in identity.rglob("*") if path.is_dir())):
        path.chmod(0o755)


def start(store: Store, record: Record, node: Node) -> None:
    """Boot it; its disks are attached, its bridge and its groups are there."""
    directory = store.of_node(node)
    binds = []
    for disk, device in disks.devices(store, node).items():
        link = directory / "by-id" / f"lab-{disk}"
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../{device.name}")
        binds.append(f"--bind={device.path}")
    boot = (
        "systemd-nspawn",
        "--quiet",
        "--boot",
        "--keep-unit",
        "--register=no",
        "--settings=no",
        f"--directory={directory / 'root'}",
        f"--machine={node.machine}",
        f"--hostname={node.name}",
        f"--network-bridge={record.bridge}",
        "--drop-capability=CAP_MKNOD",
        *binds,
        f"--bind-ro={directory / 'by-id'}:/dev/disk/by-id",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=read-only",
    )
    of_node = groups.make(node.lab, node.name, is_divided=True)
    of_machine = [path / "machine" for path in of_node]
    script = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _MOUNT_AND_BOOT, "sh")
    given = (str(directory), record.image, " ".join(map(str, of_machine)))
    processes.start(
        [path / "watch" for path in of_node],
        (*script, *given, *processes.in_groups(of_machine, boot)),
        store.console(node),
        {"SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"},
    )


def is_up(node: Node) -> bool:
    return bool(groups.processes(node.lab, node.name))


def wait_until_ready(store: Store, node: Node, patience: int = 1) -> str:
    """What its systemd says of itself once it has booted: running, or degraded. Raises UsageError.

    patience: how many times slower than a host of this kind it may be.
    """
    deadline_s = time.monotonic() + patience * _READY_WITHIN_S
    while time.monotonic() < deadline_s:
        if _answers(node):
            done = run(store, node, "systemctl is-system-running --wait", deadline_s - time.monotonic())
            if done.returncode != 255 and done.stdout.strip() in ("running", "degraded"):
                return done.stdout.strip()
        elif not is_up(node):
            break
        time.sleep(_POLL_S)
    how = "has not booted" if is_up(node) else "ended while it booted"
    raise UsageError(f"{node.name} {how}: {_last_line(store.console(node))}; its whole console: {store.console(node)}")


def run(store: Store, node: Node, command: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """A command on a host, over ssh; exit status 255 is ssh's own."""
    whole = ssh(store, node, [command])
    try:
        return subprocess.run(
            whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=max(timeout_s, 1.0), check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(whole, 255, "", f"no answer within {timeout_s:.0f} s")


def ssh(store: Store, node: Node, arguments: Sequence[str]) -> list[str]:
    return ["ssh", "-F", str(store.ssh_config), node.name, *arguments]


def remove(node: Node) -> None:
    """End it, and what nspawn leaves of a machine that was killed."""
    groups.remove(node.lab, node.name)
    shutil.rmtree(_NSPAWN / "propagate" / node.machine, ignore_errors=True)
    for path in (_NSPAWN / "locks").glob("*"):
        with held(path, wait=False) as is_nobodys:
            if is_nobodys:
                path.unlink(missing_ok=True)
    for path in (_NSPAWN / "propagate", _NSPAWN / "locks", _NSPAWN):
        with suppress(OSError):  # not empty: another machine's
            path.rmdir()


def _answers(node: Node) -> bool:
    try:
        with socket.create_connection((node.address, 22), timeout=1.0):
            return True
    except OSError:
        return False


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "its console is empty"
