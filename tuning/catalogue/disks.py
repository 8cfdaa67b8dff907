"""Knobs of disks: their request queues, and their share of the page cache.

The scheduler comes first: choosing one resets the number of requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..formulas import disks as formulas
from ..model import Authority, Knob
from . import capability, sources

ROWS: Final[Mapping[int, tuple[str, ...]]] = {
    39: ("disk.scheduler",),
    40: ("disk.nomerges",),
    41: ("disk.read_ahead_kb",),
    42: ("disk.nr_requests",),
    43: ("disk.max_sectors_kb",),
    44: ("disk.write_cache",),
    45: ("disk.wbt_lat_usec",),
    46: ("disk.rq_affinity",),
    47: ("bdi.max_ratio",),
}

KNOBS: Final[tuple[Knob, ...]] = (
    Knob(
        id="disk.scheduler",
        title="I/O scheduler of the data disks",
        group="disk",
        mechanism="sysfs",
        path="/sys/block/{target}/queue/scheduler",
        unit="",
        scope="disk",
        comparison="equal",
        recommend=formulas.disk_scheduler,
        reason="A spinning disk gains from ordered requests; a fast device only loses time to the ordering.",
        detail="none hands requests straight to an SSD or NVMe device; mq-deadline merges and orders them for a head "
        "that moves, and keeps readers from starving behind write-back. A virtual disk may be anything below.",
        authorities=(
            Authority("Red Hat", "NVMe none, HDD mq-deadline or bfq", sources.RHEL_SCHEDULER),
            Authority("Redpanda rpk", "none or noop for every disk", sources.REDPANDA),
            Authority("ScyllaDB perftune", "none or noop for every disk", sources.PERFTUNE),
            Authority("SAP Note 2578899", "none or noop for every disk", sources.SAPTUNE_SLES),
        ),
        sources=(sources.RHEL_SCHEDULER, sources.KERNEL_SCHEDULER),
        risk="low",
        risk_text="Without a scheduler, cgroup I/O weights have no effect on that disk.",
        persistence="udev rule",
        capability=capability.BLOCK_QUEUE,
    ),
    Knob(
        id="disk.nomerges",
        title="Merging of adjacent requests",
        group="disk",
        mechanism="sysfs",
        path="/sys/block/{target}/queue/nomerges",
        unit="count",
        scope="disk",
        comparison="equal",
        recommend=formulas.merging,
        reason="A log is written in order: merged, it needs a fraction of the requests.",
        detail="Looking for a request to merge with is wasted on random access, which is why databases with their own "
        "cache turn it off (2). Write-back of a log is the opposite case.",
        authorities=(
            Authority("kernel default", "0", sources.KERNEL_BLOCK),
            Authority("Redpanda rpk", "2", sources.REDPANDA),
            Authority("ScyllaDB perftune", "2", sources.PERFTUNE),
        ),
        sources=(sources.KERNEL_BLOCK,),
        risk="low",
        risk_text="A program beside the broker that reads at random pays a little CPU time for each request.",
        persistence="udev rule",
        capability=capability.BLOCK_QUEUE,
    ),
    Knob(
        id="disk.read_ahead_kb",
        title="How far the kernel reads ahead",
        group="disk",
        mechanism="sysfs",
        path="/sys/block/{target}/queue/read_ahead_kb",
        unit="KiB",
        scope="disk",
        comparison="at_least",
        recommend=formulas.read_ahead,
        reason="A consumer that catches up on a spinning disk waits for a seek every 128 KiB.",
        detail="On an HDD a seek takes as long as reading a megabyte. On flash there is no seek to save, and what is "
        "read in vain pushes out pages that other consumers need. RAID and LVM devices have a value of their own, "
        "which is the one that counts.",
        authorities=(
            Authority("kernel default", "128 KiB", sources.KERNEL_BLOCK),
            Authority("TuneD throughput-performance", "4096 KiB, never less than there is", sources.TUNED),
        ),
        sources=(sources.KERNEL_BLOCK, sources.TUNED),
        risk="low",
        risk_text="Random reads on the same disk fetch, and keep, more than they use.",
        persistence="udev rule",
        capability=capability.BLOCK_QUEUE,
    ),
    Knob(
        id="disk.nr_requests",
        title="Requests that may wait in the queue of a disk",
        group="disk",
        mechanism="sysfs",
        path="/sys/block/{target}/queue/nr_requests",
        unit="count",
        scope="disk",
        comparison="at_least",
        recommend=formulas.requests,
        reason="A scheduler can only put in order what it has.",
        detail="For devices without a scheduler the driver's figure is the depth of the hardware's own queue, and the "
        "kernel refuses more. Choosing another scheduler sets this back to the default.",
        authorities=(
            Authority(
                "kernel default", "by the driver; twice the device's depth with a scheduler", sources.KERNEL_BLOCK
            ),
            Authority("saptune", "as configured (NRREQ)", sources.SAPTUNE_MANUAL),
        ),
        sources=(sources.KERNEL_BLOCK,),
        risk="low",
        risk_text="Write-back with a longer queue makes a reader wait longer.",
        persistence="udev rule",
        capability=capability.BLOCK_QUEUE,
    ),
    Knob(
        id="disk.max_sectors_kb",
        title="Largest request that is sent to a disk",
        group="disk",
        mechanism="sysfs",
        path="/sys/block/{target}/queue/max_sectors_kb",
        unit="KiB",
        scope="disk",
        comparison="at_least",
        recommend=formulas.largest_request,
        reason="A segment written in small requests costs an interrupt for each of them.",
        detail="The hardware's own limit, max_hw_sectors_kb, cannot be passed. Recent kernels begin with more than "
        "recommended here, which then stays.",
        authorities=(
            Authority("kernel default", "1280 KiB or more, within what the hardware takes", sources.KERNEL_BLOCK),
            Authority("saptune", "as configured, cut to max_hw_sectors_kb", sources.SAPTUNE_MANUAL),
        ),
        sources=(sources.KERNEL_BLOCK, sources.SAPTUNE_MANUAL),
        risk="low",
        risk_text="A small read waits behind a larger write.",
        persistence="udev rule",
        capability=capability.BLOCK_QUEUE,
    ),
    Knob(
        id="disk.write_cache",
        title="What the kernel believes of a disk's write cache",
        group="disk",
        mechanism="advice",
        path="/sys/block/{target}/queue/write_cache",
        unit="",
        scope="disk",
        comparison="equal",
        recommend=formulas.write_cache,
        reason="Writing here does not change the cache: it stops the flushes that make syncing safe.",
        detail="write back means that the kernel flushes the device's cache when a program syncs, write through that "
        "it sees no need to. The file takes the kernel's view and leaves the device as it is. This program never "
        "writes it.",
        authorities=(
            Authority("kernel default", "as the driver found the device", sources.KERNEL_BLOCK),
            Authority("Redpanda rpk", "write through, on Google Cloud", sources.REDPANDA),
        ),
        sources=(sources.KERNEL_BLOCK,),
        risk="critical",
        risk_text="write through over a cache that forgets loses synced data at a power cut.",
        persistence="nothing",
        capability=capability.BLOCK_QUEUE,
    ),
    Knob(
        id="disk.wbt_lat_usec",
        title="Latency of reads for which write-back is slowed down",
        group="disk",
        mechanism="sysfs",
        path="/sys/block/{target}/queue/wbt_lat_usec",
        unit="microseconds",
        scope="disk",
        comparison="equal",
        recommend=formulas.writeback_throttling,
        reason="To keep reads quick the kernel holds write-back below what the disk can take.",
        detail="The kernel aims at 75 ms on spinning disks and 2 ms on others, and lets fewer writes through when "
        "reads take longer; writing -1 returns to that. 0 turns it off: more throughput for a broker whose consumers "
        "read from memory, longer reads for one whose consumers lag.",
        authorities=(Authority("kernel default", "75000 on HDD, 2000 elsewhere", sources.KERNEL_BLOCK),),
        sources=(sources.KERNEL_BLOCK,),
        risk="medium",
        risk_text="Consumers that read from disk may starve behind write-back.",
        persistence="udev rule",
        capability=capability.BLOCK_QUEUE,
        only_if_named="reads may starve behind write-back: prove it on this host first",
    ),
    Knob(
        id="disk.rq_affinity",
        title="CPU on which a request is completed",
        group="disk",
        mechanism="sysfs",
        path="/sys/block/{target}/queue/rq_affinity",
        unit="count",
        scope="disk",
        comparison="equal",
        recommend=formulas.completion_affinity,
        reason="With many CPUs in one group, those that take the interrupts do the work of all.",
        detail="1 completes a request somewhere in the group of CPUs that share a cache with the one that asked, 2 on "
        "that very CPU. Drivers with a queue for each CPU do the latter anyway.",
        authorities=(Authority("kernel default", "1", sources.KERNEL_BLOCK),),
        sources=(sources.KERNEL_BLOCK,),
        risk="low",
        risk_text="One more interrupt between CPUs for some requests.",
        persistence="udev rule",
        capability=capability.BLOCK_QUEUE,
    ),
    Knob(
        id="bdi.max_ratio",
        title="Share of all dirty pages that one disk may hold",
        group="disk",
        mechanism="sysfs",
        path="/sys/block/{target}/bdi/max_ratio",
        unit="percent",
        scope="disk",
        comparison="at_most",
        recommend=formulas.dirty_share,
        reason="One slow disk fills the allowance of all, and writers to the others wait with it.",
        detail="The kernel divides dirty pages by how fast each disk has been; a disk that suddenly hangs keeps its "
        "old share and more. strict_limit beside it holds a disk to its share even while there is room.",
        authorities=(Authority("kernel default", "100", sources.KERNEL_BDI),),
        sources=(sources.KERNEL_BDI, sources.KERNEL_VM),
        risk="medium",
        risk_text="A burst on one disk is throttled earlier although memory is free.",
        persistence="udev rule",
        capability=capability.BLOCK_QUEUE,
    ),
)
