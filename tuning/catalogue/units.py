"""Knobs of the broker's service units: limits, weights and reserved memory.

A change takes effect when the unit is restarted.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ..formulas import units as formulas
from ..formulas.common import constant
from ..formulas.limits import nofile, threads
from ..model import Authority, Knob
from . import sources

_knob = partial(Knob, group="limits", mechanism="unit", scope="unit")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="unit.limit_nofile",
        title="Open files that the broker may have",
        path="systemctl show {target} --property=LimitNOFILE",
        unit="count",
        comparison="at_least",
        recommend=formulas.of_unit(nofile),
        observe=formulas.of_limit("LimitNOFILE", "nofile", formulas.by_default(1024)),
        reason="Segments, indexes and sockets are files; at the limit a broker cannot accept connections or roll logs.",
        detail="The soft limit applies unless the process raises it itself. A systemd unit takes its limits from "
        "LimitNOFILE= and not from /etc/security/limits.d. For logins there is login.nofile.",
        authorities=(
            Authority("Apache Kafka", "100000 at least", sources.KAFKA_OS),
            Authority("DataStax", "100000", sources.DATASTAX),
            Authority("TiUP", "1000000", sources.TIUP),
            Authority("systemd default", "1024 soft, 524288 hard", sources.SYSTEMD_EXEC),
        ),
        sources=(sources.KAFKA_OS, sources.SYSTEMD_EXEC),
        risk="low",
        risk_text="Programs that close every possible descriptor at start take longer to start.",
    ),
    _knob(
        id="unit.tasks_max",
        title="Processes and threads that the broker's unit may have",
        path="systemctl show {target} --property=TasksMax",
        unit="count",
        comparison="at_least",
        recommend=formulas.of_unit(threads),
        observe=formulas.of_property("TasksMax", formulas.as_tasks, formulas.default_tasks),
        reason="At the limit a broker cannot start threads and fails while it is running.",
        detail="systemd's default is 15 % of the kernel's maximum of tasks, which depends on memory too: 3474 of 23160 "
        "with 3 GB. On a large host, a broker has several hundred threads for network, disks, replication and the Java "
        "runtime.",
        authorities=(
            Authority(
                "systemd default",
                "15 % of the smaller of kernel.pid_max and kernel.threads-max",
                sources.SYSTEMD_RESOURCES,
            ),
            Authority("Elasticsearch", "4096", sources.ELASTIC_THREADS),
        ),
        risk="low",
        risk_text="A broker that leaks threads reaches the limit later.",
    ),
    _knob(
        id="unit.limit_nproc",
        title="Processes and threads that the broker's user may have",
        path="systemctl show {target} --property=LimitNPROC",
        unit="count",
        comparison="at_least",
        recommend=formulas.of_unit(threads),
        observe=formulas.of_limit("LimitNPROC", "nproc", formulas.default_processes),
        reason="Several brokers of one user share it: the last broker to start may get no threads.",
        detail="It counts all threads of the user in all units, and limits only users other than root. The kernel's "
        "default grows with memory, so it is too low only if somebody lowered it.",
        authorities=(
            Authority("kernel default", "half of kernel.threads-max", sources.KERNEL_KERNEL),
            Authority("Elasticsearch", "4096", sources.ELASTIC_THREADS),
            Authority("DataStax", "32768", sources.DATASTAX),
        ),
        sources=(sources.SYSTEMD_EXEC, sources.ELASTIC_THREADS),
        risk="low",
        risk_text="The user may fill more of the host's process table.",
    ),
    _knob(
        id="unit.limit_memlock",
        title="Memory that the broker may lock",
        path="systemctl show {target} --property=LimitMEMLOCK",
        unit="bytes",
        comparison="at_least",
        recommend=formulas.of_unit(formulas.memlock),
        observe=formulas.of_limit("LimitMEMLOCK", "memlock", formulas.by_default(8 * 2**20), show=formulas.show_bytes),
        reason="A broker that locks memory or registers buffers with io_uring cannot start without it.",
        detail="Highwater's broker and Apache Kafka do neither: the page cache is their buffer, and the kernel must be "
        "able to shrink it. Databases with their own cache lock it.",
        authorities=(
            Authority("systemd default", "8 MiB", sources.SYSTEMD_EXEC),
            Authority("Elasticsearch", "infinity, with memory_lock", sources.ELASTIC_SWAP),
            Authority("DataStax", "unlimited", sources.DATASTAX),
        ),
        sources=(sources.SYSTEMD_EXEC, sources.IO_URING_REGISTER),
        risk="low",
        risk_text="Locked memory is not available for page cache.",
    ),
    _knob(
        id="unit.oom_score_adjust",
        title="How unlikely the broker is killed when memory runs out",
        path="systemctl show {target} --property=OOMScoreAdjust",
        unit="count",
        comparison="at_most",
        recommend=formulas.of_unit(constant(-900, "-900: after nearly everything else, but before the kernel panics")),
        observe=formulas.of_property("OOMScoreAdjust", formulas.as_number, formulas.by_default(0)),
        reason="The broker is the largest process of its host, so the OOM killer kills it first.",
        detail="-1000 would exempt it completely, and a broker with a memory leak would bring down the whole host.",
        authorities=(Authority("systemd default", "0", sources.SYSTEMD_EXEC),),
        risk="low",
        risk_text="Another process is killed first, possibly the one that logins need.",
    ),
    _knob(
        id="unit.memory_high",
        title="Memory above which the kernel throttles the broker's unit and reclaims its page cache",
        path="systemctl show {target} --property=MemoryHigh",
        unit="bytes",
        comparison="at_least",
        recommend=formulas.of_unit(formulas.memory_for_broker),
        observe=formulas.of_property(
            "MemoryHigh", formulas.as_memory, formulas.by_default("infinity"), formulas.show_bytes
        ),
        reason="Page cache is charged to the unit that wrote it: a limit for the process leaves none for the log.",
        detail="On a host for the broker alone, no limit is best, and it is systemd's default. A limit must have room "
        "for the process and for the part of the log that consumers read from memory.",
        authorities=(Authority("systemd default", "infinity", sources.SYSTEMD_RESOURCES),),
        sources=(sources.KERNEL_CGROUP, sources.SYSTEMD_RESOURCES),
        risk="medium",
        risk_text="Other programs get less memory.",
    ),
    _knob(
        id="unit.memory_max",
        title="Memory at which the broker's unit is killed",
        path="systemctl show {target} --property=MemoryMax",
        unit="bytes",
        comparison="at_least",
        recommend=formulas.of_unit(formulas.memory_for_broker),
        observe=formulas.of_property(
            "MemoryMax", formulas.as_memory, formulas.by_default("infinity"), formulas.show_bytes
        ),
        reason="At the limit, each request has to free an old page of cache for every new one.",
        detail="As unit.memory_high, but with the OOM killer as the last step. The kernel drops clean page cache "
        "first, so a unit at its limit works slowly, with hardly any cache.",
        authorities=(Authority("systemd default", "infinity", sources.SYSTEMD_RESOURCES),),
        sources=(sources.KERNEL_CGROUP, sources.SYSTEMD_RESOURCES),
        risk="medium",
        risk_text="Other programs get less memory.",
    ),
    _knob(
        id="unit.memory_low",
        title="Memory of the broker's unit that is protected from reclaim for others",
        mechanism="advice",
        path="systemctl show {target} --property=MemoryLow",
        unit="bytes",
        comparison="at_least",
        recommend=formulas.of_unit(formulas.memory_for_broker),
        observe=formulas.of_property("MemoryLow", formulas.as_memory, formulas.by_default(0), formulas.show_bytes),
        reason="A backup that reads the whole disk evicts the end of the log from memory.",
        detail="It protects process and page cache, but only if every slice above the unit has at least the same value "
        "(MemoryLow= of system.slice). That affects all services of the host, so decide it manually.",
        authorities=(Authority("systemd default", "0", sources.SYSTEMD_RESOURCES),),
        sources=(sources.KERNEL_CGROUP, sources.SYSTEMD_RESOURCES),
        risk="medium",
        risk_text="Other services have less memory and may be killed for lack of it.",
    ),
    _knob(
        id="unit.memory_swap_max",
        title="Swap that the broker's unit may use",
        group="memory",
        path="systemctl show {target} --property=MemorySwapMax",
        unit="bytes",
        comparison="at_most",
        recommend=formulas.of_unit(formulas.memory_swap_max),
        observe=formulas.of_property(
            "MemorySwapMax", formulas.as_memory, formulas.by_default("infinity"), formulas.show_bytes
        ),
        reason="If other programs need swap, it excludes only the broker from it.",
        detail="Use it on a host whose swap has to stay on: the kernel swaps out nothing of the unit, and the rest of "
        "the host works as before.",
        authorities=(Authority("systemd default", "infinity", sources.SYSTEMD_RESOURCES),),
        sources=(sources.SYSTEMD_RESOURCES, sources.KERNEL_CGROUP),
        risk="medium",
        risk_text="With too little memory, the OOM killer ends this unit.",
    ),
    _knob(
        id="unit.io_weight",
        title="The broker's share of a busy disk",
        path="systemctl show {target} --property=IOWeight",
        unit="count",
        comparison="at_least",
        recommend=formulas.of_unit(formulas.io_weight),
        observe=formulas.of_property("IOWeight", formulas.as_number, formulas.by_default(100)),
        reason="By default, a backup on the same disk gets as much of its time as the log.",
        detail="Weights have an effect only with the scheduler bfq, or with io.cost configured for the disk. With none "
        "and mq-deadline, which disk.scheduler recommends, they have no effect.",
        authorities=(Authority("systemd default", "100", sources.SYSTEMD_RESOURCES),),
        sources=(sources.KERNEL_CGROUP, sources.SYSTEMD_RESOURCES),
        risk="low",
        risk_text="Other programs on the same disk wait longer while the broker writes.",
    ),
    _knob(
        id="unit.cpu_weight",
        title="The broker's share of busy processors",
        path="systemctl show {target} --property=CPUWeight",
        unit="count",
        comparison="at_least",
        recommend=formulas.of_unit(constant(500, "500: five times the default of other units")),
        observe=formulas.of_property("CPUWeight", formulas.as_number, formulas.by_default(100)),
        reason="By default, a batch job on the same host gets as much processor time as the broker.",
        detail="It has an effect only while the processors are busy, and only among units of the same slice.",
        authorities=(Authority("systemd default", "100", sources.SYSTEMD_RESOURCES),),
        sources=(sources.KERNEL_CGROUP, sources.SYSTEMD_RESOURCES),
        risk="low",
        risk_text="Other services respond more slowly on a host without idle processors.",
    ),
    _knob(
        id="unit.cpu_affinity",
        title="The processors that the broker runs on",
        group="processor",
        path="systemctl show {target} --property=CPUAffinity",
        unit="",
        recommend=formulas.of_unit(formulas.cpu_affinity),
        observe=formulas.of_property("CPUAffinity", formulas.as_word, formulas.by_default("all")),
        reason="A request that arrives on one memory node and is served on another crosses the link between them.",
        detail="The node of the fastest network card is the best guess; disks belong to a node too. The gain must "
        "exceed the loss of all other processors, which only a measurement can show.",
        authorities=(
            Authority("systemd default", "all", sources.SYSTEMD_EXEC),
            Authority("kernel documentation", "interrupts and program on one node", sources.KERNEL_SCALING),
        ),
        sources=(sources.KERNEL_SCALING, sources.SYSTEMD_EXEC),
        risk="medium",
        risk_text="The broker has the processors of one node only.",
        only_if_named="it gives up the processors of every other memory node: measure it first",
    ),
    _knob(
        id="unit.numa_policy",
        title="The memory nodes that the broker's memory and page cache come from",
        group="processor",
        path="systemctl show {target} --property=NUMAPolicy",
        unit="",
        recommend=formulas.of_unit(formulas.numa_policy),
        observe=formulas.of_property("NUMAPolicy", formulas.as_word, formulas.by_default("default")),
        reason="A broker that is bound to one node has only that node's memory as page cache.",
        detail="The kernel allocates page cache by the policy of the process that reads or writes, so bind halves the "
        "cache of a host with two nodes while the other half is unused.",
        authorities=(
            Authority("systemd default", "default", sources.SYSTEMD_EXEC),
            Authority("MongoDB", "interleave", sources.MONGODB_NOTES),
        ),
        sources=(sources.KERNEL_MEMORY_POLICY, sources.SYSTEMD_EXEC),
        risk="medium",
        risk_text="Some memory is on the far node.",
    ),
)
