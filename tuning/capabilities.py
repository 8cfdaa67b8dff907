"""Decides, without writing, whether root of this system can change a setting, and whom to ask if not.

A user who is not root is a matter of the call, not of the host. There is never a trial write: a privileged container,
or root without own namespaces, would change the real host by it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from .facts.model import Facts
from .model import Knob

_CAP_SYS_ADMIN: Final = 21
_WRITE_BITS: Final = 0o222
_LIMIT_OF_PROPERTY: Final = {"LimitNOFILE": "nofile", "LimitNPROC": "nproc", "LimitMEMLOCK": "memlock"}
# Network settings that every network namespace has separately on a current kernel. Older kernels share more settings;
# the mode and the existence of the file show that. tcp_mem belongs to the host, contrary to its name.
_NAMESPACED_PREFIXES: Final = ("net.core.somaxconn", "net.core.optmem_max", "net.ipv4.", "net.ipv6.")
_NOT_NAMESPACED: Final = frozenset({"net.ipv4.tcp_mem", "net.ipv4.udp_mem"})
# pkg/kubelet/sysctl/safe_sysctls.go of Kubernetes: settings that a pod may set without the kubelet's permission.
_SAFE_IN_KUBERNETES: Final = {
    "net.ipv4.ip_local_port_range": "",
    "net.ipv4.tcp_syncookies": "",
    "net.ipv4.ip_local_reserved_ports": " since Kubernetes 1.27",
    "net.ipv4.tcp_keepalive_time": " since Kubernetes 1.29",
    "net.ipv4.tcp_rmem": " since Kubernetes 1.32",
    "net.ipv4.tcp_wmem": " since Kubernetes 1.32",
}


_PRIVILEGED_PROPERTIES: Final = frozenset({*_LIMIT_OF_PROPERTY, "OOMScoreAdjust"})


@dataclass(frozen=True)
class Capability:
    can: bool
    why: str
    """One line: the obstacle, or a remark on the change; empty when there is neither."""
    ask: str = ""
    """The request to the operator of the underlying host; empty when nobody can help."""


def capability(facts: Facts, knob: Knob, target: str = "", value: str = "VALUE") -> Capability:
    """Whether root of this system can set `knob` to `value`, from file modes, mount flags and namespaces."""
    match knob.mechanism:
        case "advice":
            return Capability(False, "it is checked and explained, never changed by this program")
        case "sysctl" | "sysfs":
            return _of_kernel_file(facts, knob, target, value)
        case "unit":
            return _of_unit(facts, knob, target, value)
        case "login":
            return _of_login(facts, knob, value)
        case "mount" | "swap":
            return _of_mounts(facts, knob, target, value)


def _of_kernel_file(facts: Facts, knob: Knob, target: str, value: str) -> Capability:
    path = knob.path.format(target=target)
    ask = _ask_for_setting(facts, knob, path, _whole_text(facts, knob, path, value))
    attributes = facts.files.attributes(path)
    if attributes is None and not facts.files.exists(path):
        return _absent(facts, knob, path, ask)
    mounted = facts.read_only_mount(path)
    if mounted is not None or (facts.files.is_running_system and facts.files.is_on_read_only(path)):
        return Capability(False, f"{mounted or path} is mounted read-only in {_here(facts)}", ask)
    if attributes is not None and not attributes.mode & _WRITE_BITS:
        if facts.namespaces.network is False and knob.id.startswith("net."):
            return Capability(False, f"{path} is read-only in a network namespace of its own", ask)
        return Capability(False, f"the kernel makes {path} read-only")
    own_network = knob.mechanism == "sysctl" and _is_namespaced(knob.id) and facts.namespaces.network is False
    if facts.namespaces.user is False and facts.namespaces.root_is_mapped is not False and not own_network:
        return Capability(False, f"root of {_here(facts)} is root of its user namespace only, not of the host", ask)
    if _is_refused_now(facts, path):
        return Capability(False, f"the kernel lets root of {_here(facts)} read {path}, not write it", ask)
    if facts.container and not own_network:
        return Capability(True, "this container is privileged: it is the host's own value, of all that run there")
    return Capability(True, "")


def _whole_text(facts: Facts, knob: Knob, path: str, value: str) -> str:
    """All numbers of the file, with `value` in place of the knob's number."""
    numbers = (facts.files.read(path).text or "").split()
    if knob.field is None or knob.field >= len(numbers):
        return value
    return " ".join([*numbers[: knob.field], value, *numbers[knob.field + 1 :]])


def _absent(facts: Facts, knob: Knob, path: str, ask: str) -> Capability:
    if facts.namespaces.network is False and knob.id.startswith("net."):
        return Capability(False, f"{path} does not exist in a network namespace of its own", ask)
    kernel = f" on kernel {facts.kernel_release}" if facts.kernel_release else ""
    return Capability(False, f"{path} does not exist{kernel}")


def _is_refused_now(facts: Facts, path: str) -> bool:
    """Whether the running kernel refuses root a write."""
    return facts.files.is_running_system and os.geteuid() == 0 and not facts.files.may_write(path)


def why_not_given(facts: Facts, unit_property: str) -> str:
    """Why a process cannot get the limits of its unit's files; empty when it can."""
    if facts.can_raise_limits is not False or unit_property not in _PRIVILEGED_PROPERTIES:
        return ""
    return f"{_here(facts)} has no CAP_SYS_RESOURCE to give it"


def _of_unit(facts: Facts, knob: Knob, target: str, value: str) -> Capability:
    directory = "/etc/systemd"
    if not facts.files.exists(directory):
        return Capability(False, f"there is no systemd here ({directory} does not exist)", _ask_for_limit(facts, value))
    read_only = facts.read_only_mount(directory)
    if read_only is not None:
        return Capability(False, f"{read_only} is mounted read-only in {_here(facts)}", _ask_for_file(facts, directory))
    if knob.unit_property == "OOMScoreAdjust" and value.startswith("-") and facts.can_raise_limits is False:
        return Capability(False, f"{_here(facts)} has no CAP_SYS_RESOURCE, which it takes to spare a process")
    limit = _LIMIT_OF_PROPERTY.get(knob.unit_property)
    beyond = _beyond_hard_limit(facts, limit, value) if limit else None
    if beyond is not None:
        return beyond
    if not facts.systemd.running:
        return Capability(True, f"systemd does not run here: it counts once systemd starts {target or 'the unit'}")
    return Capability(True, "")


def _of_login(facts: Facts, knob: Knob, value: str) -> Capability:
    directory = "/etc/security"
    if not facts.files.exists(directory):
        return Capability(False, f"logins here know no pam_limits ({directory} does not exist)")
    read_only = facts.read_only_mount(directory)
    if read_only is not None:
        return Capability(False, f"{read_only} is mounted read-only in {_here(facts)}", _ask_for_file(facts, directory))
    beyond = _beyond_hard_limit(facts, knob.id.partition(".")[2], value)
    return beyond if beyond is not None else Capability(True, "")


def _beyond_hard_limit(facts: Facts, limit: str, value: str) -> Capability | None:
    """The obstacle when a value exceeds the hard limit, which only CAP_SYS_RESOURCE can raise; else None."""
    hard = facts.limits[limit].hard if limit in facts.limits else None
    wanted = int(value) if value.isdecimal() else None
    if facts.can_raise_limits is not False or hard is None or (wanted is not None and wanted <= hard):
        return None
    why = f"the hard limit is {hard}, and {_here(facts)} has no CAP_SYS_RESOURCE to raise it"
    return Capability(False, why, _ask_for_limit(facts, value, limit))


def _of_mounts(facts: Facts, knob: Knob, target: str, value: str) -> Capability:
    what = f"{target} mounted with {value}" if knob.mechanism == "mount" else "swap turned off"
    ask = f"{what} by the host below" if facts.container else ""
    if facts.namespaces.user is False:
        return Capability(False, f"root of {_here(facts)} is root of its user namespace only, not of the host", ask)
    if facts.bounding_capabilities is not None and not facts.bounding_capabilities >> _CAP_SYS_ADMIN & 1:
        return Capability(False, f"{_here(facts)} has no CAP_SYS_ADMIN", ask)
    if knob.mechanism == "swap" and facts.container == "systemd-nspawn":
        return Capability(False, f"the swap is the host's below, and {_here(facts)} may not call swapoff", ask)
    if facts.container:
        return Capability(True, "this container is privileged: it is the host's own, of all that run there")
    return Capability(True, "")


def _here(facts: Facts) -> str:
    return f"this container ({facts.container})" if facts.container else "this system"


def _is_namespaced(key: str) -> bool:
    return key.startswith(_NAMESPACED_PREFIXES) and key not in _NOT_NAMESPACED


def _ask_for_setting(facts: Facts, knob: Knob, path: str, value: str) -> str:
    """The request in terms of the container engine; empty outside of containers."""
    if facts.container is None:
        return ""
    if knob.mechanism == "sysfs":
        return f"{path} = {value} on the host below (as a udev rule or tmpfiles.d line there)"
    if not _is_namespaced(knob.id):
        node = "node (its tuning operator, or /etc/sysctl.d of its image)"
        where = node if facts.container == "kubernetes" else "host below (in its /etc/sysctl.d)"
        return f"{knob.id} = {value} on the {where}"
    match facts.container:
        case "kubernetes":
            pod = f"{{name: {knob.id}, value: '{value}'}} in the pod's securityContext.sysctls"
            if knob.id in _SAFE_IN_KUBERNETES:
                return f"{pod} (a safe sysctl{_SAFE_IN_KUBERNETES[knob.id]})"
            return f"--allowed-unsafe-sysctls={knob.id} on the kubelet and {pod}"
        case "docker" | "podman":
            return f"--sysctl '{knob.id}={value}' when {facts.container} makes the container"
        case "lxd":
            return f"linux.sysctl.{knob.id} = {value} in the container's configuration"
        case "lxc":
            return f"lxc.sysctl.{knob.id} = {value} in the container's configuration"
        case "systemd-nspawn":
            return f"SYSTEMD_NSPAWN_API_VFS_WRITABLE=network with --private-network, then set {knob.id} = {value}"
        case _:
            return f"{knob.id} = {value} when the container is made"


def _ask_for_limit(facts: Facts, value: str, limit: str = "nofile") -> str:
    match facts.container:
        case "docker" | "podman":
            return f"--ulimit {limit}={value}:{value} when {facts.container} makes the container"
        case "kubernetes":
            return f"a higher {limit} limit ({value}) of the nodes' container runtime: a pod cannot set it"
        case "lxd":
            return f"limits.kernel.{limit} = {value} in the container's configuration"
        case "lxc":
            return f"lxc.prlimit.{limit} = {value} in the container's configuration"
        case "systemd-nspawn":
            return f"--rlimit=RLIMIT_{limit.upper()}={value} when systemd-nspawn starts it"
        case _:
            return f"a hard limit of {value} ({limit}) where this system is started"


def _ask_for_file(facts: Facts, directory: str) -> str:
    return f"{directory} writable, or the setting in the image of {_here(facts)}"
