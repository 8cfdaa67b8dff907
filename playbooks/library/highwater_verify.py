#!/usr/bin/python
"""Compares a host with what is wanted, with the commands of its own system only."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: highwater_verify
short_description: Hold a host against what is wanted of it, by the commands of its own system
description:
  - Asks findmnt, blkid, swapon, sysctl, udevadm, systemctl, ss and ZooKeeper's four-letter words, and reads
    C(/proc/PID/limits).
  - Changes nothing.
options:
  mounts:
    description: Data disks as C(storage_disks) names them (device, mount_point, filesystem, mount_options).
    type: list
    elements: dict
    default: []
  swap_off:
    description: Whether swap is to be off. Not judged in containers, where it is that of the machine below.
    type: bool
    default: true
  kept_sysctls:
    description: File whose lines are to be what the kernel has; nothing when it is not there.
    type: path
    default: /etc/sysctl.d/90-highwater.conf
  kept_rules:
    description: File of udev rules whose values the devices of O(mounts) are to have.
    type: path
    default: /etc/udev/rules.d/90-highwater.rules
  sysctls:
    description: More settings of the kernel, by key.
    type: dict
    default: {}
  services:
    description: >-
      Units that are to run and to start at boot (unit), with what they are to have, user, ports (a list), whether
      their file limit is to be that of the unit (limits), and of brokers whether they are to run compiled modules
      (compiled, as C(broker_compiled)).
    type: list
    elements: dict
    default: []
  spark_master:
    description: Address of the pages of this host's Spark master, as C(host:port).
    type: str
  spark_workers:
    description: How many workers it is to have.
    type: int
    default: 0
  zookeeper:
    description: Address and port of this host's ZooKeeper, as C(host:port).
    type: str
  zookeeper_members:
    description: How many members its ensemble has.
    type: int
    default: 1
  zookeeper_authority:
    description: File with the authority that signed the certificate of ZooKeeper, where it has TLS; empty for none.
    type: path
    default: ""
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Look at a broker
  highwater_verify:
    mounts:
      - {device: /dev/disk/by-id/ata-EXAMPLE, mount_point: /data/ssd1}
    services:
      - {unit: highwater-broker@ssd.service, user: highwater, ports: [9092]}
"""

RETURN = r"""
rows:
  description: What was wanted, what was found, by which command, and whether they agree (good is null if not judged).
  returned: always
  type: list
  elements: dict
differences:
  description: A line for each row that is not as wanted.
  returned: always
  type: list
  elements: str
lines:
  description: A line for each row.
  returned: always
  type: list
  elements: str
"""

_ANSWER_TIMEOUT_SECONDS = 5


class Row(NamedTuple):
    """One thing that was looked at. `good` is None where it cannot be judged here."""

    what: str
    wanted: str
    found: str
    by: str
    good: bool | None

    def line(self) -> str:
        if self.good is None:
            return f"–    {self.what}: {self.found}"
        if self.good:
            return f"ok   {self.what}: {self.found}"
        return f"BAD  {self.what}: wanted {self.wanted}, found {self.found} (by {self.by})"


class HostCommands:
    """Runs the host's own commands."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self.in_container = self.run("systemd-detect-virt", "--container", "--quiet")[0] == 0

    def run(self, *argv: str) -> tuple[int, str]:
        """Exit status and output, stripped; a command that is not there has status 127."""
        try:
            status, out, err = self._module.run_command(
                list(argv), environ_update={"LC_ALL": "C"}, handle_exceptions=False
            )
        except FileNotFoundError:
            return 127, f"{argv[0]} is not installed"
        return status, (out.strip() or err.strip())


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "mounts": {"type": "list", "elements": "dict", "default": []},
            "swap_off": {"type": "bool", "default": True},
            "kept_sysctls": {"type": "path", "default": "/etc/sysctl.d/90-highwater.conf"},
            "kept_rules": {"type": "path", "default": "/etc/udev/rules.d/90-highwater.rules"},
            "sysctls": {"type": "dict", "default": {}},
            "services": {"type": "list", "elements": "dict", "default": []},
            "spark_master": {"type": "str"},
            "spark_workers": {"type": "int", "default": 0},
            "zookeeper": {"type": "str"},
            "zookeeper_members": {"type": "int", "default": 1},
            "zookeeper_authority": {"type": "path", "default": ""},
        },
        supports_check_mode=True,
    )
    host, wanted = HostCommands(module), module.params
    rows = [row for mount in wanted["mounts"] for row in mount_rows(host, mount)]
    if wanted["swap_off"]:
        rows.append(swap_row(host))
    rows += [sysctl_row(host, *pair) for pair in sysctls_of(Path(wanted["kept_sysctls"]), wanted["sysctls"])]
    rows += [row for mount in wanted["mounts"] for row in queue_rows(host, mount, wanted["kept_rules"])]
    rows += [row for service in wanted["services"] for row in service_rows(host, service)]
    if wanted["spark_master"]:
        rows.append(spark_row(wanted["spark_master"], wanted["spark_workers"]))
    if wanted["zookeeper"]:
        rows += zookeeper_rows(wanted["zookeeper"], wanted["zookeeper_members"], wanted["zookeeper_authority"])
    module.exit_json(
        changed=False,
        rows=[row._asdict() for row in rows],
        lines=[row.line() for row in rows],
        differences=[row.line() for row in rows if row.good is False],
    )


def mount_rows(host: HostCommands, wanted: dict[str, Any]) -> Iterator[Row]:
    """That the disk, and no other, is mounted there with these options, now and by its UUID at boot."""
    point = wanted["mount_point"].rstrip("/")
    filesystem, options = wanted.get("filesystem", "ext4"), wanted.get("mount_options", ["noatime"])
    text = f"{filesystem} of {wanted['device']}, {','.join(options)}"
    live = ("findmnt", "--noheadings", "--output", "SOURCE,FSTYPE,OPTIONS", "--mountpoint", point)
    status, out = host.run(*live)
    if status != 0:
        yield Row(f"mount {point}", text, "not mounted", shlex.join(live), good=False)
        return
    source, found_filesystem, found_options = out.splitlines()[-1].split(None, 2)
    good = (
        os.path.realpath(source) == os.path.realpath(wanted["device"])
        and found_filesystem == filesystem
        and set(options) <= {"defaults", *found_options.split(",")}
    )
    yield Row(f"mount {point}", text, f"{found_filesystem} of {source}, {found_options}", shlex.join(live), good=good)
    _, uuid = host.run("blkid", "--output", "value", "--match-tag", "UUID", source)
    at_boot = ("findmnt", "--fstab", "--noheadings", "--output", "SOURCE", "--mountpoint", point)
    status, out = host.run(*at_boot)
    found = out if status == 0 else "no line in /etc/fstab"
    yield Row(f"mount {point} at boot", f"UUID={uuid}", found, shlex.join(at_boot), good=found == f"UUID={uuid}")


def swap_row(host: HostCommands) -> Row:
    command = ("swapon", "--show=NAME", "--noheadings")
    status, out = host.run(*command)
    if host.in_container:
        return Row(
            "swap", "none", "that of the machine below, not judged in a container", shlex.join(command), good=None
        )
    found = ", ".join(out.split()) or "none"
    return Row("swap", "none", found, shlex.join(command), good=status == 0 and not out)


def sysctls_of(kept: Path, more: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and value of each line, as sysctl.d(5) has them, and of those that somebody asked for besides."""
    lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
    for line in lines:
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            yield key.strip().removeprefix("-"), value.strip()
    for key, value in more.items():
        yield key, str(value)


def sysctl_row(host: HostCommands, key: str, wanted: str) -> Row:
    command = ("sysctl", "--values", key)
    _, out = host.run(*command)
    found = " ".join(out.split())
    return Row(key, wanted, found, shlex.join(command), good=found == " ".join(wanted.split()))


def queue_rows(host: HostCommands, mount: dict[str, Any], rules: str) -> Iterator[Row]:
    """What our rules give this disk by udev's own reading of them, beside what its queue has."""
    if host.in_container or not Path(rules).exists():
        return
    device = os.path.realpath(mount["device"])
    _, parent = host.run("lsblk", "--nodeps", "--noheadings", "--output", "PKNAME", device)
    name = parent or device.rpartition("/")[2]
    command = ("udevadm", "test", "--action=change", f"/sys/class/block/{name}")
    _, out = host.run(*command)
    writes = re.findall(rf"{re.escape(rules)}:\d+ ATTR '([^']+)' writing '([^']*)'", out)
    if not writes:
        yield Row(f"queue of {name}", f"a rule of {rules}", "none for it", shlex.join(command), good=None)
    for path, value in writes:
        text = Path(path).read_text("utf-8").strip() if Path(path).exists() else "nothing"
        # A choice is shown as all there is, with brackets around what is chosen.
        found = match[1] if (match := re.search(r"\[([^][]+)\]", text)) else text
        yield Row(path.removeprefix("/sys/"), value, found, path, good=found == value)


def service_rows(host: HostCommands, wanted: dict[str, Any]) -> Iterator[Row]:
    """That it runs, starts at boot, and has the user, limits and ports that it should."""
    unit = wanted["unit"]
    names = ("ActiveState", "UnitFileState", "MainPID", "NeedDaemonReload", "LimitNOFILESoft")
    command = ("systemctl", "show", f"--property={','.join(names)}", unit)
    _, out = host.run(*command)
    shown = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    state = f"{shown.get('ActiveState', 'unknown')}, {shown.get('UnitFileState') or 'not there'}"
    by = f"systemctl show {unit}"
    yield Row(unit, "active, enabled", state, by, good=state == "active, enabled")
    pid = shown.get("MainPID", "0")
    if pid == "0":
        return
    if shown.get("NeedDaemonReload") == "yes":
        yield Row(f"{unit}: its files", "read", "changed since systemd read them", by, good=False)
    if user := wanted.get("user"):
        command = ("ps", "--format", "user:32=", "--pid", pid)
        _, found = host.run(*command)
        yield Row(f"{unit}: its user", user, found, shlex.join(command), good=found == user)
    if wanted.get("limits", True):
        yield limit_row(host, unit, shown.get("LimitNOFILESoft", "?"), Path(f"/proc/{pid}/limits"))
    if compiled := wanted.get("compiled"):
        yield compiled_row(unit, compiled, Path(f"/proc/{pid}/maps"))
    for port in wanted.get("ports") or ():
        command = ("ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes", f"sport = :{port}")
        _, out = host.run(*command)
        owners = sorted(set(re.findall(r"pid=(\d+)", out)))
        found = f"listens (process {', '.join(owners)})" if owners else "nobody listens"
        good = pid in owners
        yield Row(f"{unit}: port {port}", f"listens (process {pid})", found, shlex.join(command), good=good)


def limit_row(host: HostCommands, unit: str, wanted: str, limits: Path) -> Row:
    """That its process may have as many files open as its unit says; or more, as Java raises its own limit."""
    what, (found, _) = f"{unit}: open files", open_files(limits)
    _, most = open_files(Path("/proc/1/limits"))
    if host.in_container and "unlimited" not in (found, most) and int(found) == int(most):
        return Row(what, f"{wanted} or more", f"{found}, all that this container was given", str(limits), good=None)
    good = found == "unlimited" or (wanted.isdecimal() and int(found) >= int(wanted))
    return Row(what, f"{wanted} or more", found, str(limits), good=good)


def compiled_row(unit: str, wanted: str, maps: Path) -> Row:
    """Return a row by what the process has loaded; the role broker says on which hosts V(auto) compiles."""
    lines = maps.read_text("utf-8").splitlines()
    loaded = any("/site-packages/highwater/broker/" in line and line.endswith(".so") for line in lines)
    found = "compiled" if loaded else "Python"
    expected = {"true": "compiled", "false": "Python"}.get(wanted, found)
    good = None if wanted == "auto" else found == expected
    return Row(f"{unit}: its hot modules", expected, found, str(maps), good=good)


def open_files(limits: Path) -> tuple[str, str]:
    """The soft and the hard limit, as C(/proc) shows them."""
    match = re.search(r"^Max open files\s+(\S+)\s+(\S+)", limits.read_text("utf-8"), re.MULTILINE)
    assert match is not None
    return match[1], match[2]


def zookeeper_rows(address: str, members: int, authority: str = "") -> Iterator[Row]:
    """That it says it is well, and that it is part of an ensemble that is complete."""
    found = four_letters(address, "ruok", authority)
    yield Row(f"ZooKeeper {address}", "imok", found, "ruok", good=found == "imok")
    numbers = dict(
        line.split("\t", 1) for line in four_letters(address, "mntr", authority).splitlines() if "\t" in line
    )
    part = numbers.get("zk_server_state", "no answer")
    known = ("leader", "follower") if members > 1 else ("standalone",)
    yield Row(f"ZooKeeper {address}: its part", " or ".join(known), part, "mntr", good=part in known)
    if part == "leader":
        followers = numbers.get("zk_synced_followers", "?").partition(".")[0]
        wanted = str(members - 1)
        yield Row(f"ZooKeeper {address}: followers in step", wanted, followers, "mntr", good=followers == wanted)


def four_letters(address: str, word: str, authority: str = "") -> str:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with ExitStack() as stack:
            plain = socket.create_connection((host, int(port)), timeout=_ANSWER_TIMEOUT_SECONDS)
            connection = stack.enter_context(plain)
            if authority:
                context = ssl.create_default_context(cafile=authority)
                connection = stack.enter_context(context.wrap_socket(plain, server_hostname=host))
            connection.sendall(word.encode())
            chunks = list(iter(lambda: connection.recv(4096), b""))
    except OSError as error:
        return f"no answer ({error})"
    return b"".join(chunks).decode("utf-8", "replace").strip()


def spark_row(address: str, workers: int) -> Row:
    """How many workers the master itself counts as alive."""
    wanted = f"ALIVE, {workers} workers alive"
    connection = http.client.HTTPConnection(address, timeout=_ANSWER_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/json/")
        state = json.load(connection.getresponse())
        found = f"{state['status']}, {state['aliveworkers']} workers alive"
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        found = f"no answer ({error})"
    finally:
        connection.close()
    return Row("Spark master", wanted, found, f"http://{address}/json/", good=found == wanted)


if __name__ == "__main__":
    main()
