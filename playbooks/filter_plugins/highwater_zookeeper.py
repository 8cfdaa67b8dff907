"""The members of a ZooKeeper ensemble, and a safe order to start them in.

Members without data must never be a majority that starts by itself: they would agree on an empty tree, and those with
data would throw theirs away when they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_CLIENT_PORT = 2181
_QUORUM_PORT = 2888
_ELECTION_PORT = 3888

# A node as the role found it: name, holds_data, was_among (the server lines it was last started with; none for a single
# node), running, stale (it runs with something that is not wanted any more).
Node = Mapping[str, Any]


def members(hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`groups['zookeeper'] | highwater_zookeeper_members(hostvars)`: what the inventory says of each member.

    A member has name, id (0 where the inventory lacks it), host, port, and server_line as zoo.cfg has it.
    """
    found = []
    for name in hosts:
        variables = hostvars[name]
        member_id = int(variables.get("zookeeper_id") or 0)
        address = variables.get("zookeeper_address") or variables.get("highwater_address")
        host = str(address or variables.get("ansible_host") or name)
        in_url = f"[{host}]" if ":" in host else host
        quorum_port = int(variables.get("zookeeper_quorum_port") or _QUORUM_PORT)
        election_port = int(variables.get("zookeeper_election_port") or _ELECTION_PORT)
        found.append(
            {
                "name": str(name),
                "id": member_id,
                "host": host,
                "port": int(variables.get("zookeeper_client_port") or _CLIENT_PORT),
                "server_line": f"{member_id}={in_url}:{quorum_port}:{election_port}",
            }
        )
    return found


def server_lines(of_members: Sequence[Mapping[str, Any]]) -> list[str]:
    """What zoo.cfg has of them; nothing for a single node, which is no ensemble."""
    return sorted(member["server_line"] for member in of_members) if len(of_members) > 1 else []


def servers(of_members: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where they answer, as the module highwater_zookeeper takes it."""
    return [{key: member[key] for key in ("name", "host", "port")} for member in of_members]


def judge(nodes: Sequence[Node], of_members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """holders: names of those with data. lost: members that these knew and that are not wanted any more. grows: nodes
    without data would have a say that they had not before, so that an operator has to agree."""
    wanted = server_lines(of_members)
    holders = [node for node in nodes if node["holds_data"]]
    known = sorted({line for node in holders for line in node["was_among"]})
    another = any(sorted(node["was_among"]) != wanted for node in holders)
    return {
        "holders": [str(node["name"]) for node in holders],
        "lost": [line for line in known if line not in wanted],
        "grows": another or 0 < len(holders) < _majority(of_members),
    }


def order(nodes: Sequence[Node], of_members: Sequence[Mapping[str, Any]], leader: str) -> dict[str, list[str]]:
    """Names: whom to stop, whom to start first and together, whom later and one by one, whom to restart one by one.

    Where the ensemble grows all are stopped: an old majority and a new one must not be at work side by side.
    """
    grows = judge(nodes, of_members)["grows"]
    holders = [node for node in nodes if node["holds_data"]]
    empty = [node for node in nodes if not node["holds_data"]]
    needed = max(0, _majority(of_members) - len(holders))
    to_start = [node for node in nodes if grows or not node["running"]]
    first = [*holders, *empty[:needed]] if holders else empty
    stale = [] if grows else [node for node in nodes if node["running"] and node["stale"]]
    return {
        "stop": [str(node["name"]) for node in nodes if grows and node["running"]],
        "first": [str(node["name"]) for node in to_start if node in first],
        "later": [str(node["name"]) for node in to_start if node not in first],
        "restart": [str(node["name"]) for node in sorted(stale, key=lambda node: node["name"] == leader)],
    }


def _majority(of_members: Sequence[Mapping[str, Any]]) -> int:
    return len(of_members) // 2 + 1


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "highwater_zookeeper_judge": judge,
            "highwater_zookeeper_members": members,
            "highwater_zookeeper_order": order,
            "highwater_zookeeper_servers": servers,
        }
