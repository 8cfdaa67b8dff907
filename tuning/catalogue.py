"""The knobs as data: one catalogue that the command line, the Ansible module, results and documents read.

`KNOBS` is in the order of application: a ceiling stands before what it bounds (`fs.nr_open` before the file limit).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from . import formulas
from .errors import TuningError, nearest_match
from .formulas import Formula

Kind = Literal["sysctl", "limit", "choice", "mount", "swap"]
Scope = Literal["host", "network namespace", "process", "mount", "disk"]
Comparison = Literal["equal", "at_least", "about"]
Risk = Literal["low", "medium", "high"]


@dataclass(frozen=True)
class Source:
    title: str
    url: str


@dataclass(frozen=True)
class Authority:
    """What somebody who should know recommends; where they disagree, every one of them is listed."""

    who: str
    value: str
    source: Source


@dataclass(frozen=True)
class Knob:
    """One setting of a host. `path` may hold `{name}`, the disk that a knob of scope "disk" is evaluated for."""

    id: str
    title: str
    kind: Kind
    path: str
    unit: Literal["bytes", "count", ""]
    scope: Scope
    comparison: Comparison
    """`at_least`: a higher value is never lowered. `about`: within a factor 1.5, as the figures behind it are."""
    recommend: Formula
    reason: str
    """One line: what goes wrong without it."""
    detail: str
    authorities: tuple[Authority, ...]
    sources: tuple[Source, ...]
    risk: Risk
    risk_text: str
    persistence: str
    field: int | None = None
    """Which of several numbers in the file is meant; the others stay as they are."""
    twin: str | None = None
    """The sysctl in percent that the kernel sets to 0 when this one is written, and the other way about."""

    @property
    def never_lower(self) -> bool:
        return self.comparison == "at_least"


_KERNEL_VM: Final = Source("Linux kernel: /proc/sys/vm", "https://docs.kernel.org/admin-guide/sysctl/vm.html")
_KERNEL_FS: Final = Source("Linux kernel: /proc/sys/fs", "https://docs.kernel.org/admin-guide/sysctl/fs.html")
_KERNEL_NET: Final = Source("Linux kernel: /proc/sys/net", "https://docs.kernel.org/admin-guide/sysctl/net.html")
_KERNEL_IP: Final = Source("Linux kernel: IP sysctl", "https://docs.kernel.org/networking/ip-sysctl.html")
_KERNEL_THP: Final = Source(
    "Linux kernel: Transparent Hugepage Support", "https://docs.kernel.org/admin-guide/mm/transhuge.html"
)
_KERNEL_EXT4: Final = Source("Linux kernel: ext4", "https://docs.kernel.org/admin-guide/ext4.html")
_KERNEL_SCHEDULER: Final = Source(
    "Linux kernel: Switching Scheduler", "https://docs.kernel.org/block/switching-sched.html"
)
_KAFKA_OS: Final = Source("Apache Kafka 3.9: Hardware and OS", "https://kafka.apache.org/39/documentation.html#hwandos")
_KAFKA_BROKER: Final = Source(
    "Apache Kafka 3.9: broker configuration", "https://kafka.apache.org/39/documentation.html#brokerconfigs"
)
_CANONICAL: Final = Source(
    "Canonical, Charmed Apache Kafka: Performance tuning",
    "https://documentation.ubuntu.com/charmed-kafka/3/reference/performance-tuning",
)
_CONFLUENT: Final = Source("Confluent, cp-ansible 8.3", "https://github.com/confluentinc/cp-ansible")
_REDPANDA: Final = Source(
    "Redpanda, rpk tuners", "https://github.com/redpanda-data/redpanda/tree/dev/src/go/rpk/pkg/tuners"
)
_TUNED: Final = Source("TuneD profiles", "https://github.com/redhat-performance/tuned/tree/master/profiles")
_TIUP: Final = Source(
    "PingCAP, TiUP cluster check", "https://github.com/pingcap/tiup/blob/master/pkg/cluster/operation/check.go"
)
_ELASTIC: Final = Source(
    "Elasticsearch 8.17: Virtual memory",
    "https://www.elastic.co/guide/en/elasticsearch/reference/8.17/vm-max-map-count.html",
)
_RHEL_SCHEDULER: Final = Source(
    "Red Hat Enterprise Linux 9: Setting the disk scheduler",
    "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/managing_storage_devices/"
    "setting-the-disk-scheduler_managing-storage-devices",
)
_SAPTUNE: Final = Source("SUSE, saptune (SAP Note 2382421)", "https://github.com/SUSE/saptune")
_SYSTEMD_EXEC: Final = Source(
    "systemd.exec(5)", "https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html"
)
_KAFKA_NOTES: Final = Source("Apache Kafka lecture notes behind this project", "")

_SYSCTL_D: Final = "/etc/sysctl.d/90-highwater.conf"

KNOBS: Final[tuple[Knob, ...]] = (
    Knob(
        id="vm.swappiness",
        title="How readily the kernel swaps a process out to keep page cache",
        kind="sysctl",
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
            Authority("kernel default", "60", _KERNEL_VM),
            Authority("Canonical", "1", _CANONICAL),
            Authority("Confluent", "1", _CONFLUENT),
            Authority("Redpanda rpk", "1", _REDPANDA),
            Authority("TuneD throughput-performance", "10", _TUNED),
        ),
        sources=(_KERNEL_VM, _CANONICAL),
        risk="low",
        risk_text="Other processes on the host keep idle memory longer.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="swap.devices",
        title="Swap devices and files in use",
        kind="swap",
        path="/proc/swaps",
        unit="",
        scope="host",
        comparison="equal",
        recommend=formulas.constant("none", "none: no broker page should ever have to be read back from a disk"),
        reason="Reading a swapped page back stops a request for milliseconds.",
        detail="With no swap at all a broker fails clearly when memory is too small, instead of becoming slow. Swap "
        "comes back at boot from four places: /etc/fstab, systemd .swap units, zram-generator and dphys-swapfile.",
        authorities=(
            Authority("TiUP", "off", _TIUP),
            Authority("Redpanda rpk check", "on", _REDPANDA),
        ),
        sources=(_TIUP, _REDPANDA),
        risk="medium",
        risk_text="Without swap, too little memory ends in the OOM killer; size the host before turning it off.",
        persistence="/etc/fstab, systemd swap units, zram-generator",
    ),
    Knob(
        id="vm.dirty_background_bytes",
        title="Unwritten data at which the kernel starts to write back",
        kind="sysctl",
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
            Authority("kernel default", "10 %", _KERNEL_VM),
            Authority("Canonical", "5 %", _CANONICAL),
            Authority("Confluent", "5 %", _CONFLUENT),
            Authority("TuneD throughput-performance", "10 %", _TUNED),
            Authority("TuneD postgresql", "64 MiB", _TUNED),
        ),
        sources=(_KERNEL_VM, _KAFKA_OS),
        risk="medium",
        risk_text="Too low a value writes the same file-system metadata more often.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="vm.dirty_bytes",
        title="Unwritten data at which writers are made to wait",
        kind="sysctl",
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
            Authority("kernel default", "20 %", _KERNEL_VM),
            Authority("Canonical", "80 %", _CANONICAL),
            Authority("Confluent", "80 %", _CONFLUENT),
            Authority("TuneD throughput-performance", "40 %", _TUNED),
            Authority("TuneD postgresql", "512 MiB", _TUNED),
        ),
        sources=(_KERNEL_VM, _KAFKA_OS),
        risk="medium",
        risk_text="Everything below the limit is lost by an unreplicated broker at a power cut; a lower limit "
        "throttles bursts earlier.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="vm.max_map_count",
        title="Memory mappings that one process may hold",
        kind="sysctl",
        path="/proc/sys/vm/max_map_count",
        unit="count",
        scope="host",
        comparison="at_least",
        recommend=formulas.max_map_count,
        reason='Brokers that map two index files per segment die of "Map failed" at the limit.',
        detail="Apache Kafka maps an offset index and a time index for every log segment. At the kernel's default of "
        "65530 some 32000 segments end it. It costs nothing where a broker reads its indexes without mapping them.",
        authorities=(
            Authority("kernel default", "65530", _KERNEL_VM),
            Authority("Apache Kafka", "by number of segments", _KAFKA_OS),
            Authority("Confluent", "262144", _CONFLUENT),
            Authority("Elasticsearch", "1048576", _ELASTIC),
        ),
        sources=(_KAFKA_OS, _KERNEL_VM),
        risk="low",
        risk_text="A runaway process may hold more mappings before it fails.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="fs.file-max",
        title="Open files of the whole host",
        kind="sysctl",
        path="/proc/sys/fs/file-max",
        unit="count",
        scope="host",
        comparison="at_least",
        recommend=formulas.constant(1_000_000, "1000000"),
        reason="Above it every open and accept on the host fails.",
        detail="Modern kernels size it by memory or leave it practically unlimited, so that this is often no change.",
        authorities=(Authority("TiUP", "1000000", _TIUP),),
        sources=(_KERNEL_FS, _TIUP),
        risk="low",
        risk_text="Each open file costs about 1 KiB of kernel memory.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="fs.nr_open",
        title="The most open files any process may be allowed",
        kind="sysctl",
        path="/proc/sys/fs/nr_open",
        unit="count",
        scope="host",
        comparison="at_least",
        recommend=formulas.nr_open,
        reason="A file limit above it is refused: the unit does not start, the login fails.",
        detail="It is the ceiling of every RLIMIT_NOFILE and has to be raised before a limit above it is set.",
        authorities=(Authority("kernel default", "1048576", _KERNEL_FS),),
        sources=(_KERNEL_FS,),
        risk="low",
        risk_text="None known by itself.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="limit.nofile",
        title="Open files that one process may hold",
        kind="limit",
        path="/proc/self/limits",
        unit="count",
        scope="process",
        comparison="at_least",
        recommend=formulas.nofile,
        reason="Segments, indexes and sockets are all files; at the limit a broker stops accepting and rolling.",
        detail="The soft limit counts: a process meets it unless it raises it itself. The value shown is that of the "
        "session that ran the check. A systemd unit does not take its limits from /etc/security/limits.d but from "
        "LimitNOFILE=, and a login does not take them from the unit: the playbook writes both.",
        authorities=(
            Authority("Apache Kafka", "100000 at least", _KAFKA_OS),
            Authority("TiUP", "1000000", _TIUP),
            Authority("systemd default", "1024 soft, 524288 hard", _SYSTEMD_EXEC),
        ),
        sources=(_KAFKA_OS, _SYSTEMD_EXEC),
        risk="low",
        risk_text="Programs that close every possible descriptor at start take longer to start.",
        persistence="systemd drop-in for units, /etc/security/limits.d for logins",
    ),
    Knob(
        id="net.core.rmem_max",
        title="Largest receive buffer that a program may ask for",
        kind="sysctl",
        path="/proc/sys/net/core/rmem_max",
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.socket_buffer_max,
        reason="A broker or client that asks for a bigger SO_RCVBUF silently gets this much.",
        detail="It binds only sockets whose program sets the buffer size, as Kafka does by default "
        "(socket.receive.buffer.bytes=102400, below any limit): raise that setting, or set it to -1 to leave the size "
        "to the kernel, before expecting an effect. Setting SO_RCVBUF also turns the kernel's own tuning off.",
        authorities=(
            Authority("SAP Note 2382421", "bandwidth × delay (1.25 MB at 10 Gbit/s, 1 ms)", _SAPTUNE),
            Authority("lecture notes", "524288000", _KAFKA_NOTES),
        ),
        sources=(_KERNEL_NET, _KERNEL_IP, _KAFKA_BROKER, _SAPTUNE),
        risk="low",
        risk_text="A program may pin that much kernel memory per socket.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="net.core.wmem_max",
        title="Largest send buffer that a program may ask for",
        kind="sysctl",
        path="/proc/sys/net/core/wmem_max",
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.socket_buffer_max,
        reason="A broker or client that asks for a bigger SO_SNDBUF silently gets this much.",
        detail="As net.core.rmem_max, for the other direction (socket.send.buffer.bytes of Kafka brokers).",
        authorities=(Authority("SAP Note 2382421", "bandwidth × delay (1.25 MB at 10 Gbit/s, 1 ms)", _SAPTUNE),),
        sources=(_KERNEL_NET, _KERNEL_IP, _KAFKA_BROKER, _SAPTUNE),
        risk="low",
        risk_text="A program may pin that much kernel memory per socket.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="net.ipv4.tcp_rmem",
        title="Ceiling of the kernel's own tuning of TCP receive buffers",
        kind="sysctl",
        path="/proc/sys/net/ipv4/tcp_rmem",
        field=2,
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.tcp_buffer_max,
        reason="One connection cannot carry more than this per round trip.",
        detail="Minimum and default (the first two numbers) stay as they are. Kernels since 2025 come with 32 MiB: the "
        "2 to 16 MiB of older advice would shrink it. A socket with a fixed SO_RCVBUF does not use it.",
        authorities=(
            Authority("kernel default since 2025 (commit 572be9bf9d0d)", "32 MiB", _KERNEL_IP),
            Authority("TuneD network-throughput", "16 MiB", _TUNED),
        ),
        sources=(_KERNEL_IP,),
        risk="low",
        risk_text="Many slow connections may together reach net.ipv4.tcp_mem.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="net.ipv4.tcp_wmem",
        title="Ceiling of the kernel's own tuning of TCP send buffers",
        kind="sysctl",
        path="/proc/sys/net/ipv4/tcp_wmem",
        field=2,
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.tcp_buffer_max,
        reason="One connection cannot have more than this under way.",
        detail="As net.ipv4.tcp_rmem, for the other direction: followers and consumers that fetch over a long path.",
        authorities=(
            Authority("kernel default", "4 MiB", _KERNEL_IP),
            Authority("TuneD network-throughput", "16 MiB", _TUNED),
        ),
        sources=(_KERNEL_IP,),
        risk="low",
        risk_text="Many slow connections may together reach net.ipv4.tcp_mem.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="net.core.somaxconn",
        title="Longest queue of connections waiting to be accepted",
        kind="sysctl",
        path="/proc/sys/net/core/somaxconn",
        unit="count",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.constant(4096, "4096"),
        reason="When all clients of a restarted broker return at once, those beyond the queue wait for a retry.",
        detail="The shorter of this and the program's own backlog counts: Kafka's socket.listen.backlog.size is 50 by "
        "default and has to be raised too.",
        authorities=(
            Authority("kernel default since 5.4", "4096", _KERNEL_IP),
            Authority("Redpanda rpk", "4096", _REDPANDA),
            Authority("TuneD throughput-performance", "2048", _TUNED),
        ),
        sources=(_KERNEL_IP, _KAFKA_BROKER),
        risk="low",
        risk_text="None known by itself.",
        persistence=_SYSCTL_D,
    ),
    Knob(
        id="thp.enabled",
        title="Transparent huge pages",
        kind="choice",
        path="/sys/kernel/mm/transparent_hugepage/enabled",
        unit="",
        scope="host",
        comparison="equal",
        recommend=formulas.constant("madvise", "madvise: only for programs that ask"),
        reason="Huge pages forced on every process cost compaction stalls; banned outright they cost those that ask.",
        detail="The authorities contradict each other, so that measurement has to decide on a given host; madvise is "
        "the setting that leaves the choice to the program.",
        authorities=(
            Authority("Redpanda rpk", "always", _REDPANDA),
            Authority("TuneD postgresql", "never", _TUNED),
            Authority("TuneD mssql", "always", _TUNED),
            Authority("TiUP", "never", _TIUP),
        ),
        sources=(_KERNEL_THP,),
        risk="medium",
        risk_text="Other programs on the host may gain from always.",
        persistence="/etc/tmpfiles.d",
    ),
    Knob(
        id="mount.noatime",
        title="No access times on the data directory's mount",
        kind="mount",
        path="/proc/self/mountinfo",
        unit="",
        scope="mount",
        comparison="equal",
        recommend=formulas.mount_noatime,
        reason="Keeps consumers' reads from writing to the disk.",
        detail="With relatime, Linux's default, a file's access time is still written once a day and after each "
        "change, which for a log being read at its tail is often. Kafka uses no access times.",
        authorities=(
            Authority("kernel default", "relatime", _KERNEL_EXT4),
            Authority("Apache Kafka", "noatime", _KAFKA_OS),
            Authority("TiUP", "noatime", _TIUP),
        ),
        sources=(_KAFKA_OS, _KERNEL_EXT4),
        risk="low",
        risk_text="Programs that look for files by last use find none.",
        persistence="/etc/fstab",
    ),
    Knob(
        id="disk.scheduler",
        title="I/O scheduler of the data disks",
        kind="choice",
        path="/sys/block/{name}/queue/scheduler",
        unit="",
        scope="disk",
        comparison="equal",
        recommend=formulas.disk_scheduler,
        reason="A spinning disk gains from ordered requests; a fast device only loses time to the ordering.",
        detail="none hands requests straight to an SSD or NVMe device; mq-deadline merges and orders them for a head "
        "that moves, and keeps readers from starving behind write-back.",
        authorities=(
            Authority("Red Hat", "NVMe none, HDD mq-deadline or bfq", _RHEL_SCHEDULER),
            Authority("Redpanda rpk", "none for every disk", _REDPANDA),
        ),
        sources=(_RHEL_SCHEDULER, _KERNEL_SCHEDULER),
        risk="low",
        risk_text="Without a scheduler, cgroup I/O weights have no effect on that disk.",
        persistence="/etc/udev/rules.d",
    ),
)

_BY_ID: Final = {knob.id: knob for knob in KNOBS}


def find_knob(knob_id: str) -> Knob:
    """The knob of that id; raises TuningError with the nearest match."""
    if knob_id not in _BY_ID:
        raise TuningError(f"unknown knob {knob_id!r}{nearest_match(knob_id, _BY_ID)} (known: {', '.join(_BY_ID)})")
    return _BY_ID[knob_id]


def select_knobs(chosen: Iterable[str], skipped: Iterable[str] = ()) -> tuple[Knob, ...]:
    """The chosen knobs in catalogue order; `all` stands for every one. Raises TuningError for an unknown id."""
    wanted: set[str] = set()
    for knob_id in chosen:
        wanted |= set(_BY_ID) if knob_id == "all" else {find_knob(knob_id).id}
    unwanted = {find_knob(knob_id).id for knob_id in skipped}
    return tuple(knob for knob in KNOBS if knob.id in wanted - unwanted)
