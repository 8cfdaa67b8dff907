"""Knobs of disks: their request queues, and their share of the page cache.

The scheduler comes first, because setting it resets the number of requests.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ..formulas import disks as formulas
from ..model import Authority, Knob
from . import sources

_knob = partial(Knob, group="disk", mechanism="sysfs", scope="disk")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="disk.scheduler",
        title="I/O scheduler of the data disks",
        path="/sys/block/{target}/queue/scheduler",
        unit="",
        recommend=formulas.disk_scheduler,
        reason="Ordered requests make a spinning disk faster and a fast device slower.",
        detail="none passes requests directly to an SSD or NVMe device. mq-deadline merges and orders them for a "
        "moving head, and prevents readers from starving behind write-back. A virtual disk hides its medium.",
        authorities=(
            Authority("Red Hat", "NVMe none, HDD mq-deadline or bfq", sources.RHEL_SCHEDULER),
            Authority("Redpanda rpk", "none or noop for every disk", sources.REDPANDA),
            Authority("ScyllaDB perftune", "none or noop for every disk", sources.PERFTUNE),
            Authority("SAP Note 2578899", "none or noop for every disk", sources.SAPTUNE_SLES),
        ),
        sources=(sources.RHEL_SCHEDULER, sources.KERNEL_SCHEDULER),
        risk="low",
        risk_text="Without a scheduler, cgroup I/O weights have no effect on that disk.",
    ),
    _knob(
        id="disk.nomerges",
        title="Merging of adjacent requests",
        path="/sys/block/{target}/queue/nomerges",
        unit="count",
        recommend=formulas.merging,
        reason="A log is written sequentially: with merging it needs a fraction of the requests.",
        detail="For random access, the search for a request to merge with is wasted, so databases with their own "
        "cache turn it off (2). Write-back of a log is the opposite case.",
        authorities=(
            Authority("kernel default", "0", sources.KERNEL_BLOCK),
            Authority("Redpanda rpk", "2", sources.REDPANDA),
            Authority("ScyllaDB perftune", "2", sources.PERFTUNE),
        ),
        sources=(sources.KERNEL_BLOCK,),
        risk="low",
        risk_text="A program beside the broker that reads at random pays a little CPU time for each request.",
    ),
    _knob(
        id="disk.read_ahead_kb",
        title="How far the kernel reads ahead",
        path="/sys/block/{target}/queue/read_ahead_kb",
        unit="KiB",
        comparison="at_least",
        recommend=formulas.read_ahead,
        reason="A consumer that catches up on a spinning disk waits for a seek every 128 KiB.",
        detail="On an HDD a seek takes as long as reading a megabyte. On flash there is no seek to save, and unneeded "
        "pages evict pages that other consumers need. RAID and LVM devices have their own value, which takes "
        "precedence.",
        authorities=(
            Authority("kernel default", "128 KiB", sources.KERNEL_BLOCK),
            Authority("TuneD throughput-performance", "4096 KiB, never less than there is", sources.TUNED),
        ),
        risk="low",
        risk_text="Random reads on the same disk read and cache more than they use.",
    ),
    _knob(
        id="disk.nr_requests",
        title="Requests that may wait in the queue of a disk",
        path="/sys/block/{target}/queue/nr_requests",
        unit="count",
        comparison="at_least",
        recommend=formulas.requests,
        reason="A scheduler can only order the requests in its queue.",
        detail="For devices without a scheduler, the driver sets the depth of the hardware queue, and the kernel "
        "refuses more. Setting another scheduler resets this value to the default.",
        authorities=(
            Authority(
                "kernel default", "by the driver; twice the device's depth with a scheduler", sources.KERNEL_BLOCK
            ),
            Authority("saptune", "as configured (NRREQ)", sources.SAPTUNE_MANUAL),
        ),
        sources=(sources.KERNEL_BLOCK,),
        risk="low",
        risk_text="Readers wait longer behind write-back in a longer queue.",
    ),
    _knob(
        id="disk.max_sectors_kb",
        title="Largest request that is sent to a disk",
        path="/sys/block/{target}/queue/max_sectors_kb",
        unit="KiB",
        comparison="at_least",
        recommend=formulas.largest_request,
        reason="A segment written in small requests costs an interrupt for each request.",
        detail="The hardware's limit, max_hw_sectors_kb, cannot be exceeded. Recent kernels have a higher default "
        "than recommended here; that value stays.",
        authorities=(
            Authority("kernel default", "1280 KiB or more, within what the hardware takes", sources.KERNEL_BLOCK),
            Authority("saptune", "as configured, cut to max_hw_sectors_kb", sources.SAPTUNE_MANUAL),
        ),
        risk="low",
        risk_text="A small read waits behind a larger write.",
    ),
    _knob(
        id="disk.write_cache",
        title="The kernel's assumption about a disk's write cache",
        mechanism="advice",
        path="/sys/block/{target}/queue/write_cache",
        unit="",
        recommend=formulas.write_cache,
        reason="Writing this file does not change the cache: it stops the flushes that make fsync durable.",
        detail="With write back the kernel flushes the device's cache when a program calls fsync, with write through "
        "it does not. The file changes only the kernel's assumption, not the device. Highwater never writes it.",
        authorities=(
            Authority("kernel default", "as the driver found the device", sources.KERNEL_BLOCK),
            Authority("Redpanda rpk", "write through, on Google Cloud", sources.REDPANDA),
        ),
        sources=(sources.KERNEL_BLOCK,),
        risk="critical",
        risk_text="write through with a volatile cache loses synced data in a power cut.",
    ),
    _knob(
        id="disk.wbt_lat_usec",
        title="Read latency above which write-back is throttled",
        path="/sys/block/{target}/queue/wbt_lat_usec",
        unit="microseconds",
        recommend=formulas.writeback_throttling,
        reason="To keep reads fast, the kernel limits write-back below the disk's throughput.",
        detail="The kernel's target is 75 ms on spinning disks and 2 ms on others; it sends fewer writes when reads "
        "take longer, and -1 restores this default. 0 turns throttling off: more throughput for a broker whose "
        "consumers read from memory, slower reads for one whose consumers lag.",
        authorities=(Authority("kernel default", "75000 on HDD, 2000 elsewhere", sources.KERNEL_BLOCK),),
        risk="medium",
        risk_text="Consumers that read from disk may starve behind write-back.",
        only_if_named="reads may starve behind write-back: prove it on this host first",
    ),
    _knob(
        id="disk.rq_affinity",
        title="CPU on which a request is completed",
        path="/sys/block/{target}/queue/rq_affinity",
        unit="count",
        recommend=formulas.completion_affinity,
        reason="With many CPUs in one group, the few CPUs that take interrupts complete the requests of all.",
        detail="1 completes a request on any CPU that shares a cache with the requesting CPU, 2 on the requesting CPU. "
        "Drivers with a queue for each CPU do the latter anyway.",
        authorities=(Authority("kernel default", "1", sources.KERNEL_BLOCK),),
        risk="low",
        risk_text="One more interrupt between CPUs for some requests.",
    ),
    _knob(
        id="bdi.max_ratio",
        title="Share of all dirty pages that one disk may have",
        path="/sys/block/{target}/bdi/max_ratio",
        unit="percent",
        comparison="at_most",
        recommend=formulas.dirty_share,
        reason="One slow disk can use up the limit of dirty pages, and writers to other disks wait too.",
        detail="The kernel divides dirty pages by the recent speed of each disk; a disk that suddenly hangs keeps its "
        "old share and more. strict_limit enforces a disk's share even while memory is free.",
        authorities=(Authority("kernel default", "100", sources.KERNEL_BDI),),
        sources=(sources.KERNEL_BDI, sources.KERNEL_VM),
        risk="medium",
        risk_text="A burst on one disk is throttled earlier although memory is free.",
    ),
)
