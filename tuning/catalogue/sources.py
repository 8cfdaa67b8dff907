"""The sources of the catalogue's entries: one name per document."""

from __future__ import annotations

from typing import Final

from ..model import Source

KERNEL_VM: Final = Source("Linux kernel: /proc/sys/vm", "https://docs.kernel.org/admin-guide/sysctl/vm.html")
KERNEL_FS: Final = Source("Linux kernel: /proc/sys/fs", "https://docs.kernel.org/admin-guide/sysctl/fs.html")
KERNEL_NET: Final = Source("Linux kernel: /proc/sys/net", "https://docs.kernel.org/admin-guide/sysctl/net.html")
KERNEL_IP: Final = Source("Linux kernel: IP sysctl", "https://docs.kernel.org/networking/ip-sysctl.html")
KERNEL_THP: Final = Source(
    "Linux kernel: Transparent Hugepage Support", "https://docs.kernel.org/admin-guide/mm/transhuge.html"
)
KERNEL_EXT4: Final = Source("Linux kernel: ext4", "https://docs.kernel.org/admin-guide/ext4.html")
KERNEL_SCHEDULER: Final = Source(
    "Linux kernel: Switching Scheduler", "https://docs.kernel.org/block/switching-sched.html"
)
KAFKA_OS: Final = Source("Apache Kafka 3.9: Hardware and OS", "https://kafka.apache.org/39/documentation.html#hwandos")
KAFKA_BROKER: Final = Source(
    "Apache Kafka 3.9: broker configuration", "https://kafka.apache.org/39/documentation.html#brokerconfigs"
)
CANONICAL: Final = Source(
    "Canonical, Charmed Apache Kafka: Performance tuning",
    "https://documentation.ubuntu.com/charmed-kafka/3/reference/performance-tuning",
)
CONFLUENT: Final = Source("Confluent, cp-ansible 8.3", "https://github.com/confluentinc/cp-ansible")
REDPANDA: Final = Source(
    "Redpanda, rpk tuners", "https://github.com/redpanda-data/redpanda/tree/dev/src/go/rpk/pkg/tuners"
)
TUNED: Final = Source("TuneD profiles", "https://github.com/redhat-performance/tuned/tree/master/profiles")
TIUP: Final = Source(
    "PingCAP, TiUP cluster check", "https://github.com/pingcap/tiup/blob/master/pkg/cluster/operation/check.go"
)
ELASTIC: Final = Source(
    "Elasticsearch 8.17: Virtual memory",
    "https://www.elastic.co/guide/en/elasticsearch/reference/8.17/vm-max-map-count.html",
)
RHEL_SCHEDULER: Final = Source(
    "Red Hat Enterprise Linux 9: Setting the disk scheduler",
    "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/managing_storage_devices/"
    "setting-the-disk-scheduler_managing-storage-devices",
)
SAPTUNE: Final = Source("SUSE, saptune (SAP Note 2382421)", "https://github.com/SUSE/saptune")
SYSTEMD_EXEC: Final = Source(
    "systemd.exec(5)", "https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html"
)
KERNEL_KERNEL: Final = Source(
    "Linux kernel: /proc/sys/kernel", "https://docs.kernel.org/admin-guide/sysctl/kernel.html"
)
KERNEL_KSM: Final = Source("Linux kernel: Kernel Samepage Merging", "https://docs.kernel.org/admin-guide/mm/ksm.html")
KERNEL_CGROUP: Final = Source("Linux kernel: Control Group v2", "https://docs.kernel.org/admin-guide/cgroup-v2.html")
KERNEL_MEMORY_POLICY: Final = Source(
    "Linux kernel: NUMA Memory Policy", "https://docs.kernel.org/admin-guide/mm/numa_memory_policy.html"
)
KERNEL_SCALING: Final = Source(
    "Linux kernel: Scaling in the Linux Networking Stack", "https://docs.kernel.org/networking/scaling.html"
)
SYSTEMD_RESOURCES: Final = Source(
    "systemd.resource-control(5)",
    "https://www.freedesktop.org/software/systemd/man/latest/systemd.resource-control.html",
)
SYSTEMD_FILES: Final = Source(
    "systemd: fs.nr_open and fs.file-max to their largest values",
    "https://github.com/systemd/systemd/commit/a8b627aaed409a15260c25988970c795bf963812",
)
PAM_LIMITS: Final = Source("limits.conf(5)", "https://man7.org/linux/man-pages/man5/limits.conf.5.html")
CORE: Final = Source("core(5)", "https://man7.org/linux/man-pages/man5/core.5.html")
IO_URING_REGISTER: Final = Source(
    "io_uring_register(2)", "https://man7.org/linux/man-pages/man2/io_uring_register.2.html"
)
ELASTIC_SWAP: Final = Source(
    "Elasticsearch 8.17: Disable swapping",
    "https://www.elastic.co/guide/en/elasticsearch/reference/8.17/setup-configuration-memory.html",
)
ELASTIC_THREADS: Final = Source(
    "Elasticsearch 8.17: Maximum number of threads check",
    "https://www.elastic.co/guide/en/elasticsearch/reference/8.17/max-number-threads-check.html",
)
DATASTAX: Final = Source(
    "DataStax, Apache Cassandra 2.0: Recommended production settings",
    "https://docs.datastax.com/en/cassandra/2.0/cassandra/install/installRecommendSettings.html",
)
SCYLLA: Final = Source(
    "ScyllaDB, sysctl.d of the package", "https://github.com/scylladb/scylladb/tree/master/dist/common/sysctl.d"
)
MONGODB_THP: Final = Source(
    "MongoDB 8.0: TCMalloc performance", "https://www.mongodb.com/docs/manual/administration/tcmalloc-performance/"
)
MONGODB_NOTES: Final = Source(
    "MongoDB: Production notes", "https://www.mongodb.com/docs/manual/administration/production-notes/"
)
REDPANDA_ANSIBLE: Final = Source(
    "Redpanda, Ansible collection, role sysctl_setup",
    "https://github.com/redpanda-data/redpanda-ansible-collection/tree/main/roles/sysctl_setup",
)
FEDORA_MAP_COUNT: Final = Source(
    "Fedora 39 change: vm.max_map_count", "https://fedoraproject.org/wiki/Changes/IncreaseVmMaxMapCount"
)
SAPTUNE_HANA: Final = Source(
    "SUSE, saptune (SAP Note 2684254)",
    "https://github.com/SUSE/saptune",
)
KAFKA_NOTES: Final = Source("Apache Kafka lecture notes behind this project", "")

# Storage, disks, network and processors
KERNEL_XFS: Final = Source("Linux kernel: XFS", "https://docs.kernel.org/admin-guide/xfs.html")
KERNEL_BLOCK: Final = Source(
    "Linux kernel ABI: /sys/block", "https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-block"
)
KERNEL_BDI: Final = Source(
    "Linux kernel ABI: /sys/class/bdi", "https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-class-bdi"
)
KERNEL_CONNTRACK: Final = Source(
    "Linux kernel: /proc/sys/net/netfilter", "https://docs.kernel.org/networking/nf_conntrack-sysctl.html"
)
KERNEL_IRQ: Final = Source("Linux kernel: SMP IRQ affinity", "https://docs.kernel.org/core-api/irq/irq-affinity.html")
KERNEL_CPUFREQ: Final = Source(
    "Linux kernel: CPU Performance Scaling", "https://docs.kernel.org/admin-guide/pm/cpufreq.html"
)
KERNEL_CPUIDLE: Final = Source(
    "Linux kernel: CPU Idle Time Management", "https://docs.kernel.org/admin-guide/pm/cpuidle.html"
)
KERNEL_TIMEKEEPING: Final = Source(
    "Linux kernel: Clock sources, clock events, sched_clock() and delay timers",
    "https://docs.kernel.org/timers/timekeeping.html",
)
KERNEL_PARAMETERS: Final = Source(
    "Linux kernel: command-line parameters", "https://docs.kernel.org/admin-guide/kernel-parameters.html"
)
KERNEL_TW_RECYCLE: Final = Source(
    "Linux commit 4396e46187ca: tcp_tw_recycle removed",
    "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/commit/"
    "?id=4396e46187ca5070219b81773c4e65088dac50cc",
)
KERNEL_SCHED_DEBUG: Final = Source(
    "Linux commit 8a99b6833c88: scheduler sysctls moved to debugfs",
    "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/commit/"
    "?id=8a99b6833c884fa0e7919030d93fecedc69fc625",
)
MKE2FS: Final = Source("mke2fs(8)", "https://man7.org/linux/man-pages/man8/mke2fs.8.html")
MOUNT: Final = Source("mount(8)", "https://man7.org/linux/man-pages/man8/mount.8.html")
FSTAB: Final = Source("fstab(5)", "https://man7.org/linux/man-pages/man5/fstab.5.html")
FSTRIM: Final = Source("fstrim(8)", "https://man7.org/linux/man-pages/man8/fstrim.8.html")
ETHTOOL: Final = Source("ethtool(8)", "https://man7.org/linux/man-pages/man8/ethtool.8.html")
TCP_MANUAL: Final = Source("tcp(7)", "https://man7.org/linux/man-pages/man7/tcp.7.html")
ALLEGRO: Final = Source(
    "Allegro: Unlocking Kafka's Potential: Tackling Tail Latency with eBPF",
    "https://blog.allegro.tech/2024/03/kafka-performance-analysis.html",
)
PERFTUNE: Final = Source(
    "ScyllaDB, Seastar's perftune.py", "https://github.com/scylladb/seastar/blob/master/scripts/perftune.py"
)
PYPERF: Final = Source("pyperf: Tune the system for benchmarks", "https://pyperf.readthedocs.io/en/latest/system.html")
IRQBALANCE: Final = Source("irqbalance", "https://github.com/Irqbalance/irqbalance")
BPFTUNE: Final = Source("Oracle, bpftune", "https://github.com/oracle/bpftune")
ELASTIC_RETRIES: Final = Source(
    "Elasticsearch 8.17: TCP retransmission timeout",
    "https://www.elastic.co/guide/en/elasticsearch/reference/8.17/system-config-tcpretries.html",
)
SYSTEMD_SYSCTL_DEFAULTS: Final = Source(
    "systemd: sysctl.d/50-default.conf", "https://github.com/systemd/systemd/blob/main/sysctl.d/50-default.conf"
)
SAPTUNE_SLES: Final = Source(
    "SUSE, saptune (SAP Note 2578899)",
    "https://github.com/SUSE/saptune/blob/main/ospackage/usr/share/saptune/notes/2578899",
)
SAPTUNE_MANUAL: Final = Source(
    "saptune-note(5)", "https://github.com/SUSE/saptune/blob/main/ospackage/man/saptune-note.5"
)
