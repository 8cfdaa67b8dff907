"""A lab as an operator works with it: playbooks run, hosts rebooted, and everything on a host looked at from outside.

What is on a host is told by the host's own commands alone, so that a story can compare it before and after.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab import guests, hosts, inventory, making
from tests.lab.record import Node, Record, Store
from tests.lab.telling import tell
from tests.waiting import wait_until

_BOOT_WITHIN_S: Final = 120.0
_COMMAND_WITHIN_S: Final = 60.0
_PLAYBOOK_WITHIN_S: Final = 900.0
_END_OF_OUTPUT: Final = 6000
# Counters and identities among the settings of the kernel, which change by themselves.
_NOT_A_SETTING: Final = re.compile(
    r"kernel\.(random\.|ns_last_pid|pty\.nr)|fs\.(dentry-state|inode-|file-nr|aio-nr|quota)|"
    r"net\.netfilter|kernel\.perf|debug\.|dev\.|net\.ipv4\.route|vm\.stat|vm\.memfd"
)
_DEVICES: Final = "/sys/block/*/queue/* /sys/block/*/bdi/* /sys/class/net/*/queues/*/*"
_HUGE_PAGES: Final = "/sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag"
# Where something could be left.
_PLACES: Final = "/etc /opt /usr/local /usr/lib/systemd /boot /home /root /srv /var/lib /data"
# Debian's own notes on packages and users, of which what counts is looked at by itself.
_NOTES: Final = re.compile(
    r"/etc/(\.pwd\.lock|ld\.so\.cache|mtab|(passwd|shadow|group|gshadow|subuid|subgid)-)$|/var/lib/(apt|dpkg|systemd|ucf)/"
    r"|/var/lib/(chrony|dbus)/|/home/lab/\.ansible|/root/\.ansible"
)


@dataclass(frozen=True)
class Operator:
    store: Store
    record: Record
    logs: Path | None = None
    """Where the output of each playbook is kept, each line with the seconds since its start."""

    @property
    def patience(self) -> int:
        return guests.patience(self.record)

    def run(self, node: Node, command: str, within_s: float = _COMMAND_WITHIN_S) -> str:
        """What a command of root's prints. Raises AssertionError with its complaint."""
        quoted = "'" + command.replace("'", "'\\''") + "'"
        done = hosts.run(self.store, node, f"sudo sh -ec {quoted}", within_s * self.patience)
        assert done.returncode == 0, f"{command}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def play(self, playbook: str, *arguments: str, status: int | None = 0) -> Played:
        """Raises AssertionError with the end of what it printed when its exit status is another.

        Without a status it has to fail, however.
        """
        started_s = time.monotonic()
        environment = {
            **os.environ,
            "ANSIBLE_INVENTORY": str(self.store.inventory),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        process = subprocess.Popen(
            ["ansible-playbook", playbook, *arguments],
            cwd=inventory.PLAYBOOKS,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        overdue = threading.Timer(_PLAYBOOK_WITHIN_S * self.patience, process.kill)
        overdue.start()
        lines: list[tuple[float, str]] = []
        try:
            with self._log(playbook).open("w", encoding="utf-8") as log:
                for line in process.stdout:
                    lines.append((time.monotonic() - started_s, line.rstrip("\n")))
                    print(f"{lines[-1][0]:7.1f} {lines[-1][1]}", file=log, flush=True)
            code = process.wait()
        finally:
            overdue.cancel()
            process.kill()
            process.wait()
        tell(f"{playbook} {' '.join(arguments)}: {time.monotonic() - started_s:.0f} s")
        played = Played(tuple(lines))
        assert code == status or (status is None and code), (
            f"exit status {code} of {playbook}:\n{played.out[-_END_OF_OUTPUT:]}"
        )
        return played

    def reboot(self, node: Node) -> None:
        """And wait until it is up again, with nothing failed."""
        boot_id = self._boot(node)
        hosts.run(self.store, node, "sudo systemctl --no-block reboot")
        what = f"{node.name} comes back (see {self.store.console(node)})"
        wait_until(lambda: self._boot(node) not in ("", boot_id), what, _BOOT_WITHIN_S * self.patience)
        state = hosts.wait_until_ready(self.store, node, self.patience)
        assert state == "running", self.run(node, "systemctl --failed --no-legend")

    def settings(self, node: Node) -> dict[str, str]:
        """Of the kernel: everything that `sysctl --all` shows, queues of disks, huge pages, swap."""
        pairs = (line.partition(" = ") for line in self.run(node, "sysctl --all 2>/dev/null || true").splitlines())
        found = {key: " ".join(value.split()) for key, _, value in pairs if not _NOT_A_SETTING.match(key)}
        shown = self.run(
            node,
            f"for path in {_DEVICES} {_HUGE_PAGES}; do test -f $path && echo $path $(cat $path 2>&1) || true; done",
        )
        found |= {path: value for path, _, value in (line.partition(" ") for line in shown.splitlines())}
        return found | {"swap": self.run(node, "swapon --show=NAME,TYPE,SIZE --noheadings | tr -s ' ' | sort")}

    def files(self, node: Node) -> dict[str, str]:
        """Every file, link and directory where something could be left, with what is in it."""
        listed = self.run(
            node,
            f"find {_PLACES} -xdev \\( -type f -exec md5sum {{}} + \\) -o \\( -type l -printf '%l  %p\\n' \\) "
            "-o \\( -type d -printf 'directory  %p\\n' \\) 2>/dev/null | sort || true",
        )
        pairs = (line.partition("  ") for line in listed.splitlines())
        return {path: what for what, _, path in pairs if not _NOTES.search(path)}

    def residue(self, node: Node) -> dict[str, str]:
        """Beside files: units, users, packages and mounts that somebody may have left."""
        return {
            "units": self.run(
                node, "systemctl list-unit-files --no-legend | grep -v ' transient' | awk '{print $1, $2}' | sort"
            ),
            "running": self.run(
                node,
                # Those of whoever is logged in come and go.
                "systemctl list-units --type=service --state=running --no-legend --plain | awk '{print $1}' "
                "| { grep -v '^user@' || true; } | sort",
            ),
            "failed": self.run(node, "systemctl list-units --failed --plain --no-legend | awk '{print $1}' | sort"),
            "users": self.run(node, "getent passwd | sort; getent group | sort"),
            "packages": self.run(node, "dpkg-query --show --showformat='${Package} ${Status}\\n' | sort"),
            "mounts": self.run(node, "findmnt --real --raw --noheadings --output TARGET,SOURCE,FSTYPE,OPTIONS | sort"),
        }

    def _log(self, playbook: str) -> Path:
        if self.logs is None:
            return Path(os.devnull)
        number = len(list(self.logs.glob("play-*"))) + 1
        return self.logs / f"play-{number:02}-{Path(playbook).stem}.txt"

    def _boot(self, node: Node) -> str:
        """When its systemd was started, as containers share one boot of the kernel; empty when it does not answer."""
        done = hosts.run(self.store, node, "systemctl show --property=UserspaceTimestampMonotonic", 10.0)
        return done.stdout.strip() if done.returncode == 0 else ""


@dataclass(frozen=True)
class Played:
    """What a playbook printed: lines, each with the seconds since its start."""

    lines: tuple[tuple[float, str], ...]

    @property
    def out(self) -> str:
        return "".join(f"{line}\n" for _, line in self.lines)

    @property
    def changed(self) -> int:
        """Of all hosts together, by the recap."""
        return sum(int(number) for number in re.findall(r" changed=(\d+) ", self.out))

    @property
    def changes(self) -> Counter[tuple[str, str]]:
        """How often each task changed each host: (host, task)."""
        found: Counter[tuple[str, str]] = Counter()
        task = ""
        for _, line in self.lines:
            if match := re.match(r"(?:TASK|RUNNING HANDLER) \[(.*)\] \*+$", line):
                task = match[1]
            elif match := re.match(r"changed: \[([^\] ]+)", line):
                found[match[1], task] += 1
        return found

    @property
    def durations_s(self) -> dict[str, float]:
        """How long each task took, all its hosts and all its runs together, the longest first."""
        found: dict[str, float] = {}
        task, since_s = "start", 0.0
        for at_s, line in self.lines:
            if match := re.match(r"(?:TASK|RUNNING HANDLER|PLAY RECAP) ?(?:\[(.*)\])? ?\*+$", line):
                found[task] = found.get(task, 0.0) + at_s - since_s
                task, since_s = match[1] or "end", at_s
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    @property
    def diff(self) -> list[str]:
        return [line for line in self.out.splitlines() if line[:1] in ("+", "-")]


def operated(name: str, host_count: int, logs: Path | None = None) -> Iterator[Operator]:
    """A lab for one story, whose fixture yields from this; it goes when the story has ended."""
    store = Store.of(name)
    if logs is not None:
        tell(f"output of playbooks: {logs}")
    yield Operator(store, making.up(store, host_count, tell), logs)
    making.down(store)


def differing(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """What is not as it was, or was not there, or is no longer there."""
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}
