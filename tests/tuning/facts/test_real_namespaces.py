"""Capabilities in namespaces of this very kernel, with access(2) as a witness. Needs root; nothing is written.

Each case is a process in namespaces of its own, which end with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).parents[3]
_PROGRAM: Final = """
import ctypes, json, os, sys
from highwater.tuning.catalogue import find_knob
from highwater.tuning.facts import collect
from highwater.tuning.capabilities import capability

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
if "mapped" in sys.argv:
    assert ctypes.CDLL(None).unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0
    print("ready", flush=True)
    sys.stdin.readline()
    os.setgid(0), os.setuid(0)
facts = collect()
knobs = [
    find_knob(key)
    for key in ("vm.swappiness", "net.core.somaxconn", "net.core.rmem_max", "net.core.netdev_max_backlog")
]
found = {knob.id: capability(facts, knob, "", "1") for knob in knobs}
print(json.dumps({
    "network": facts.namespaces.network,
    "user": facts.namespaces.user,
    "can": {key: capability.can for key, capability in found.items()},
    "why": {key: capability.why for key, capability in found.items()},
    "witness": {knob.id: os.access(knob.path, os.W_OK) for knob in knobs},
}))
"""


def _in_namespaces(*command: str) -> dict[str, Any]:
    done = subprocess.run(
        [*command, sys.executable, "-c", _PROGRAM], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return _agreed(done.stdout)


def _agreed(output: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output)
    assert found["can"] == found["witness"]
    return found


def test_here() -> None:
    """Wherever that is: on a machine itself, or in a container."""
    _in_namespaces()


def test_a_network_namespace_of_its_own() -> None:
    found = _in_namespaces("unshare", "--net")
    assert found["network"] is False
    assert found["can"]["vm.swappiness"], "without other namespaces it is the host's own"
    assert found["can"]["net.core.somaxconn"]
    assert found["why"]["net.core.netdev_max_backlog"].endswith("does not exist in a network namespace of its own")


def test_a_user_namespace_whose_root_is_the_hosts() -> None:
    found = _in_namespaces("unshare", "--user", "--map-root-user", "--net")
    assert found["user"] is False
    assert found["can"]["net.core.somaxconn"]
    assert found["can"]["vm.swappiness"]


def test_a_user_namespace_whose_root_is_nobody_on_the_host() -> None:
    command = [sys.executable, "-c", _PROGRAM, "mapped"]
    with subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() == "ready\n":
            for kind in ("uid", "gid"):
                Path(f"/proc/{process.pid}/{kind}_map").write_text("0 65534 1\n", "ascii")
        output, errors = process.communicate("go\n")
    assert process.returncode == 0, errors
    found = _agreed(output)
    assert found["user"] is False
    assert found["can"]["net.core.somaxconn"]
    assert found["why"]["vm.swappiness"] == "root of this system is root of its user namespace only, not of the host"


def test_a_proc_that_is_mounted_read_only() -> None:
    mounts = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys"
    found = _in_namespaces("unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh")
    assert not any(found["can"].values())
    assert found["why"]["vm.swappiness"] == "/proc/sys is mounted read-only in this system"
