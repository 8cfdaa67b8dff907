"""The profiles that Highwater ships, as data."""

from __future__ import annotations

from typing import Final

from .model import Profile, Wish

_MIB: Final = 2**20

_FULL_CLOCK: Final = Wish(
    "performance", "A clock that follows the load makes the first records after a pause slow.", where_present=True
)

PROFILES: Final = (
    Profile("recommended", "what `highwater tune check` recommends for this host", everything=True),
    Profile(
        "throughput",
        "more bytes a second, at the price of power and of longer queues",
        {
            "net.core.rmem_max": Wish(16 * _MIB, "Room for many links at once, as TuneD has it.", "at_least"),
            "net.core.wmem_max": Wish(16 * _MIB, "As net.core.rmem_max.", "at_least"),
            "net.ipv4.tcp_rmem": Wish(16 * _MIB, "As net.core.rmem_max, for sockets the kernel sizes.", "at_least"),
            "net.ipv4.tcp_wmem": Wish(16 * _MIB, "As net.ipv4.tcp_rmem.", "at_least"),
            "net.core.netdev_max_backlog": Wish(
                10_000, "Bursts wait for a CPU instead of being dropped.", "at_least", where_present=True
            ),
            "disk.read_ahead_kb": Wish(
                4096, "Consumers that catch up read long stretches.", "at_least", where_present=True
            ),
            "cpu.governor": _FULL_CLOCK,
            "cpu.boost": Wish(1, "The highest clock there is.", where_present=True),
        },
        extends="recommended",
    ),
    Profile(
        "latency",
        "shorter waits, at the price of power and of some throughput",
        {
            "vm.dirty_expire_centisecs": Wish(500, "Smaller, more frequent flushes stall less.", "at_most"),
            "vm.dirty_writeback_centisecs": Wish(100, "As vm.dirty_expire_centisecs; 0 would be never."),
            "kernel.numa_balancing": Wish(0, "No faults that only find out who uses a page.", where_present=True),
            "kernel.nmi_watchdog": Wish(0, "Its interrupts stop every CPU for a moment.", where_present=True),
            "kernel.timer_migration": Wish(0, "Timers fire where they were set.", where_present=True),
            "cpu.governor": _FULL_CLOCK,
            "cpu.boost": Wish(1, "The highest clock there is.", where_present=True),
        },
        extends="recommended",
    ),
    Profile(
        "durable",
        "little unwritten data at any moment, at the price of throughput in bursts",
        {
            "vm.dirty_background_bytes": Wish(64 * _MIB, "The disk is kept writing.", "at_most"),
            "vm.dirty_bytes": Wish(512 * _MIB, "A power cut takes no more than this.", "at_most"),
            "vm.dirty_expire_centisecs": Wish(500, "Nothing stays unwritten for longer than some 5 s.", "at_most"),
            "vm.dirty_writeback_centisecs": Wish(100, "The age of data is looked at every second; 0 would be never."),
        },
        extends="recommended",
    ),
    Profile(
        "notes",
        "what the lecture notes behind this project ask for",
        {
            "net.core.rmem_max": Wish(524_288_000, "The notes' own figure for the largest receive buffer."),
            "vm.swappiness": Wish(1, "The notes want swap off; this is as near as a setting comes."),
            "vm.dirty_writeback_centisecs": Wish(
                1500,
                "The notes want longer flush intervals, without a figure; this is three times the kernel's default.",
            ),
            "vm.dirty_expire_centisecs": Wish(
                9000, "As vm.dirty_writeback_centisecs, three times the kernel's default."
            ),
        },
        aliases=("as-the-notes-say",),
    ),
    Profile(
        "benchmark-repeatable",
        "less noise, not more speed: what makes two runs of the same thing differ is turned off",
        {
            "vm.swappiness": Wish(1, "Memory that is swapped out in one trial is read back in the next."),
            "kernel.perf_event_max_sample_rate": Wish(1, "Profilers cannot interrupt a trial.", where_present=True),
            "kernel.nmi_watchdog": Wish(0, "Its interrupts use a hardware counter.", where_present=True),
            "kernel.numa_balancing": Wish(0, "Pages do not wander between nodes.", where_present=True),
            "cpu.governor": Wish(
                "performance", "A clock that follows the load makes light trials slow.", where_present=True
            ),
            "cpu.boost": Wish(
                0, "A boosted clock depends on temperature, and so on what ran before.", where_present=True
            ),
        },
    ),
)
