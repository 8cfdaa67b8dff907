"""Finds other programs that set the same settings: tuning daemons, cloud agents, files in sysctl.d."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .model import Competitor
from .reading import Reader
from .units import is_masked, runs

_OUR_NAME: Final = "90-highwater.conf"
_SYSCTL_DIRECTORIES: Final = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")
# The keys that the catalogue covers; hardening and forwarding are not among them.
_TUNED_KEYS: Final = re.compile(
    r"vm\.|fs\.(?:file-max|nr_open|aio-max-nr)$|net\.core\.|net\.ipv4\.(?:tcp_|ip_local_)|net\.netfilter\.nf_conntrack_max"
    r"|kernel\.(?:numa_balancing|sched_|core_pattern|panic_on_oops|randomize_va_space|nmi_watchdog|timer_migration|perf_event)"
)


@dataclass(frozen=True)
class _Service:
    name: str
    units: tuple[str, ...]
    what: str


_SERVICES: Final = (
    _Service(
        "irqbalance", ("irqbalance.service",), "moves interrupts between processors and undoes an affinity set by hand"
    ),
    _Service("numad", ("numad.service",), "moves processes and their memory between NUMA nodes"),
    _Service(
        "ksmtuned", ("ksmtuned.service", "ksm.service"), "turns kernel samepage merging on when memory gets scarce"
    ),
    _Service("bpftune", ("bpftune.service",), "changes network sysctls while the host runs"),
    _Service("saptune", ("saptune.service", "sapconf.service"), "applies its notes' sysctls, limits and schedulers"),
    _Service("redpanda tuner", ("redpanda-tuner.service",), "sets schedulers, interrupts and sysctls at every boot"),
    _Service(
        "power management",
        ("power-profiles-daemon.service", "tlp.service", "cpupower.service", "cpufrequtils.service"),
        "sets the governors of the processors",
    ),
    _Service("zram swap", ("zramswap.service", "zram-config.service"), "turns compressed swap on at boot"),
    _Service("swapspace", ("swapspace.service",), "makes swap files when memory gets scarce"),
    _Service(
        "systemd-oomd", ("systemd-oomd.service",), "ends control groups under memory pressure, whatever their score"
    ),
    _Service("earlyoom", ("earlyoom.service",), "ends processes before the kernel would, by its own preferences"),
    _Service(
        "Google guest agent",
        ("google-guest-agent.service", "google-startup-scripts.service"),
        "spreads interrupts and transmit queues of the network interfaces at boot",
    ),
    _Service(
        "Azure agent",
        ("walinuxagent.service", "waagent.service"),
        "may make swap on the resource disk (ResourceDisk.EnableSwap of /etc/waagent.conf)",
    ),
    _Service(
        "Amazon EC2 network tools",
        ("ec2net-scan.service", "ec2net-ifup@.service", "policy-routes@.service", "amazon-ec2-net-utils.service"),
        "configures network interfaces when they appear",
    ),
    _Service("cloud-init", ("cloud-init.service",), "may write mounts and swap into /etc/fstab at every boot"),
)


def read_competitors(reader: Reader) -> tuple[Competitor, ...]:
    return (*_tuned(reader), *_services(reader), *_sysctl_files(reader))


def _tuned(reader: Reader) -> Iterator[Competitor]:
    """TuneD. The file with its profile's name remains when the service is off, so the service is checked too."""
    state = _state(reader, "tuned.service")
    profile = reader.optional("/etc/tuned/active_profile")
    if not state or not profile:
        return
    main = reader.optional("/etc/tuned/tuned-main.conf") or ""
    after = "sysctl.d has the last word over it"
    if re.search(r"^\s*reapply_sysctl\s*=\s*(?:0|false|no)\s*$", main, re.MULTILINE | re.IGNORECASE):
        after = "and has the last word over sysctl.d (reapply_sysctl=0)"
    yield Competitor(
        "tuned",
        f"{state} with profile {profile}: sets sysctls, schedulers and governors; {after}",
        "/etc/tuned/active_profile",
    )


def _services(reader: Reader) -> Iterator[Competitor]:
    for service in _SERVICES:
        for unit in service.units:
            state = _state(reader, unit)
            if state:
                yield Competitor(service.name, f"{state}: {service.what}", unit)
                break


def _state(reader: Reader, unit: str) -> str:
    """`runs` or `is enabled`; empty for a service that does neither."""
    if runs(reader.files, unit):
        return "runs"
    wanted_by = ("multi-user.target", "sysinit.target", "basic.target", "graphical.target", "cloud-init.target")
    for target in wanted_by:
        link = f"/etc/systemd/system/{target}.wants/{unit}"
        if reader.files.link(link) is not None and not is_masked(reader.files, f"/etc/systemd/system/{unit}"):
            return "is enabled"
    return ""


def _sysctl_files(reader: Reader) -> Iterator[Competitor]:
    seen = {_OUR_NAME}
    paths = []
    for directory in _SYSCTL_DIRECTORIES:
        for name in reader.files.names(directory):
            if name.endswith(".conf") and name not in seen:
                seen.add(name)
                paths.append(f"{directory}/{name}")
    for path in [*sorted(paths, key=lambda path: path.rpartition("/")[2]), "/etc/sysctl.conf"]:
        keys = _tuned_keys(reader.optional(path) or "")
        if keys:
            yield Competitor("sysctl", f"sets {', '.join(keys)}", path)


def _tuned_keys(text: str) -> list[str]:
    keys: dict[str, None] = {}
    for line in text.splitlines():
        key, equals, _ = line.partition("=")
        key = key.strip().removeprefix("-").replace("/", ".")
        if equals and _TUNED_KEYS.match(key):
            keys[key] = None
    return list(keys)
