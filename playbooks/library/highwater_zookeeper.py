#!/usr/bin/python
"""What the members of a ZooKeeper ensemble say of themselves, and the wait until it is complete."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: highwater_zookeeper
short_description: What the members of a ZooKeeper ensemble say, and the wait until it is complete
description:
  - Asks each member by its four-letter words C(srvr) and C(mntr), from the host that the task runs on.
  - Changes nothing.
options:
  members:
    description: The ensemble.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: How it is called in messages.
        type: str
        required: true
      host:
        description: Where clients find it.
        type: str
        required: true
      port:
        description: Its client port.
        type: int
        required: true
  expected:
    description: How many members the ensemble is to have. C(0) takes what there is.
    type: int
    default: 0
  authority:
    description: File with the authority that signed the certificates of members, where they have TLS; empty for none.
    type: path
    default: ""
  within_seconds:
    description: How long to wait until O(expected) members serve and the leader has all others in sync.
    type: int
    default: 0
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Wait until all three are there
  highwater_zookeeper:
    members:
      - {name: node1, host: 10.87.0.11, port: 2181}
      - {name: node2, host: 10.87.0.12, port: 2181}
      - {name: node3, host: 10.87.0.13, port: 2181}
    expected: 3
    within_seconds: 60
"""

RETURN = r"""
members:
  description: For each its name, mode (leader, follower, standalone or empty), zxid, version and what is wrong with it.
  returned: always
  type: list
  elements: dict
leader:
  description: Name of the leader, or of the only member; empty when there is none.
  returned: always
  type: str
complete:
  description: Whether all members serve, one of them leads, and all others are in sync with it.
  returned: always
  type: bool
"""

_ANSWER_WITHIN_SECONDS: Final = 3.0
_BETWEEN_LOOKS_SECONDS: Final = 0.5


@dataclass
class Member:
    """problem: why it does not serve; empty when it does."""

    name: str
    mode: str = ""
    zxid: str = ""
    version: str = ""
    synced_followers: int = 0
    problem: str = ""


def word(host: str, port: int, text: str, authority: str = "") -> str:
    """The whole answer to a four-letter word. authority: a file; empty for no TLS. Raises OSError."""
    context = ssl.create_default_context(cafile=authority) if authority else None
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, port), _ANSWER_WITHIN_SECONDS))
        if context is not None:
            connection = stack.enter_context(context.wrap_socket(connection, server_hostname=host))
        connection.sendall(text.encode())
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer.decode("utf-8", "replace")


def ask(name: str, host: str, port: int, authority: str = "") -> Member:
    try:
        served = word(host, port, "srvr", authority)
        fields = dict(line.partition(": ")[::2] for line in served.splitlines())
        if "Mode" not in fields:
            said = served.strip().splitlines()
            return Member(name, problem=said[0] if said else "answers nothing")
        member = Member(name, fields["Mode"], fields.get("Zxid", ""), fields.get("Zookeeper version", ""))
        if member.mode == "leader":
            counts = dict(line.partition("\t")[::2] for line in word(host, port, "mntr", authority).splitlines())
            member.synced_followers = int(float(counts.get("zk_synced_followers", "0")))
    except OSError as error:
        return Member(name, problem=f"{host}:{port}: {error.strerror or error}")
    return member


def leader_of(members: list[Member]) -> str:
    return next((member.name for member in members if member.mode in ("leader", "standalone")), "")


def incomplete(members: list[Member], expected: int) -> str:
    """What is missing, in one line; empty when nothing is."""
    if silent := [member for member in members if member.problem]:
        return "; ".join(f"{member.name} does not serve: {member.problem}" for member in silent)
    if expected and len(members) != expected:
        return f"{len(members)} members instead of {expected}"
    leaders = [member for member in members if member.mode in ("leader", "standalone")]
    if len(leaders) != 1:
        names = ", ".join(member.name for member in leaders) or "nobody"
        return f"one member should lead, and {names} does"
    if leaders[0].synced_followers < len(members) - 1:
        return f"{leaders[0].synced_followers} of {len(members) - 1} followers are in sync with {leaders[0].name}"
    return ""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "members": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "host": {"type": "str", "required": True},
                    "port": {"type": "int", "required": True},
                },
            },
            "expected": {"type": "int", "default": 0},
            "authority": {"type": "path", "default": ""},
            "within_seconds": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    arguments = module.params
    deadline = time.monotonic() + arguments["within_seconds"]
    while True:
        members = [
            ask(each["name"], each["host"], each["port"], arguments["authority"]) for each in arguments["members"]
        ]
        missing = incomplete(members, arguments["expected"])
        if not missing or time.monotonic() > deadline:
            break
        time.sleep(_BETWEEN_LOOKS_SECONDS)
    result: dict[str, Any] = {
        "changed": False,
        "members": [vars(member) for member in members],
        "leader": leader_of(members),
        "complete": not missing,
    }
    if missing and arguments["expected"]:
        waited = arguments["within_seconds"]
        module.fail_json(
            msg=f"the ensemble is not complete after {waited} s: {missing}; see journalctl -u zookeeper there", **result
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
