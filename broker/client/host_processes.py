"""The processes of one host that are one broker: what they say of themselves in their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

PROCESSES: Final = "highwater.processes"
PROCESS: Final = "highwater.process"
RACK: Final = "broker.rack"
SETTINGS: Final = (PROCESSES, PROCESS, RACK)
"""What `host_processes` reads of each broker."""


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
