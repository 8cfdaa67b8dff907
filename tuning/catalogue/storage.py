"""Knobs of file systems and their mounts, for each data directory.

The value of a mount knob is the mount option itself.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from .. import who_can_change
from ..formulas import storage as formulas
from ..model import Authority, Knob, Lifetime
from . import sources

_knob = partial(Knob, group="storage", mechanism="mount", scope="mount")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="storage.layout",
        title="Layout of the data directories on disks",
        mechanism="advice",
        path="lsblk",
        unit="",
        recommend=formulas.storage_layout,
        reason="Replication already stores copies; RAID stores them again with every write.",
        detail="With one directory for each disk, a broker loses only the partitions of a failed disk, and other "
        "brokers have replicas. RAID 5 and 6 read before they write. RAID 0 and volumes over several disks lose "
        "everything when one disk fails. A rebuild loads the disks for hours. Use RAID 10 if you need a single large "
        "volume.",
        authorities=(Authority("Apache Kafka", "a disk for each; RAID costs write throughput", sources.KAFKA_OS),),
        risk="high",
        risk_text="A broker spreads partitions over disks by number, not by size: one disk may fill before the others.",
        persistence="file system",
        capability=who_can_change.MAKE,
        observe=formulas.observe_layout,
    ),
    _knob(
        id="filesystem.type",
        title="File system of the data directories",
        mechanism="advice",
        path="/proc/self/mountinfo",
        unit="",
        recommend=formulas.filesystem_type,
        reason="Copy-on-write and network file systems lose the advantage of sequential appends.",
        detail="Both ext4 and XFS append to preallocated extents with little journal traffic. Published measurements "
        "with Kafka show shorter tail latencies with XFS, because its journal does not block writers during a commit. "
        "ext4 with fast commits comes close. Where the broker has little memory, ext4: in 96 MiB, page cache included, "
        "XFS made the p99 of producers beside late readers 4.7 times as long here (results/settings-matrix.md). "
        "The difference depends on kernel and load: compare on a spare disk.",
        authorities=(
            Authority("Apache Kafka", "XFS: 160 ms of local time, ext4 at best 250 ms", sources.KAFKA_OS),
            Authority("Allegro", "XFS: 82 % fewer slow produce requests than with ext4", sources.ALLEGRO),
            Authority("Redpanda rpk check", "XFS", sources.REDPANDA),
            Authority("TiUP", "ext4 or XFS", sources.TIUP),
        ),
        sources=(sources.KAFKA_OS, sources.ALLEGRO, sources.KERNEL_EXT4, sources.KERNEL_XFS),
        risk="high",
        risk_text="A change needs a new file system, which destroys the data on the disk.",
        persistence="file system",
        capability=who_can_change.MAKE,
        observe=formulas.observe_filesystem_type,
    ),
    _knob(
        id="filesystem.mkfs_options",
        title="Options with which an ext4 file system is made",
        mechanism="advice",
        path="dumpe2fs -h DEVICE",
        unit="",
        recommend=formulas.mkfs_options,
        reason="By default, 5 % of each disk is reserved for root, and the journal writes more than necessary.",
        detail="-m 0 frees the blocks reserved for root, which a disk of segments does not need. fast_commit (Linux "
        "5.10) logs small metadata changes in a short form. stride and stripe_width align writes with the chunks of a "
        "RAID. For a benchmark, -E lazy_itable_init=0,lazy_journal_init=0 initializes everything at once instead of in "
        "the background of the first hours. tune2fs can set -m 0 and fast_commit later, on an unmounted file system.",
        authorities=(
            Authority("mke2fs default", "5 % reserved, no fast_commit", sources.MKE2FS),
            Authority("Apache Kafka", "fast_commit", sources.KAFKA_OS),
        ),
        sources=(sources.MKE2FS, sources.KERNEL_EXT4, sources.KAFKA_OS),
        risk="high",
        risk_text="mkfs destroys what is on the device; a kernel older than 5.10 cannot recover a fast commit.",
        persistence="file system",
        capability=who_can_change.MAKE,
        observe=formulas.observe_mkfs_options,
    ),
    _knob(
        id="mount.fstab_source",
        title="How /etc/fstab names the data disk",
        path="/etc/fstab",
        unit="",
        recommend=formulas.fstab_source,
        reason="The kernel names disks in the order of detection: after a reboot sdb may be another disk.",
        detail="A UUID identifies the file system itself. x-systemd.device-timeout= limits how long a boot waits for a "
        "slow disk. With nofail a host boots with a dead disk. nofail needs RequiresMountsFor= in the broker's unit "
        "and a mount point that is not writable while nothing is mounted, as the playbooks create them; otherwise the "
        "broker starts on the empty directory and replicates everything again.",
        authorities=(
            Authority("fstab(5)", "UUID= or LABEL=", sources.FSTAB),
            Authority("Redpanda Ansible collection", "UUID=", sources.REDPANDA_ANSIBLE),
        ),
        sources=(sources.FSTAB,),
        risk="high",
        risk_text="A wrong line in /etc/fstab can stop the next boot.",
        only_if_named="it replaces a line that somebody wrote, and a mistake in it stops the next boot",
        observe=formulas.observe_fstab_source,
    ),
    _knob(
        id="mount.noatime",
        title="No access times on the data directory's mount",
        path="/proc/self/mountinfo",
        unit="",
        recommend=formulas.mount_noatime,
        reason="With access times, reads of consumers cause writes to the disk.",
        detail="With relatime, Linux's default, the kernel still writes a file's access time once a day and after each "
        "change, which is often for a log that is read at its end. Kafka uses no access times.",
        authorities=(
            Authority("kernel default", "relatime", sources.KERNEL_EXT4),
            Authority("Apache Kafka", "noatime", sources.KAFKA_OS),
            Authority("TiUP", "noatime", sources.TIUP),
        ),
        sources=(sources.KAFKA_OS, sources.KERNEL_EXT4),
        risk="low",
        risk_text="Programs that search files by last access get wrong results.",
        observe=formulas.observe_atime,
    ),
    _knob(
        id="mount.lazytime",
        title="Times of files in memory only, for up to a day",
        path="/proc/self/mountinfo",
        unit="",
        recommend=formulas.mount_lazytime,
        reason="A write changes the file's time, and so the journal: it may wait while the journal is committed.",
        detail="With lazytime the times of a file are written with its other changes, when it is synced, and once a "
        "day. `highwater tune waits` shows such waits as pwrite64 that waits for a commit (do_get_write_access). An "
        "append that needs new blocks changes the journal all the same, later and in the kernel's own thread.",
        authorities=(Authority("kernel default", "nolazytime", sources.MOUNT),),
        sources=(sources.MOUNT, sources.KERNEL_EXT4),
        risk="low",
        risk_text="After a crash, times of files may be up to a day old. Retention uses them only for segments whose "
        "records have no timestamps.",
        only_if_named="it was measured on an emulated hard disk only; `highwater tune prove mount.lazytime` measures "
        "it on yours",
        observe=formulas.observe_lazytime,
    ),
    _knob(
        id="mount.discard",
        title="No discard of blocks at every deletion",
        path="/proc/self/mountinfo",
        unit="",
        recommend=formulas.mount_discard,
        reason="Retention deletes gigabytes at a time; discarding them at once stalls concurrent writes.",
        detail="fstrim.timer discards all free blocks at once, at a quiet time. Virtual disks that return space to "
        "their host may need discard anyway; the stalls are then the price.",
        authorities=(
            Authority("kernel default", "nodiscard", sources.KERNEL_EXT4),
            Authority("Linux kernel: XFS", "fstrim instead, as discard can cost much", sources.KERNEL_XFS),
            Authority("Redpanda rpk", "fstrim.timer", sources.REDPANDA),
        ),
        sources=(sources.KERNEL_XFS, sources.KERNEL_EXT4, sources.FSTRIM),
        risk="low",
        risk_text="Without fstrim.timer a flash device gets slower, as it does not know its free blocks.",
        observe=formulas.observe_discard,
    ),
    _knob(
        id="mount.delalloc",
        title="Delayed allocation of ext4",
        path="/proc/self/mountinfo",
        unit="",
        recommend=formulas.delayed_allocation,
        reason="Without it, ext4 allocates blocks at every write, and segments get fragmented.",
        detail="It is ext4's default: blocks are allocated at write-back, in large extents. Advice for databases that "
        "write small synced pages turns it off; a log gains from it, at the price of some jitter.",
        authorities=(
            Authority("kernel default", "delalloc", sources.KERNEL_EXT4),
            Authority("Apache Kafka", "delalloc", sources.KAFKA_OS),
            Authority("TiUP", "nodelalloc", sources.TIUP),
        ),
        sources=(sources.KAFKA_OS, sources.KERNEL_EXT4),
        risk="low",
        risk_text="A power cut loses data that was not synced, as with any page cache.",
        observe=formulas.observe_delayed_allocation,
    ),
    _knob(
        id="mount.barrier",
        title="Flushes of the disk's cache by the file system",
        path="/proc/self/mountinfo",
        unit="",
        recommend=formulas.write_barrier,
        reason="Without flushes, a power cut loses synced data and may damage the file system itself.",
        detail="nobarrier is safe only if every cache below survives a power cut, and then a flush costs almost "
        "nothing anyway. XFS has had no such option since Linux 4.19; a mount with it fails.",
        authorities=(
            Authority("kernel default", "barrier", sources.KERNEL_EXT4),
            Authority("SAP Note 2578899", "no barrier options on XFS", sources.SAPTUNE_SLES),
        ),
        sources=(sources.KERNEL_EXT4, sources.KERNEL_XFS),
        risk="critical",
        risk_text="On a controller that executes every flush, fsync is as slow as the disk.",
        observe=formulas.observe_barrier,
    ),
    _knob(
        id="mount.data_writeback",
        title="ext4 without ordering of data and metadata",
        path="/proc/self/mountinfo",
        unit="",
        recommend=formulas.data_writeback,
        reason="With data=ordered, a journal commit waits until data is on the disk, and writers wait for the commit.",
        detail="Kafka verifies the unflushed end of its logs after a crash, so wrong bytes there do no harm; other "
        "files on the same mount have no such protection. fast_commit and XFS shorten these waits without the trade.",
        authorities=(
            Authority("kernel default", "data=ordered", sources.KERNEL_EXT4),
            Authority("Apache Kafka", "data=writeback, unsafe when several brokers fail at once", sources.KAFKA_OS),
        ),
        sources=(sources.KAFKA_OS, sources.KERNEL_EXT4),
        risk="high",
        risk_text="After a crash, new parts of files may contain old blocks of other files.",
        only_if_named="durability: after a crash, new parts of files may contain old blocks of other files",
        observe=formulas.observe_data_mode,
    ),
    _knob(
        id="mount.commit",
        title="How often ext4 commits its journal",
        path="/proc/self/mountinfo",
        unit="",
        recommend=formulas.journal_commit,
        reason="Every commit blocks writers for a moment; by default there is one every 5 s.",
        detail="Synced data is safe with any interval. The interval limits how much unsynced metadata, such as newly "
        "created segments, a crash loses.",
        authorities=(
            Authority("kernel default", "commit=5", sources.KERNEL_EXT4),
            Authority("Apache Kafka", "higher for throughput, lower for less loss", sources.KAFKA_OS),
        ),
        risk="medium",
        risk_text="A crash loses up to that many seconds of unsynced metadata.",
        only_if_named="durability: a crash may cost 30 s of unsynced metadata instead of 5",
        observe=formulas.observe_commit,
    ),
    _knob(
        id="mount.nobh",
        title="ext4 without buffer heads",
        mechanism="advice",
        path="/proc/self/mountinfo",
        unit="",
        recommend=formulas.buffer_heads,
        reason="Tuning guides copy it from each other, but it has no effect.",
        detail="The option left ordering to the page cache in data=writeback mode. Kernels still accept the word, so "
        "that old fstab lines work, and ignore it.",
        authorities=(Authority("Apache Kafka, older documentation", "nobh", sources.KAFKA_OS),),
        sources=(sources.KERNEL_EXT4,),
        risk="low",
        risk_text="None: it does nothing.",
        # fs/ext4/super.c has it among the removed options from 3.4 on at the latest.
        lifetime=Lifetime(removed=(3, 4), text="ext4 accepts the word and ignores it; leave it out of /etc/fstab"),
        observe=formulas.observe_buffer_heads,
    ),
)
