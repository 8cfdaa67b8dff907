"""Make a lab of Debian hosts on this machine, work with it, take it away.

    python -m tests.lab up --hosts 3                                  # as root; the first time two minutes more
    python -m tests.lab run -- ansible-playbook site.yml --diff       # in playbooks/, with the lab's inventory
    python -m tests.lab ssh node1 systemctl status
    python -m tests.lab test                                          # on labs of its own
    python -m tests.lab down

Every command takes --name for another lab than the default one, several at once. Exit status 2: it cannot be done.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from highwater.common.errors import UsageError
from tests.lab import hosts, image, inventory, making, testing
from tests.lab.record import DEFAULT_LAB, Record, Store
from tests.lab.telling import tell


def existing(store: Store) -> Record:
    record = store.read()
    if record is None or not record.is_whole:
        raise UsageError(f"there is no lab {store.name}; make it: python -m tests.lab up --name {store.name} --hosts 1")
    return record


def up(store: Store, options: argparse.Namespace) -> int:
    started_s = time.monotonic()
    record = making.up(store, options.hosts, tell, own_kernel=options.own_kernel, suite=options.suite)
    took_s = time.monotonic() - started_s
    tell(f"{record.hosts} host(s) of {store.name} after {took_s:.1f} s; inventory: {store.inventory}")
    return 0


def down(store: Store, _: argparse.Namespace) -> int:
    tell(f"the lab {store.name} is gone" if making.down(store) else f"there is no lab {store.name}")
    return 0


def status(store: Store, _: argparse.Namespace) -> int:
    """Exit status 1 when a host does not run."""
    record = existing(store)
    print(f"{store.name}: {record.hosts} host(s) on {record.bridge} ({record.subnet}), files in {store.directory}")
    all_run = True
    for node in record.nodes:
        done = hosts.run(store, node, "systemctl is-system-running", 10.0) if hosts.is_up(node) else None
        state = "down" if done is None else done.stdout.strip() or f"no ssh ({done.stderr.strip()})"
        all_run = all_run and state in ("running", "degraded")
        print(f"{node.name}  {node.address}  {state}")
    return 0 if all_run else 1


def show_inventory(store: Store, options: argparse.Namespace) -> int:
    if options.committed:
        print(inventory.committed_text(), end="")
    else:
        print(inventory.write(store, existing(store)))
    return 0


def run(store: Store, options: argparse.Namespace) -> int:
    existing(store)
    where = {
        "ANSIBLE_INVENTORY": str(store.inventory),
        "LAB_DIRECTORY": str(store.directory),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = options.command[options.command[:1] == ["--"] :]
    return subprocess.run(command, cwd=inventory.PLAYBOOKS, env=os.environ | where, check=False).returncode


def ssh(store: Store, options: argparse.Namespace) -> int:
    nodes = {node.name: node for node in existing(store).nodes}
    if options.node not in nodes:
        raise UsageError(f"the lab {store.name} has no host {options.node!r}, but {', '.join(nodes)}")
    return subprocess.run(hosts.ssh(store, nodes[options.node], options.command), check=False).returncode


def test(_: Store, options: argparse.Namespace) -> int:
    whole = testing.Whole(options.quick, options.keep, options.secure, options.suite, options.evidence, options.go_on)
    return testing.test(options.parts, tell, whole)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    known = {
        "up": (up, "make the lab, or boot its hosts that are down"),
        "down": (down, "take it away, whatever there is of it"),
        "status": (status, "its hosts and how they are"),
        "inventory": (show_inventory, "where its inventory is"),
        "run": (run, "run a command in playbooks/ with its inventory"),
        "ssh": (ssh, "log in to a host, or run a command there"),
        "test": (test, "tell the stories: the playbooks, and the lab itself, on labs of their own"),
    }
    parsers = {}
    for name, (function, help_line) in known.items():
        parsers[name] = commands.add_parser(name, help=help_line)
        parsers[name].set_defaults(function=function)
        parsers[name].add_argument("--name", default=DEFAULT_LAB, help="of the lab (default: %(default)s)")
    parsers["up"].add_argument("--hosts", type=int, default=inventory.COMMITTED_HOSTS, help="default: %(default)s")
    parsers["up"].add_argument(
        "--own-kernel", action="store_true", help="virtual machines, not containers: for what needs a kernel"
    )
    for name in ("up", "test"):
        of_debian = f"of Debian{', for the whole story' if name == 'test' else ''} (default: %(default)s)"
        parsers[name].add_argument("--suite", choices=image.SUITES, default=image.SUITES[0], help=of_debian)
    parsers["inventory"].add_argument(
        "--committed", action="store_true", help="print playbooks/inventories/lab/hosts.yml"
    )
    parsers["run"].add_argument("command", nargs=argparse.REMAINDER)
    parsers["ssh"].add_argument("node")
    parsers["ssh"].add_argument("command", nargs=argparse.REMAINDER)
    parts = ", ".join(testing.known())
    parsers["test"].add_argument("parts", nargs="*", metavar="PART", help=f"of {parts}; default: all")
    parsers["test"].add_argument(
        "--quick", action="store_true", help="the whole story with one host, without what needs more"
    )
    parsers["test"].add_argument(
        "--secure", action="store_true", help="the whole story of clusters with TLS, logins and ACLs"
    )
    parsers["test"].add_argument(
        "--keep", action="store_true", help="leave the lab of the whole story there afterwards"
    )
    parsers["test"].add_argument(
        "--evidence", default="", metavar="DIR", help="of the whole story; default: results/lab-test-<time>"
    )
    parsers["test"].add_argument(
        "--go-on",
        default="",
        metavar="DIR",
        help="with the whole story of which the evidence is there, where it ended, on the lab that --keep left",
    )
    options = parser.parse_args()
    try:
        return int(options.function(Store.of(options.name), options))
    except (UsageError, OSError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"lab: stopped; take away what there is: python -m tests.lab down --name {options.name}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
