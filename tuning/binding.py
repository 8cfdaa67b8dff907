"""Why a knob has no effect on this host now: another setting is the limit and has to change first.

`RULES` lists the rules of each knob. A rule returns one sentence, or an empty text when it does not apply. Rules never
change the recommendation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..common.units import size_text
from .facts.model import Facts
from .facts.reading import parse_whole
from .formulas.common import data_disks
from .model import Value
from .workload import Broker, Workload

# broker/settings/config_table.py, and SocketServerConfigs.java of Apache Kafka. -1 leaves buffers to the kernel.
BROKER_DEFAULTS: Final[dict[Broker, dict[str, int]]] = {
    "highwater": {
        "socket.receive.buffer.bytes": -1,
        "socket.send.buffer.bytes": -1,
        "socket.listen.backlog.size": 50,
    },
    "apache-kafka": {
        "socket.receive.buffer.bytes": 102_400,
        "socket.send.buffer.bytes": 102_400,
        "socket.listen.backlog.size": 50,
    },
}
# With less than this share of a table in use, its size limits nobody.
_FAR_BELOW: Final = 0.1


@dataclass(frozen=True)
class Situation:
    """The input of a rule: the host, the workload, and the knob's current and recommended value if known."""

    facts: Facts
    workload: Workload
    target: str
    current: Value | None
    recommended: Value | None
    changing: frozenset[str] = frozenset()
    """Ids of the other knobs that are set together with this one."""

    def number(self, path: str, field: int = 0) -> int | None:
        """A number in a file of this host; None when the file does not have it."""
        words = (self.facts.files.read(path).text or "").split()
        return parse_whole(words[field]) if field < len(words) else None

    def broker_setting(self, name: str) -> tuple[int, str]:
        """The value of a numeric property of the broker, and its origin."""
        given = self.workload.broker_config.get(name, "").strip()
        try:
            return int(given), "as configured"
        except ValueError:
            return BROKER_DEFAULTS[self.workload.broker][name], f"the default of {_BROKERS[self.workload.broker]}"


Rule = Callable[[Situation], str]

_BROKERS: Final[dict[Broker, str]] = {"highwater": "Highwater", "apache-kafka": "Apache Kafka"}


def binding_text(
    knob_id: str,
    facts: Facts,
    workload: Workload,
    target: str = "",
    current: Value | None = None,
    recommended: Value | None = None,
    changing: frozenset[str] = frozenset(),
) -> str:
    """Why the knob has no effect here, as sentences; empty when no rule applies.

    A knob that waits for another knob has an effect if that one is set together with it (`changing`).
    """
    situation = Situation(facts, workload, target, current, recommended, changing)
    return "; ".join(text for rule in RULES.get(knob_id, ()) if (text := rule(situation)))


def _fixed_buffer(broker_property: str) -> Rule:
    """ip-sysctl: the kernel no longer sizes a socket whose program sets SO_RCVBUF or SO_SNDBUF."""

    def rule(situation: Situation) -> str:
        size, origin = situation.broker_setting(broker_property)
        if size < 0:
            return ""
        return (
            f"no effect on the broker's sockets until its {broker_property} is -1: it is {size} ({origin}), "
            "and a fixed size turns the kernel's own sizing off"
        )

    return rule


def _buffer_within_limit(broker_property: str, sized_by: str) -> Rule:
    def rule(situation: Situation) -> str:
        size, origin = situation.broker_setting(broker_property)
        if size < 0:
            return (
                f"no effect on the broker's sockets: its {broker_property} is -1 ({origin}), "
                f"which leaves their size to the kernel, up to {sized_by}"
            )
        if isinstance(situation.current, int) and size <= situation.current:
            return (
                f"no effect on the broker's sockets until its {broker_property} is raised: it asks for {size} bytes "
                f"({origin}), and up to {situation.current} are granted already"
            )
        return ""

    return rule


def _short_backlog(situation: Situation) -> str:
    name = "socket.listen.backlog.size"
    backlog, origin = situation.broker_setting(name)
    if not isinstance(situation.current, int) or backlog >= situation.current:
        return ""
    return (
        f"no effect until the broker's {name} is raised: it listens with {backlog} ({origin}), "
        f"and the smaller of the two counts"
    )


def _never_overflowed(situation: Situation) -> str:
    overflows = situation.facts.tcp_ext.get("ListenOverflows")
    return "no queue of new connections has overflowed since boot (ListenOverflows is 0)" if overflows == 0 else ""


def _backlog_never_full(situation: Situation) -> str:
    softnet = situation.facts.softnet
    if softnet is None or softnet.dropped:
        return ""
    return "no effect so far: the backlog has not been full since boot (softnet_stat: 0 dropped)"


def _budget_never_spent(situation: Situation) -> str:
    softnet = situation.facts.softnet
    if softnet is None or softnet.time_squeeze:
        return ""
    return "no effect so far: no round of receiving ended with work left since boot (softnet_stat: 0 squeezed)"


def _no_swap(situation: Situation) -> str:
    return "no effect now: no swap is active" if situation.facts.swaps == () else ""


def _few_open_files(situation: Situation) -> str:
    used = situation.number("/proc/sys/fs/file-nr")
    if used is None or not isinstance(situation.current, int) or used > _FAR_BELOW * situation.current:
        return ""
    return f"no effect now: {used} files are open on the whole host, and {situation.current} may be"


def _limit_above_nr_open(situation: Situation) -> str:
    ceiling, wanted = situation.number("/proc/sys/fs/nr_open"), situation.recommended
    if "fs.nr_open" in situation.changing:
        return ""
    if ceiling is None or not isinstance(wanted, int) or wanted <= ceiling:
        return ""
    return f"refused until fs.nr_open, which is {ceiling}, is raised first"


def _limits_below_nr_open(situation: Situation) -> str:
    if "unit.limit_nofile" in situation.changing:
        return ""
    limits = [
        limit[0]
        for unit in situation.workload.units
        for instance in situation.facts.unit(unit).instances
        if (limit := instance.limits.get("nofile")) is not None
    ]
    bounded = [limit for limit in limits if limit is not None]
    if not bounded or len(bounded) < len(limits) or not isinstance(situation.current, int):
        return ""
    if max(bounded) >= situation.current:
        return ""
    return (
        f"no effect until the file limit of the broker's unit is raised: it runs with {max(bounded)}, "
        f"below the {situation.current} that fs.nr_open allows"
    )


def _nobody_uses_kernel_aio(situation: Situation) -> str:
    if situation.number("/proc/sys/fs/aio-nr") != 0:
        return ""
    return "no effect: nothing on this host uses kernel AIO now (fs.aio-nr is 0), and a log goes through the page cache"


def _one_processor(situation: Situation) -> str:
    return "no effect: there is one CPU only" if situation.facts.cpu_count == 1 else ""


def _one_node(situation: Situation) -> str:
    return "no effect: all memory is one NUMA node" if len(situation.facts.numa_nodes) == 1 else ""


def _only_scheduler(situation: Situation) -> str:
    disk = situation.facts.block_device(situation.target)
    if disk is None or len(disk.schedulers) != 1:
        return ""
    return f"nothing to choose: this kernel offers {disk.schedulers[0]} alone for it"


def _no_weighing_scheduler(situation: Situation) -> str:
    idle = [disk.name for disk in data_disks(situation.facts, situation.workload) if disk.scheduler != "bfq"]
    return f"no effect now on {', '.join(idle)}: weights need the scheduler bfq or io.cost" if idle else ""


def _scaled_to_the_control_group(situation: Situation) -> str:
    """mm/page-writeback.c, domain_dirty_limits(): bytes become a share of all memory, then of the group's memory."""
    facts = situation.facts
    limit, available = facts.memory.cgroup_limit_bytes, facts.memory.available_bytes
    if facts.cgroup_version != "v2" or limit is None or not available or not isinstance(situation.current, int):
        return ""
    share = min(1.0, situation.current / available) * limit
    return (
        f"inside this control group (memory limit {size_text(limit)}) writers wait earlier: the kernel scales "
        f"the limit to the group's share, about {size_text(share)}"
    )


def _maps_no_indexes(situation: Situation) -> str:
    if situation.workload.broker != "highwater":
        return ""
    return "no effect on Highwater's broker, which maps no files; Apache Kafka maps two for each segment"


def _no_flow_table(situation: Situation) -> str:
    if situation.number("/proc/sys/net/core/rps_sock_flow_entries") != 0:
        return ""
    if "net.core.rps_sock_flow_entries" in situation.changing:
        return ""
    return "no effect until net.core.rps_sock_flow_entries is more than 0: flows are kept in both tables"


def _no_queue_steers_flows(situation: Situation) -> str:
    counts = [count for interface in situation.facts.physical_interfaces() for count in interface.rps_flow_cnt.values()]
    if not counts or any(counts) or "nic.rps_flow_cnt" in situation.changing:
        return ""
    return "no effect until nic.rps_flow_cnt of a receive queue is more than 0"


def _huge_pages_are_off(situation: Situation) -> str:
    if "thp.enabled" in situation.changing:
        return ""
    text = situation.facts.files.read("/sys/kernel/mm/transparent_hugepage/enabled").text or ""
    return "no effect while thp.enabled is never" if "[never]" in text else ""


RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "vm.swappiness": (_no_swap,),
    "vm.dirty_bytes": (_scaled_to_the_control_group,),
    "vm.dirty_background_bytes": (_scaled_to_the_control_group,),
    "vm.max_map_count": (_maps_no_indexes,),
    "vm.zone_reclaim_mode": (_one_node,),
    "kernel.numa_balancing": (_one_node,),
    "thp.defrag": (_huge_pages_are_off,),
    "fs.file-max": (_few_open_files,),
    "fs.nr_open": (_limits_below_nr_open,),
    "fs.aio-max-nr": (_nobody_uses_kernel_aio,),
    "unit.limit_nofile": (_limit_above_nr_open,),
    "unit.io_weight": (_no_weighing_scheduler,),
    "disk.scheduler": (_only_scheduler,),
    "net.core.somaxconn": (_short_backlog, _never_overflowed),
    "net.ipv4.tcp_max_syn_backlog": (_short_backlog, _never_overflowed),
    "net.core.netdev_max_backlog": (_backlog_never_full,),
    "net.core.netdev_budget": (_budget_never_spent,),
    "net.core.netdev_budget_usecs": (_budget_never_spent,),
    "net.core.rmem_max": (_buffer_within_limit("socket.receive.buffer.bytes", "net.ipv4.tcp_rmem"),),
    "net.core.wmem_max": (_buffer_within_limit("socket.send.buffer.bytes", "net.ipv4.tcp_wmem"),),
    "net.ipv4.tcp_rmem": (_fixed_buffer("socket.receive.buffer.bytes"),),
    "net.ipv4.tcp_wmem": (_fixed_buffer("socket.send.buffer.bytes"),),
    "net.core.rps_sock_flow_entries": (_one_processor, _no_queue_steers_flows),
    "nic.rps_cpus": (_one_processor,),
    "nic.rps_flow_cnt": (_one_processor, _no_flow_table),
    "nic.xps_cpus": (_one_processor,),
    "irq.affinity": (_one_processor,),
}
