"""The processes of a host that are one broker, and hosts of a cluster with several brokers each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

PROCESSES: Final = "highwater.processes"
PROCESS: Final = "highwater.process"
RACK: Final = "broker.rack"
SETTINGS: Final = (PROCESSES, PROCESS, RACK)
"""What `host_processes` reads of each broker."""
LOCAL: Final = "@"
"""Begins an address that is the name of a Unix socket in Linux's abstract namespace (unix(7)): of the parent's tree."""
ID_STEP: Final = 100
"""Between the ids of the brokers of one host, where the playbooks start several (`broker_processes`)."""


class HostProcesses(NamedTuple):
    host: str
    """`broker.rack`, which is the host's name unless somebody set it."""
    process_count: int
    first_id: int
    """The broker id of process 0."""

    @property
    def broker_ids(self) -> range:
        return range(self.first_id, self.first_id + self.process_count)

    def number_of(self, broker_id: int) -> int:
        return broker_id - self.first_id


def host_processes(told: Mapping[int, Mapping[str, str | None]]) -> HostProcesses | None:
    """The broker that these brokers are processes of, by the settings of those that answered; None if they are not."""
    found: set[HostProcesses] = set()
    for broker_id, settings in told.items():
        count, number = settings.get(PROCESSES) or "", settings.get(PROCESS) or ""
        if not (count.isdecimal() and number.isdecimal()):
            return None
        found.add(HostProcesses(settings.get(RACK) or "", int(count), broker_id - int(number)))
    return found.pop() if len(found) == 1 else None


class HostsOfProcesses(NamedTuple):
    """The hosts of a cluster on which each broker is one process of its host."""

    names: Mapping[int, str]
    """The name of each host, by the broker id of its process 0."""

    @property
    def host_count(self) -> int:
        return len(set(self.names.values()))

    def process_of(self, broker_id: int) -> tuple[str, int] | None:
        """The host and the number of a process; None if none of its host's brokers is known."""
        name = self.names.get(broker_id % ID_STEP)
        return None if name is None else (name, broker_id // ID_STEP)


def hosts_of_processes(addresses: Mapping[int, str], racks: Mapping[int, str | None]) -> HostsOfProcesses | None:
    """The hosts of these brokers; None unless some have several, with ids in steps of ID_STEP, each in one rack.

    `addresses` are HOST:PORT; `racks` are those of the brokers that answered.
    """
    places = _by_first_id({broker_id: address.rpartition(":")[0] for broker_id, address in addresses.items()})
    named = _by_first_id({broker_id: rack or "" for broker_id, rack in racks.items()})
    is_so = len(places) < len(addresses) and all(len(found) == 1 for found in (*places.values(), *named.values()))
    if not is_so or {""} in named.values():
        return None
    hosts = {first_id: place for first_id, (place,) in places.items()}
    rack_of = {first_id: rack for first_id, (rack,) in named.items() if first_id in hosts}
    if len(set(rack_of.values())) < len({hosts[first_id] for first_id in rack_of}):
        return HostsOfProcesses(hosts)  # a rack has several hosts
    return HostsOfProcesses(hosts | rack_of)


def _by_first_id(told: Mapping[int, str]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for broker_id, text in told.items():
        found.setdefault(broker_id % ID_STEP, set()).add(text)
    return found
