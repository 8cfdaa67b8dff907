"""What the formulas recommend is what the kernel shows after it was written: in a network namespace of its own.

Each sysctl and each queue of a veth pair is written and read back by a shell that knows nothing of this project.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from highwater.tuning.facts.model import Facts, NetworkInterface
from highwater.tuning.formulas import interfaces, network
from highwater.tuning.formulas.cpus import format_cpu_mask
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import Formula, Target
from highwater.tuning.workload import Workload

QUEUES = 4
AS_ROOT = os.geteuid() == 0
NEW_NAMESPACES = ("unshare", "--net", "--mount", *(() if AS_ROOT else ("--map-root-user",)))
PREPARE = (
    "set -e; mount -t sysfs none /sys; "
    f"ip link add v0 numrxqueues {QUEUES} numtxqueues {QUEUES} type veth peer name v1; "
)
MANY = Workload(connections=50_000, link_bits_per_s=100 * 10**9)


def _in_a_namespace(commands: str) -> str:
    done = subprocess.run(
        [*NEW_NAMESPACES, "sh", "-c", PREPARE + commands], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _written_and_read(path: str, text: str) -> str:
    return _in_a_namespace(f"echo '{text}' > {path}; cat {path}").strip()


@pytest.mark.parametrize(
    ("knob_path", "formula"),
    [
        ("net/ipv4/tcp_max_syn_backlog", network.syn_backlog),
        ("net/ipv4/ip_local_port_range", network.local_port_range),
        ("net/ipv4/ip_local_reserved_ports", network.reserved_ports),
    ],
)
def test_sysctls_read_back_as_they_were_recommended(knob_path: str, formula: Formula, tmp_path: Path) -> None:
    for name, text in {"ip_local_port_range": "32768\t60999", "ip_local_reserved_ports": "10000-10002"}.items():
        path = tmp_path / "proc/sys/net/ipv4" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    answer = formula(Facts(files=HostFiles(tmp_path)), MANY, "")
    assert isinstance(answer, Target)
    assert _written_and_read(f"/proc/sys/{knob_path}", str(answer.value)).split() == str(answer.value).split()


def test_reserved_ports_can_be_taken_back_to_none() -> None:
    path = "/proc/sys/net/ipv4/ip_local_reserved_ports"
    assert _in_a_namespace(f"echo 9092 > {path}; cat {path}; echo > {path}; cat {path}").split("\n")[:2] == ["9092", ""]


def test_queues_read_back_as_they_were_recommended(tmp_path: Path) -> None:
    queues = "/sys/class/net/v0/queues"
    shown = _in_a_namespace(f"cat {queues}/rx-0/rps_cpus {queues}/tx-0/xps_cpus").split()
    online = tuple(sorted(os.sched_getaffinity(0)))
    veth = NetworkInterface(
        "v0",
        "physical",
        "veth",
        True,
        None,
        1500,
        ("rx-0",),
        tuple(f"tx-{number}" for number in range(QUEUES)),
        {"rx-0": shown[0]},
        {"rx-0": 0},
        {f"tx-{number}": shown[1] for number in range(QUEUES)},
        (),
    )
    facts = Facts(files=HostFiles(tmp_path), cpus_online=online, network_interfaces={"v0": veth})
    targets = {
        f"{queues}/rx-0/rps_cpus": interfaces.receive_steering(facts, MANY, "v0/queues/rx-0"),
        f"{queues}/rx-0/rps_flow_cnt": interfaces.flows_of_queue(facts, MANY, "v0/queues/rx-0"),
        f"{queues}/tx-0/xps_cpus": interfaces.transmit_steering(facts, MANY, "v0/queues/tx-0"),
    }
    for path, answer in targets.items():
        assert isinstance(answer, Target) or len(online) == 1
        if isinstance(answer, Target):
            assert _written_and_read(path, str(answer.value)) == str(answer.value), path
    first_cpu = format_cpu_mask([0], like=shown[0])
    assert _written_and_read(f"{queues}/rx-0/rps_cpus", first_cpu) == first_cpu
