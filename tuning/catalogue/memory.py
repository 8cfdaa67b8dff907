"""Knobs of memory: swap, write-back, mappings, huge pages."""

from __future__ import annotations

from typing import Final

from ..formulas import memory as formulas
from ..formulas.common import constant
from ..model import Authority, Knob
from . import capability, sources

KNOBS: Final[tuple[Knob, ...]] = (
    Knob(
        id="vm.swappiness",
        title="How readily the kernel swaps a process out to keep page cache",
        group="memory",
        mechanism="sysctl",
        path="/proc/sys/vm/swappiness",
        unit="count",
        scope="host",
        comparison="equal",
        recommend=formulas.swappiness,
        reason="A broker swapped out stalls its clients; clean page cache is cheaper to drop.",
        detail="A log broker's memory is mostly clean page cache that can be read again. At the default of 60 the "
        "kernel would rather move idle pages of the process to disk, and every one of them costs a disk read in some "
        "request later. 1 keeps swapping as the last resort before the OOM killer; 0 gives up even that.",
        authorities=(
            Authority("kernel default", "60", sources.KERNEL_VM),
            Authority("Canonical", "1", sources.CANONICAL),
            Authority("Confluent", "1", sources.CONFLUENT),
            Authority("Redpanda rpk", "1", sources.REDPANDA),
            Authority("TuneD throughput-performance", "10", sources.TUNED),
        ),
        sources=(sources.KERNEL_VM, sources.CANONICAL),
        risk="low",
        risk_text="Other processes on the host keep idle memory longer.",
        persistence="sysctl.d",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="swap.devices",
        title="Swap devices and files in use",
        group="memory",
        mechanism="swap",
        path="/proc/swaps",
        unit="",
        scope="host",
        comparison="equal",
        recommend=constant("none", "none: no broker page should ever have to be read back from a disk"),
        reason="Reading a swapped page back stops a request for milliseconds.",
        detail="With no swap at all a broker fails clearly when memory is too small, instead of becoming slow. Swap "
        "comes back at boot from four places: /etc/fstab, systemd .swap units, zram-generator and dphys-swapfile.",
        authorities=(
            Authority("TiUP", "off", sources.TIUP),
            Authority("Redpanda rpk check", "on", sources.REDPANDA),
        ),
        sources=(sources.TIUP, sources.REDPANDA),
        risk="medium",
        risk_text="Without swap, too little memory ends in the OOM killer; size the host before turning it off.",
        persistence="fstab",
        capability=capability.SWAP,
    ),
    Knob(
        id="vm.dirty_background_bytes",
        title="Unwritten data at which the kernel starts to write back",
        group="memory",
        mechanism="sysctl",
        path="/proc/sys/vm/dirty_background_bytes",
        twin="vm.dirty_background_ratio",
        unit="bytes",
        scope="host",
        comparison="about",
        recommend=formulas.dirty_background_bytes,
        reason="A percentage of a big memory means seconds of silence, then a burst that fills the disk's queue.",
        detail="The kernel's percentage is of available memory, not of total memory, and knows nothing of the disk: "
        "10 % of 256 GiB is a minute of work for a 400 MB/s disk. Tied to about 1.5 s of the disks' own speed, "
        "write-back starts early and runs evenly. Writing the bytes key sets vm.dirty_background_ratio to 0.",
        authorities=(
            Authority("kernel default", "10 %", sources.KERNEL_VM),
            Authority("Canonical", "5 %", sources.CANONICAL),
            Authority("Confluent", "5 %", sources.CONFLUENT),
            Authority("TuneD throughput-performance", "10 %", sources.TUNED),
            Authority("TuneD postgresql", "64 MiB", sources.TUNED),
        ),
        sources=(sources.KERNEL_VM, sources.KAFKA_OS),
        risk="medium",
        risk_text="Too low a value writes the same file-system metadata more often.",
        persistence="sysctl.d",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="vm.dirty_bytes",
        title="Unwritten data at which writers are made to wait",
        group="memory",
        mechanism="sysctl",
        path="/proc/sys/vm/dirty_bytes",
        twin="vm.dirty_ratio",
        unit="bytes",
        scope="host",
        comparison="about",
        recommend=formulas.dirty_bytes,
        reason="Bounds the stall of one flush, and what a power cut can take, to seconds of the disk's speed.",
        detail="Above this limit the kernel makes the writing process itself wait for the disk: for a broker, every "
        "producer waits. The usual advice of 60 to 80 % moves that wall far away and makes it high: on 256 GiB it is "
        "more than 150 GB, minutes of flushing. About 8 s of the disks' own speed leaves room for bursts and keeps the "
        "worst stall bounded. Writing the bytes key sets vm.dirty_ratio to 0.",
        authorities=(
            Authority("kernel default", "20 %", sources.KERNEL_VM),
            Authority("Canonical", "80 %", sources.CANONICAL),
            Authority("Confluent", "80 %", sources.CONFLUENT),
            Authority("TuneD throughput-performance", "40 %", sources.TUNED),
            Authority("TuneD postgresql", "512 MiB", sources.TUNED),
        ),
        sources=(sources.KERNEL_VM, sources.KAFKA_OS),
        risk="medium",
        risk_text="Everything below the limit is lost by an unreplicated broker at a power cut; a lower limit "
        "throttles bursts earlier.",
        persistence="sysctl.d",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="vm.max_map_count",
        title="Memory mappings that one process may hold",
        group="memory",
        mechanism="sysctl",
        path="/proc/sys/vm/max_map_count",
        unit="count",
        scope="host",
        comparison="at_least",
        recommend=formulas.max_map_count,
        reason='Brokers that map two index files per segment die of "Map failed" at the limit.',
        detail="Apache Kafka maps an offset index and a time index for every log segment. At the kernel's default of "
        "65530 some 32000 segments end it. It costs nothing where a broker reads its indexes without mapping them.",
        authorities=(
            Authority("kernel default", "65530", sources.KERNEL_VM),
            Authority("Apache Kafka", "by number of segments", sources.KAFKA_OS),
            Authority("Confluent", "262144", sources.CONFLUENT),
            Authority("Elasticsearch", "1048576", sources.ELASTIC),
        ),
        sources=(sources.KAFKA_OS, sources.KERNEL_VM),
        risk="low",
        risk_text="A runaway process may hold more mappings before it fails.",
        persistence="sysctl.d",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="thp.enabled",
        title="Transparent huge pages",
        group="memory",
        mechanism="sysfs",
        path="/sys/kernel/mm/transparent_hugepage/enabled",
        unit="",
        scope="host",
        comparison="equal",
        recommend=constant("madvise", "madvise: only for programs that ask"),
        reason="Huge pages forced on every process cost compaction stalls; banned outright they cost those that ask.",
        detail="The authorities contradict each other, so that measurement has to decide on a given host; madvise is "
        "the setting that leaves the choice to the program.",
        authorities=(
            Authority("Redpanda rpk", "always", sources.REDPANDA),
            Authority("TuneD postgresql", "never", sources.TUNED),
            Authority("TuneD mssql", "always", sources.TUNED),
            Authority("TiUP", "never", sources.TIUP),
        ),
        sources=(sources.KERNEL_THP,),
        risk="medium",
        risk_text="Other programs on the host may gain from always.",
        persistence="tmpfiles.d",
        capability=capability.HOST_SYSFS,
    ),
)
