"""What the entries of the catalogue are drawn from: one name per document."""

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
KAFKA_NOTES: Final = Source("Apache Kafka lecture notes behind this project", "")
