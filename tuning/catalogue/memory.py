"""Knobs of memory: swap, write-back, reclaim, mappings, huge pages, memory nodes."""

from __future__ import annotations

from functools import partial
from typing import Final

from .. import who_can_change
from ..formulas import memory as formulas
from ..formulas.common import constant
from ..model import Authority, Knob
from . import sources

_knob = partial(Knob, group="memory")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="vm.swappiness",
        title="How readily the kernel swaps a process out to keep page cache",
        unit="count",
        recommend=formulas.swappiness,
        reason="A broker swapped out stalls its clients; clean page cache is cheaper to drop.",
        detail="A log broker's memory is mostly clean page cache that can be read again. At the default of 60 the "
        "kernel prefers to move idle pages of the process to disk, and each of them costs a later request a disk "
        "read. 1 keeps swapping as the last resort before the OOM killer; 0 disables even that.",
        authorities=(
            Authority("kernel default", "60", sources.KERNEL_VM),
            Authority("Canonical", "1", sources.CANONICAL),
            Authority("Confluent", "1", sources.CONFLUENT),
            Authority("Redpanda rpk", "1", sources.REDPANDA),
            Authority("ScyllaDB", "1", sources.SCYLLA),
            Authority("TiUP", "0", sources.TIUP),
            Authority("TuneD throughput-performance, oracle, sap-hana", "10", sources.TUNED),
            Authority("TuneD mssql", "1", sources.TUNED),
            Authority("TuneD postgresql", "3", sources.TUNED),
        ),
        sources=(sources.KERNEL_VM, sources.CANONICAL),
        risk="low",
        risk_text="Other processes on the host keep idle memory longer.",
    ),
    _knob(
        id="swap.devices",
        title="Swap devices and files in use",
        mechanism="swap",
        path="/proc/swaps",
        unit="",
        recommend=formulas.swap_devices,
        observe=formulas.observe_swap,
        reason="A request that needs a swapped page waits milliseconds for it.",
        detail="Without swap, a broker fails clearly when memory is too small, instead of becoming slow. Four places "
        "turn swap on at boot: /etc/fstab, systemd .swap units, zram-generator and dphys-swapfile. Where swap has to "
        "stay, unit.memory_swap_max excludes the broker from it.",
        authorities=(
            Authority("TiUP", "off", sources.TIUP),
            Authority("DataStax", "off", sources.DATASTAX),
            Authority("Elasticsearch", "off, or memory locked", sources.ELASTIC_SWAP),
            Authority("Redpanda rpk check", "on", sources.REDPANDA),
        ),
        sources=(sources.TIUP, sources.REDPANDA, sources.ELASTIC_SWAP),
        risk="medium",
        risk_text="Without swap, too little memory ends in the OOM killer; size the host before turning it off.",
        capability=who_can_change.SWAP,
    ),
    _knob(
        id="vm.dirty_background_bytes",
        title="Unwritten data at which the kernel starts to write back",
        twin="vm.dirty_background_ratio",
        unit="bytes",
        comparison="about",
        recommend=formulas.dirty_background_bytes,
        reason="With a percentage of a large memory, the disk idles for seconds, then a burst fills its queue.",
        detail="The kernel's percentage refers to available memory, not to total memory, and ignores the disk's speed: "
        "10 % of 256 GiB is a minute of work for a 400 MB/s disk. With about 1.5 s of the disks' speed as the limit, "
        "write-back starts early and runs evenly. Writing the bytes key sets vm.dirty_background_ratio to 0.",
        authorities=(
            Authority("kernel default", "10 %", sources.KERNEL_VM),
            Authority("Canonical", "5 %", sources.CANONICAL),
            Authority("Confluent", "5 %", sources.CONFLUENT),
            Authority("TuneD throughput-performance", "10 %", sources.TUNED),
            Authority("TuneD latency-performance, mssql, oracle", "3 %", sources.TUNED),
            Authority("TuneD postgresql", "64 MiB", sources.TUNED),
            Authority("SAP Note 2578899", "300 MiB", sources.SAPTUNE_SLES),
        ),
        sources=(sources.KERNEL_VM, sources.KAFKA_OS),
        risk="medium",
        risk_text="Too low a value writes the same file-system metadata more often.",
    ),
    _knob(
        id="vm.dirty_bytes",
        title="Unwritten data at which writers have to wait",
        twin="vm.dirty_ratio",
        unit="bytes",
        comparison="about",
        recommend=formulas.dirty_bytes,
        reason="It limits the stall of one flush, and the loss in a power cut, to seconds of the disk's speed.",
        detail="Above this limit the kernel makes the writing process wait for the disk: with a broker, every producer "
        "waits. The common advice of 60 to 80 % makes that wait rare but long: on 256 GiB it is more than 150 GB, "
        "minutes of flushing. About 8 s of the disks' speed leaves room for bursts and bounds the worst stall. "
        "Writing the bytes key sets vm.dirty_ratio to 0.",
        authorities=(
            Authority("kernel default", "20 %", sources.KERNEL_VM),
            Authority("Canonical", "80 %", sources.CANONICAL),
            Authority("Confluent", "80 %", sources.CONFLUENT),
            Authority("TuneD throughput-performance, oracle", "40 %", sources.TUNED),
            Authority("TuneD latency-performance", "10 %", sources.TUNED),
            Authority("TuneD mssql", "80 %", sources.TUNED),
            Authority("TuneD postgresql", "512 MiB", sources.TUNED),
            Authority("SAP Note 2578899", "600 MiB", sources.SAPTUNE_SLES),
        ),
        sources=(sources.KERNEL_VM, sources.KAFKA_OS),
        risk="medium",
        risk_text="An unreplicated broker may lose unwritten data up to the limit in a power cut; a lower limit "
        "throttles bursts earlier.",
    ),
    _knob(
        id="vm.dirty_expire_centisecs",
        title="Age at which unwritten data has to be written",
        unit="centiseconds",
        comparison="at_most",
        recommend=constant(3000, "3000, the kernel's default of 30 s; a lower value stays"),
        reason="With a higher value, a crash loses data that could have been written long before.",
        detail="It limits the age of unwritten data as vm.dirty_background_bytes limits its amount; the limit that is "
        "reached first starts write-back. A busy broker reaches the amount long before 30 s. Lower values make the "
        "writes of a quiet broker more even, but more frequent and smaller.",
        authorities=(
            Authority("kernel default", "3000", sources.KERNEL_VM),
            Authority("TuneD oracle, mssql", "500", sources.TUNED),
            Authority("TuneD spindown-disk", "9000", sources.TUNED),
            Authority("lecture notes", "longer than the default", sources.KAFKA_NOTES),
        ),
        sources=(sources.KERNEL_VM, sources.TUNED),
        risk="low",
        risk_text="A lower value writes metadata more often.",
    ),
    _knob(
        id="vm.dirty_writeback_centisecs",
        title="How often the kernel checks for data that is old enough to be written",
        unit="centiseconds",
        recommend=constant(
            500, "500, the kernel's default of 5 s; 100 to 400 are as good", also=(100, 150, 200, 250, 300, 400)
        ),
        reason="0 disables write-back by age; long intervals accumulate data for a burst.",
        detail="Data may wait this long after its age is reached. Laptops raise it to let a disk sleep. 0 turns "
        "periodic write-back off, so that the last records of a quiet broker stay unwritten until more data follows.",
        authorities=(
            Authority("kernel default", "500", sources.KERNEL_VM),
            Authority("TuneD oracle, mssql", "100", sources.TUNED),
            Authority("TuneD powersave", "1500", sources.TUNED),
            Authority("TuneD spindown-disk", "6000", sources.TUNED),
            Authority("lecture notes", "longer than the default", sources.KAFKA_NOTES),
        ),
        sources=(sources.KERNEL_VM, sources.TUNED),
        risk="low",
        risk_text="Shorter intervals wake an idle host more often.",
    ),
    _knob(
        id="vm.max_map_count",
        title="Memory mappings that one process may have",
        unit="count",
        comparison="at_least",
        recommend=formulas.max_map_count,
        reason='At the limit, brokers that map two index files per segment fail with "Map failed".',
        detail="Apache Kafka maps an offset index and a time index for every log segment; the kernel's default of "
        "65530 suffices for about 32000 segments. A higher limit costs nothing if a broker does not map its indexes. "
        "Some distributions have raised the default to 1048576, which the 262144 of older advice would lower.",
        authorities=(
            Authority("kernel default", "65530", sources.KERNEL_VM),
            Authority("Fedora since 39", "1048576", sources.FEDORA_MAP_COUNT),
            Authority("Apache Kafka", "by number of segments", sources.KAFKA_OS),
            Authority("Confluent", "262144", sources.CONFLUENT),
            Authority("Elasticsearch", "1048576", sources.ELASTIC),
            Authority("DataStax", "131072", sources.DATASTAX),
            Authority("TuneD mssql", "1600000", sources.TUNED),
            Authority("TuneD sap-netweaver", "2147483647", sources.TUNED),
        ),
        sources=(sources.KAFKA_OS, sources.KERNEL_VM),
        risk="low",
        risk_text="A faulty process may create more mappings before it fails.",
    ),
    _knob(
        id="vm.min_free_kbytes",
        title="Memory that the kernel keeps free for allocations that cannot wait",
        unit="KiB",
        comparison="at_least",
        recommend=formulas.min_free_kbytes,
        reason="Without a free page, the driver of a network card drops the packet.",
        detail="Page cache fills all memory, and an interrupt handler cannot wait for reclaim. The kernel sizes the "
        "reserve by the square root of memory, with an addition for huge pages, which is little on a large host with "
        "fast network cards. Measure it on hosts that drop packets for lack of memory.",
        authorities=(
            Authority("kernel default", "4 × √(KiB of memory), at most 256 MiB", sources.KERNEL_VM),
            Authority("TuneD hpc-compute", "135168", sources.TUNED),
        ),
        sources=(sources.KERNEL_VM,),
        risk="high",
        risk_text="Too high a value triggers the OOM killer at once, so the formula never exceeds 3 %.",
        only_if_named="only this project recommends it, and too high a value makes a host unusable",
    ),
    _knob(
        id="vm.watermark_scale_factor",
        title="How early the kernel frees memory in the background",
        unit="count",
        comparison="at_least",
        recommend=formulas.watermark_scale_factor,
        reason="When background reclaim starts too late, the writing process reclaims memory itself and waits.",
        detail="The unit is 1/10000 of memory between the marks at which background reclaim starts and stops. When "
        "page cache fills memory, every write needs freed pages; a larger distance between the marks lets kswapd free "
        "enough pages before a burst. The allocstall counters in /proc/vmstat show whether writers reclaim memory.",
        authorities=(Authority("kernel default", "10", sources.KERNEL_VM),),
        risk="medium",
        risk_text="0.5 % of memory is no longer page cache.",
    ),
    _knob(
        id="vm.vfs_cache_pressure",
        title="How readily the kernel drops names and inodes from its caches",
        unit="count",
        recommend=formulas.vfs_cache_pressure,
        reason="When a segment is opened whose inode was dropped, the inode is read from disk again.",
        detail="A broker has three files for each segment. With very many files, page cache evicts their inodes; 50 "
        "halves that pressure. ScyllaDB's 2000 is right for a program that bypasses the page cache, and wrong for one "
        "that depends on it. With 0 the kernel would never free this memory.",
        authorities=(
            Authority("kernel default", "100", sources.KERNEL_VM),
            Authority("ScyllaDB", "2000", sources.SCYLLA),
        ),
        risk="low",
        risk_text="Below 100 names and inodes take memory from page cache.",
    ),
    _knob(
        id="vm.zone_reclaim_mode",
        title="Whether a memory node frees its own pages before it asks another",
        unit="count",
        recommend=constant(0, "0, the kernel's default: page cache may lie on any node"),
        reason="When it is on, the kernel drops page cache on one node while another node has free memory.",
        detail="Reading data from the memory of the far node costs little, reading it from disk costs much. The "
        "kernel's documentation recommends 0 for file servers, and a log broker is one.",
        authorities=(
            Authority("kernel default", "0", sources.KERNEL_VM),
            Authority("DataStax", "0", sources.DATASTAX),
            Authority("TuneD hpc-compute", "1", sources.TUNED),
        ),
        sources=(sources.KERNEL_VM,),
        risk="low",
        risk_text="Programs bound to one node may find its memory full of others' page cache.",
    ),
    _knob(
        id="vm.overcommit_memory",
        title="Whether programs may reserve more memory than the host has",
        mechanism="advice",
        unit="count",
        recommend=constant(0, "0, the kernel's default, or 1; 2 only where somebody sized it", also=(1,)),
        reason="Under strict accounting mmap and fork fail while memory is free.",
        detail="Brokers map files, and Java reserves address space that it never uses; both count in mode 2 only. "
        "Somebody who set 2 had a reason, so Highwater reports it and never changes it.",
        authorities=(
            Authority("kernel default", "0", sources.KERNEL_VM),
            Authority("TiUP", "0 or 1", sources.TIUP),
        ),
        risk="medium",
        risk_text="Without strict accounting, too little memory ends in the OOM killer instead of a failed request.",
    ),
    _knob(
        id="thp.enabled",
        title="Transparent huge pages",
        mechanism="sysfs",
        path="/sys/kernel/mm/transparent_hugepage/enabled",
        unit="",
        recommend=constant("madvise", "madvise: only for programs that ask"),
        reason="always causes compaction stalls in every process; never takes huge pages from programs that ask.",
        detail="The authorities contradict each other, so only a measurement can decide on a given host; madvise "
        "leaves the choice to the program.",
        authorities=(
            Authority("Redpanda rpk", "always", sources.REDPANDA),
            Authority("TuneD mssql, hpc-compute", "always", sources.TUNED),
            Authority("MongoDB since 8.0", "always", sources.MONGODB_THP),
            Authority("TuneD sap-hana", "madvise", sources.TUNED),
            Authority("TuneD postgresql, oracle, network-latency", "never", sources.TUNED),
            Authority("saptune, SAP Note 2684254", "never; madvise from SLES 15 SP5 on", sources.SAPTUNE_HANA),
            Authority("TiUP", "never", sources.TIUP),
        ),
        sources=(sources.KERNEL_THP,),
        risk="medium",
        risk_text="Other programs on the host may gain from always.",
        persistence="tmpfiles.d",
        capability=who_can_change.HOST_SYSFS,
    ),
    _knob(
        id="thp.defrag",
        title="Whether a page fault waits until a huge page is free",
        mechanism="sysfs",
        path="/sys/kernel/mm/transparent_hugepage/defrag",
        unit="",
        recommend=constant(
            "madvise", "madvise, the kernel's default; defer+madvise is as good", also=("defer+madvise", "defer")
        ),
        reason="Memory full of page cache is compacted for a huge page while the faulting request waits.",
        detail="A broker's host has hardly any contiguous free memory, as page cache uses all of it. With always, any "
        "fault may wait for compaction and reclaim; with madvise, only faults of programs that asked for huge pages. "
        "The defer values leave the work to the background.",
        authorities=(
            Authority("kernel default", "madvise", sources.KERNEL_THP),
            Authority("MongoDB since 8.0", "defer+madvise", sources.MONGODB_THP),
        ),
        sources=(sources.KERNEL_THP,),
        risk="low",
        risk_text="Programs that gain from huge pages get them later.",
        persistence="tmpfiles.d",
        capability=who_can_change.HOST_SYSFS,
    ),
    _knob(
        id="ksm.run",
        title="Merging of equal pages of different processes",
        mechanism="sysfs",
        path="/sys/kernel/mm/ksm/run",
        unit="count",
        recommend=constant(0, "0, the kernel's default: nothing is scanned", also=(2,)),
        reason="The scanner takes processor time and finds nothing in a broker's pages.",
        detail="It scans only memory that programs offer for merging, as virtual machines do. On a host with virtual "
        "machines and a broker, compare the saved memory with the scanner's time. ksmtuned turns it on again.",
        authorities=(
            Authority("kernel default", "0", sources.KERNEL_KSM),
            Authority("saptune, SAP Note 2684254", "0", sources.SAPTUNE_HANA),
        ),
        sources=(sources.KERNEL_KSM,),
        risk="low",
        risk_text="Virtual machines on the host stop sharing newly written pages.",
        persistence="tmpfiles.d",
        capability=who_can_change.HOST_SYSFS,
    ),
    _knob(
        id="kernel.numa_balancing",
        title="Migration of pages to the processors that use them",
        unit="count",
        recommend=formulas.numa_balancing,
        reason="The kernel unmaps pages to detect who uses them, and each of them costs the broker a page fault.",
        detail="It helps programs whose threads work on their own data. A broker's threads serve any connection, and "
        "its data is page cache, which is not mapped and therefore not migrated.",
        authorities=(
            Authority("kernel default", "1 with several nodes", sources.KERNEL_KERNEL),
            Authority("TuneD oracle, mssql, sap-hana, network-latency", "0", sources.TUNED),
            Authority("TuneD spectrumscale-ece", "1", sources.TUNED),
            Authority("ScyllaDB", "0", sources.SCYLLA),
            Authority("saptune, SAP Note 2684254", "0", sources.SAPTUNE_HANA),
        ),
        sources=(sources.KERNEL_KERNEL,),
        risk="low",
        risk_text="Another program that is bound to no node may run far from its memory.",
    ),
)
