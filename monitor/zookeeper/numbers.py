"""What the servers of ZooKeeper say of themselves: the answers to `mntr` and `srvr` as values. Pure."""

from __future__ import annotations

import re
from typing import Final

from highwater.monitor.model import ZooKeeperServer

_SRVR_NUMBERS: Final = {
    "Received": "packets_received",
    "Sent": "packets_sent",
    "Connections": "num_alive_connections",
    "Outstanding": "outstanding_requests",
    "Node count": "znode_count",
}
_LATENCY: Final = re.compile(r"Latency min/avg/max: ([0-9.]+)/([0-9.]+)/([0-9.]+)")
NOT_ALLOWED: Final = "not in the whitelist"


def is_mntr(answer: str) -> bool:
    return answer.startswith("zk_")


def of_mntr(address: str, answer: str) -> ZooKeeperServer:
    """Numbers have their names without `zk_`."""
    fields = dict(line.split("\t", 1) for line in answer.splitlines() if "\t" in line)
    numbers = {}
    for name, text in fields.items():
        try:
            numbers[name.removeprefix("zk_")] = float(text)
        except ValueError:
            continue
    mode, version = fields.get("zk_server_state", ""), fields.get("zk_version", "")
    return ZooKeeperServer(address, mode, _version(version), numbers)


def of_srvr(address: str, answer: str) -> ZooKeeperServer:
    """A server whose whitelist is Apache ZooKeeper's own allows `srvr` alone. Not all of mntr's numbers are in it."""
    fields = dict(line.split(": ", 1) for line in answer.splitlines() if ": " in line)
    if "Mode" not in fields:
        return ZooKeeperServer(address, error=_refusal(answer))
    numbers = {ours: float(fields[name]) for name, ours in _SRVR_NUMBERS.items() if fields.get(name, "").isdecimal()}
    if found := _LATENCY.search(answer):
        numbers |= dict(zip(("min_latency", "avg_latency", "max_latency"), map(float, found.groups()), strict=True))
    return ZooKeeperServer(address, fields["Mode"], _version(fields.get("Zookeeper version", "")), numbers)


def _version(text: str) -> str:
    return re.split(r"[-,]", text, maxsplit=1)[0]


def _refusal(answer: str) -> str:
    if NOT_ALLOWED in answer:
        return "it allows neither mntr nor srvr: add mntr to 4lw.commands.whitelist"
    if "not currently serving" in answer:
        return "it serves no requests now: it has no quorum"
    return "it does not answer mntr or srvr"
