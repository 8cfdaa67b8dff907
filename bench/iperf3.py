"""iperf3, the tool of the field for what a network can do: its own figures, of both ways at once.

iperf3 is a program of both hosts (`apt-get install iperf3`) on the PATH; the other host runs `iperf3 --server`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, Final

from highwater.results.network import NetworkProbe, NetworkTrial

HOW_TO_INSTALL: Final = "iperf3 is not installed; on Debian and Ubuntu: apt-get install -y iperf3"
# TCP begins slowly: what the first second carried does not count.
_WARM_UP_S: Final = 1
# How long iperf3 may take beyond its own time: to connect, and to exchange results.
_GRACE_S: Final = 20


class Iperf3Error(Exception):
    """iperf3 is missing, or a trial failed. The text is one line."""


def probe(
    host: str, port: int, *, trials: int, trial_s: int, streams: int, on_trial: Callable[[NetworkTrial], None]
) -> NetworkProbe:
    """Send and receive for `trial_s`, so many times. streams: TCP connections each way. Raises Iperf3Error."""
    taken_utc = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    found: list[NetworkTrial] = []
    document: dict[str, Any] = {}
    for _ in range(trials):
        document = _run(host, port, trial_s, streams)
        found.append(trial_of(document))
        on_trial(found[-1])
    connected = document["start"]["connected"][0]
    return NetworkProbe(
        taken_utc=taken_utc,
        local_address=_address(connected["local_host"]),
        remote_address=_address(connected["remote_host"]),
        iperf3_version=document["start"]["version"].removeprefix("iperf "),
        streams=streams,
        trial_s=trial_s,
        trials=tuple(found),
    )


def trial_of(document: dict[str, Any]) -> NetworkTrial:
    """The figures of one report of `iperf3 --json --bidir`. Raises Iperf3Error when it has none."""
    try:
        end = document["end"]
        busy = end["cpu_utilization_percent"]
        return NetworkTrial(
            sent_bytes_per_s=end["sum_received"]["bits_per_second"] / 8,
            received_bytes_per_s=end["sum_received_bidir_reverse"]["bits_per_second"] / 8,
            retransmits=end["sum_sent"]["retransmits"] + end["sum_sent_bidir_reverse"]["retransmits"],
            cpu_ratio=max(busy["host_total"], busy["remote_total"]) / 100,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Iperf3Error(
            f"iperf3's report is not what this version of us reads ({error!r}): it needs iperf3 3.7 on both hosts"
        ) from None


def _run(host: str, port: int, trial_s: int, streams: int) -> dict[str, Any]:
    if shutil.which("iperf3") is None:
        raise Iperf3Error(HOW_TO_INSTALL)
    options = {"client": host, "port": port, "time": trial_s, "omit": _WARM_UP_S, "parallel": streams}
    command = ["iperf3", "--json", "--bidir", *(f"--{name}={value}" for name, value in options.items())]
    command.append("--connect-timeout=5000")
    timeout_s = trial_s + _WARM_UP_S + _GRACE_S
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise Iperf3Error(f"{host}:{port}: iperf3 was not done after {timeout_s} s, and was ended") from None
    except OSError as error:
        raise Iperf3Error(f"iperf3 cannot be run: {error.strerror or error}") from None
    try:
        document: dict[str, Any] = json.loads(done.stdout)
        problem = document.get("error")
    except (ValueError, AttributeError):
        problem = (done.stderr or done.stdout).strip().partition("\n")[0] or f"exit status {done.returncode}"
    if problem:
        raise Iperf3Error(f"{host}:{port}: iperf3 says: {problem}; the other host needs: iperf3 --server --port {port}")
    return document


def _address(text: str) -> str:
    """Without the zone of an address of one link, and as IPv4 where it is one within IPv6."""
    address = ip_address(text.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)
