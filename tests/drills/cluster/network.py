"""Where the processes of a drill live: all on the loopback, or each in a network namespace whose ways can be cut.

A cut is a neighbour entry with an address that nobody has: what is sent vanishes, silently and in that direction only,
as it does when a switch fails. It needs no packet filter. A firewall that rejects is one, in the namespace of the host.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from highwater.common.ports import free_ports
from tests.nft import load_rules

CLIENTS: Final = "clients"
"""Where the drill itself runs: it cannot be moved, but cut off."""
_NOBODY: Final = "02:00:00:de:ad:00"


class Network(Protocol):
    def host(self, name: str) -> str: ...

    def ports(self, name: str, wanted: Sequence[int]) -> list[int]:
        """Ports to listen on there: those wanted, where each has a host of its own."""

    def prefix(self, name: str) -> list[str]:
        """What runs a command there."""

    def cut(self, one: str, others: Iterable[str]) -> None:
        """Nothing passes between it and the others, either way."""

    def reject(self, one: str, port: int, others: Iterable[str]) -> None:
        """A firewall before it answers what the others send to this port with a reset."""

    def heal(self) -> None: ...

    def close(self) -> None:
        """All processes have ended."""


class Loopback:
    def host(self, name: str) -> str:
        return "127.0.0.1"

    def ports(self, name: str, wanted: Sequence[int]) -> list[int]:
        return free_ports(len(wanted))

    def prefix(self, name: str) -> list[str]:
        return []

    def cut(self, one: str, others: Iterable[str]) -> None:
        raise AssertionError("the loopback cannot be cut: this drill needs namespaces")

    def reject(self, one: str, port: int, others: Iterable[str]) -> None:
        raise AssertionError("the loopback has no firewall: this drill needs namespaces")

    def heal(self) -> None:
        pass

    def close(self) -> None:
        pass


class Namespaces:
    """A bridge with a namespace for each name, and the drill's own on the bridge itself. Needs root."""

    def __init__(self, names: Sequence[str]) -> None:
        tag = os.getpid() % 65536
        self._bridge = f"hw{tag:04x}"
        self._network = f"10.{213 + tag // 256 % 40}.{tag % 256}"
        self._hosts = {name: f"{self._network}.{number}" for number, name in enumerate((CLIENTS, *names), 1)}
        self._cuts: set[tuple[str, str]] = set()
        self._rejecting: set[str] = set()
        self._made: list[str] = []
        try:
            self._make(names)
        except BaseException:
            self.close()
            raise

    def _make(self, names: Sequence[str]) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("address", "add", f"{self._hosts[CLIENTS]}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for number, name in enumerate(names):
            space, outer = self._space(name), self._outer(number)
            _ip("netns", "add", space)
            self._made.append(space)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", self._bridge, "up")
            _ip("-n", space, "address", "add", f"{self._hosts[name]}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", space, "link", "set", device, "up")

    def _space(self, name: str) -> str:
        return f"{self._bridge}-{name}"

    def _outer(self, number: int) -> str:
        return f"{self._bridge}v{number}"

    def host(self, name: str) -> str:
        return self._hosts[name]

    def ports(self, name: str, wanted: Sequence[int]) -> list[int]:
        return list(wanted)

    def prefix(self, name: str) -> list[str]:
        return ["ip", "netns", "exec", self._space(name)]

    def cut(self, one: str, others: Iterable[str]) -> None:
        for other in others:
            for sender, receiver in ((one, other), (other, one)):
                self._neighbour(sender, "replace", receiver, "lladdr", _NOBODY, "nud", "permanent")
                self._cuts.add((sender, receiver))

    def reject(self, one: str, port: int, others: Iterable[str]) -> None:
        whom = ", ".join(self._hosts[other] for other in others)
        rule = f"tcp dport {port} ip saddr {{ {whom} }} reject with tcp reset"
        self._rejecting.add(one)
        chain = f"chain input {{\n type filter hook input priority 0;\n {rule}\n }}"
        load_rules(self.prefix(one), f"table ip drill {{\n {chain}\n}}\n")

    def heal(self) -> None:
        while self._cuts:
            sender, receiver = self._cuts.pop()
            self._neighbour(sender, "del", receiver)
        while self._rejecting:
            load_rules(self.prefix(self._rejecting.pop()), "delete table ip drill")

    def _neighbour(self, sender: str, action: str, receiver: str, *words: str) -> None:
        where, device = ([], self._bridge) if sender == CLIENTS else (["-n", self._space(sender)], "eth0")
        _ip(*where, "neighbour", action, self._hosts[receiver], *words, "dev", device)

    def close(self) -> None:
        # A namespace takes its end of a pair with it, but not at once.
        for number in range(len(self._made)):
            subprocess.run(["ip", "link", "del", self._outer(number)], stderr=subprocess.DEVNULL, check=False)
        for space in self._made:
            _ip("netns", "del", space)
        subprocess.run(["ip", "link", "del", self._bridge], stderr=subprocess.DEVNULL, check=False)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"ip {' '.join(words)}: {done.stderr.strip()}")
