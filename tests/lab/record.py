"""What a lab is: its names, its addresses, where its files are. The record is written before anything is made.

All that a lab makes has a name that follows from its record, so that what a killed `up` left is found and taken away.
"""

from __future__ import annotations

import fcntl
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from highwater.bench.user_cache import cache_directory
from highwater.common.atomic_files import write_atomically
from highwater.common.errors import UsageError
from highwater.results.base import Model
from highwater.results.files import dump

DEFAULT_LAB: Final = "lab"
DISKS: Final = ("hdd", "ssd")
MOST_HOSTS: Final = 9

# A network interface has at most 15 characters, and nspawn's are vb-<lab>-node<number>.
_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,5}")
_NETWORKS: Final = 255


class LoopSettings(Model):
    """A loop device as it was before it became a disk of a lab, so that it is left like that."""

    device_number: str
    queue: dict[str, str]


class Record(Model):
    name: str
    network: int
    """The third number of its addresses."""
    hosts: int
    boot_id: str
    """Of the boot it was made in: after another one nothing of it runs any more."""
    image: str = ""
    guest_image: str = ""
    """Where the kernel is that its hosts boot, when each has one of its own; empty when they share this machine's."""
    is_emulated: bool = False
    """Whether such hosts run without KVM, and so many times slower."""
    loops: dict[str, LoopSettings] = Field(default={})
    """By the path of the image file."""
    is_whole: bool = False

    @property
    def bridge(self) -> str:
        return f"hw-{self.name}"

    @property
    def subnet(self) -> str:
        return f"10.87.{self.network}.0/24"

    @property
    def gateway(self) -> str:
        """The machine's own address on the bridge."""
        return f"10.87.{self.network}.1"

    @property
    def nodes(self) -> list[Node]:
        return [Node(self.name, self.network, number) for number in range(1, self.hosts + 1)]


@dataclass(frozen=True, slots=True)
class Node:
    """One host of a lab."""

    lab: str
    network: int
    number: int

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return f"10.87.{self.network}.{10 + self.number}"

    @property
    def machine(self) -> str:
        """What nspawn calls it: no two of one machine may be the same."""
        return f"{self.lab}-{self.name}"


@dataclass(frozen=True, slots=True)
class Store:
    """The files of one lab, below `root`, which all labs share."""

    name: str
    root: Path

    @classmethod
    def of(cls, name: str) -> Store:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a name for a lab: use up to 6 of a-z and 0-9, a letter first")
        return cls(name, labs_directory())

    @property
    def directory(self) -> Path:
        return self.root / self.name

    @property
    def key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.directory / "ssh_config"

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory"

    def of_node(self, node: Node) -> Path:
        return self.directory / "hosts" / node.name

    def disk_image(self, node: Node, disk: str) -> Path:
        return self.of_node(node) / f"{disk}.img"

    def console(self, node: Node) -> Path:
        return self.of_node(node) / "console.log"

    def read(self) -> Record | None:
        path = self.directory / "lab.json"
        try:
            return Record.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise UsageError(
                f"{path} is not a readable record of a lab ({str(error).splitlines()[0]}); move it away"
            ) from None

    def write(self, record: Record) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        write_atomically(self.directory / "lab.json", dump(record))

    def forget(self) -> None:
        """Remove the files, the record last."""
        record = self.directory / "lab.json"
        for path in sorted(self.directory.iterdir()) if self.directory.is_dir() else []:
            if path != record:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        record.unlink(missing_ok=True)
        self.forget_empty()

    def forget_empty(self) -> None:
        """Remove the directory of a lab that has no record, and nothing else, any more."""
        with suppress(OSError):
            self.directory.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Against another command on the same lab. Raises UsageError."""
        with held(self.root / f"_{self.name}.lock", wait=False) as is_ours:
            if not is_ours:
                raise UsageError(f"another command works on the lab {self.name}; wait for it")
            yield

    def others(self) -> list[Record]:
        names = sorted(path.name for path in self.root.iterdir()) if self.root.is_dir() else []
        stores = [Store(name, self.root) for name in names if name != self.name and _NAME.fullmatch(name)]
        return [record for store in stores if (record := store.read()) is not None]


def labs_directory() -> Path:
    return cache_directory() / "lab"


def free_network(name: str, others: list[Record], routed: list[str]) -> int:
    """The network of a new lab: the default lab's is always the same, as its inventory is a file of the project."""
    taken = {record.network for record in others} | {
        int(match[1]) for route in routed if (match := re.match(r"10\.87\.(\d+)\.", route))
    }
    wanted = [0] if name == DEFAULT_LAB else range(1, _NETWORKS)
    for network in wanted:
        if network not in taken:
            return network
    raise UsageError(f"10.87.{wanted[0]}.0/24 is in use on this machine (see: ip route); free it, or name another lab")


@contextmanager
def held(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a lock for the body; without waiting, what is yielded says whether it is held or somebody else has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
