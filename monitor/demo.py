"""`highwater monitor demo`: a small cluster under load on this host, and the monitor on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from highwater.common.child_process import HIGHWATER, program, stop
from highwater.common.listen_address import listening_at
from highwater.monitor.config import MonitorConfig, with_options
from highwater.monitor.errors import MonitorError
from highwater.monitor.serve_command import serve

_TICK_S: Final = 5.0
_END_WITHIN_S: Final = 10.0


def run(brokers: int, listen: str, *, opens_browser: bool) -> None:
    """Run until Ctrl-C or SIGTERM, and leave nothing behind. Raises MonitorError if the cluster does not start."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="highwater-demo-")))
        config = with_options(MonitorConfig("", name="demo", tick_s=_TICK_S), listen=listen, data=folder / "monitor")
        # A cluster takes long to start: what cannot work is said before.
        listening_at(config.web.listen, "--listen").close()
        bootstrap, zookeeper = _cluster(folder / "cluster", brokers, stack)
        load = subprocess.Popen(
            [*program("highwater.monitor.demo_load"), bootstrap], stdin=subprocess.DEVNULL, start_new_session=True
        )
        stack.callback(stop, load, _END_WITHIN_S)
        config = with_options(replace(config, bootstrap_servers=bootstrap), zookeeper=zookeeper)
        serve(config, os.environ, _open if opens_browser else None)
        sys.stdout.write("ending the load and the cluster …\n")
        sys.stdout.flush()


def _cluster(folder: Path, brokers: int, stack: ExitStack) -> tuple[str, str | None]:
    """Start it, and return its bootstrap servers and the address of its ZooKeeper."""
    sys.stdout.write("starting a cluster …\n")
    sys.stdout.flush()
    stack.callback(_command, ["broker", "cluster", "down", str(folder), "--wipe"])
    done = _command(["broker", "cluster", "up", str(folder), "--brokers", str(brokers), "--base-port", "0"])
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise MonitorError(f"the cluster of the demo did not start: {reason.removeprefix('error: ')}")
    status = _command(["broker", "cluster", "status", str(folder), "--json"])
    said = json.loads(status.stdout) if status.stdout else {}
    return done.stdout.strip(), said.get("zookeeper")


def _command(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # In a session of its own: a Ctrl-C at the terminal is for the demo, which then stops the cluster.
    return subprocess.run([*HIGHWATER, *arguments], capture_output=True, text=True, check=False, start_new_session=True)


def _open(address: str) -> None:
    """Open the browser of the desktop; on a host without one the printed address is enough."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    with suppress(webbrowser.Error):
        webbrowser.open(address)
