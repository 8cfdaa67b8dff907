"""Which load shows what a knob does: a shipped workload for each kind of knob."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from highwater.bench.prove.subjects import Subject

FOLDER: Final = Path(__file__).parent / "workloads"
WRITES: Final = "prove-writes"
READS: Final = "prove-reads"
CONNECTIONS: Final = "prove-connections"
CPU: Final = "prove-cpu"
LOADS: Final = (WRITES, READS, CONNECTIONS, CPU)

_BY_GROUP: Final = {
    "memory": WRITES,
    "storage": READS,
    "disk": READS,
    "network": CONNECTIONS,
    "limits": CPU,
    "processor": CPU,
    "kernel": CPU,
}
# Whatever their group is.
_BY_NAME: Final = {
    "thp.": CPU,
    "ksm.": CPU,
    "vm.max_map_count": CPU,
    "vm.overcommit_memory": CPU,
    "vm.zone_reclaim_mode": READS,
    "vm.vfs_cache_pressure": READS,
    "mount.data_writeback": WRITES,
    "mount.commit": WRITES,
    "mount.barrier": WRITES,
    "mount.delalloc": WRITES,
    "mount.discard": WRITES,
    "bdi.": WRITES,
    "disk.wbt_lat_usec": WRITES,
}


def load_for(subject: Subject) -> str:
    """The load of the subject's first knob."""
    knob = subject.changes[0].knob
    named = (
        load for name, load in _BY_NAME.items() if knob.id == name or (name[-1] == "." and knob.id.startswith(name))
    )
    return next(named, _BY_GROUP[knob.group])


def load_file(name: str) -> Path:
    return FOLDER / f"{name}.yaml"
