"""The instrument attacked: a proxy before an honest broker lies, and each lie must be caught for what it is.

`python -m tests.drills.lying_broker [NAME ...]` runs `highwater bench run` once for each lie and driver, and prints
what was expected and what came. Exit status 1 when a lie went by, or an honest run was called one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import yaml

from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult
from tests.broker.proxy import Lie, LyingProxy
from tests.broker.running import running_broker
from tests.drills.lying_broker import lies

TARGET_FAILED: Final = 3
TIMEOUT_S: Final = 180


@dataclass(frozen=True, slots=True)
class Attack:
    """A lie, the load it is told to, and what the instrument has to say: exit status and failed checks of delivery."""

    lie: Callable[[], Lie]
    checks: frozenset[str] = frozenset()
    exit_status: int = TARGET_FAILED
    drivers: tuple[str, ...] = ("client", "wire")
    changes: Mapping[str, Any] = field(default_factory=dict)
    proof: Callable[[TrialSummary], bool] = lambda _: True
    """What else its figures must show."""


IDEMPOTENT: Final = {"producers": {"client": {"enable.idempotence": True}}}
TRANSACTIONAL: Final = {"producers": {"transactions": {"records": 50, "abort_ratio": 0.2}}}
# So that several batches lie in one answer.
PATIENT: Final = {"consumers": {"client": {"fetch.min.bytes": 60_000, "fetch.wait.max.ms": 400}}}

ATTACKS: Final[dict[str, Attack]] = {
    "honest": Attack(Lie, exit_status=0),
    "honest-transactions": Attack(Lie, exit_status=0, drivers=("client",), changes=TRANSACTIONAL),
    "swallowed": Attack(lies.Swallowed, frozenset({"delivery.lost", "delivery.in_log"})),
    "hidden-when-read": Attack(lies.HiddenWhenRead, frozenset({"delivery.lost"}), changes=PATIENT),
    "changed-when-stored": Attack(lies.ChangedWhenStored, frozenset({"delivery.corrupt"})),
    "changed-when-read": Attack(lies.ChangedWhenRead, frozenset({"delivery.corrupt"})),
    # The broker refuses such a batch and the client sends it again, behind those that were under way.
    "damaged-on-the-way": Attack(lies.DamagedOnTheWay, frozenset({"delivery.reordered"})),
    "damaged-on-the-way-idempotent": Attack(
        lies.DamagedOnTheWay, exit_status=0, drivers=("client",), changes=IDEMPOTENT
    ),
    "stored-twice": Attack(
        lies.StoredTwice, frozenset({"delivery.duplicated"}), changes={"checks": {"delivery": "exactly_once"}}
    ),
    "stored-twice-idempotent": Attack(
        lies.StoredTwice, frozenset({"delivery.duplicated"}), drivers=("client",), changes=IDEMPOTENT
    ),
    "reordered": Attack(lies.Reordered, frozenset({"delivery.reordered"})),
    "stalled": Attack(
        lies.Stalled,
        exit_status=0,
        proof=lambda s: s.produce.response_ns.p99 > 0.5 * lies.STALL_S * 1e9 and s.produce.response_ns.p50 < 0.2e9,
    ),
    "aborts-committed": Attack(
        lies.AbortsCommitted, frozenset({"delivery.aborted_received"}), drivers=("client",), changes=TRANSACTIONAL
    ),
    "commits-aborted": Attack(
        lies.CommitsAborted, frozenset({"delivery.lost"}), drivers=("client",), changes=TRANSACTIONAL
    ),
    "commits-forgotten": Attack(
        lies.CommitsForgotten, frozenset({"delivery.lost"}), drivers=("client",), changes=TRANSACTIONAL
    ),
}
"""By name. A stall is no lie about records: it has to show in the latency that counts from the schedule."""


def workload(driver: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema": "bench.workload/1",
        "name": "lying-broker",
        "purpose": "Is every lie caught?",
        "for_measurement": False,
        "topics": {"partitions": 1},
        "producers": {"count": 1, "driver": driver, "client": {"acks": "all", "linger.ms": 5}},
        "consumers": {"per_group": 1},
        "records": {"size": "200B"},
        "load": {"rate": "2000/s"},
        "phases": {"warmup": "1s", "measure": "4s", "drain": "6s"},
        "trials": {"n": 1, "a_a": False},
        # What the host does meanwhile is not in question here.
        "validity": {"send_delay_p99": "10s", "achieved_ratio_min": 0.2, "generator_cpu_ratio_max": 1.0},
    }
    return _laid_over(document, changes)


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        merged[key] = _laid_over(merged[key], value) if isinstance(merged.get(key), dict) else value
    return merged


def attack(attack: Attack, driver: str, directory: Path) -> list[str]:
    """What the instrument got wrong; nothing when it said what it should."""
    (directory / "workload.yaml").write_text(yaml.safe_dump(workload(driver, attack.changes)), "utf-8")
    with LyingProxy() as proxy:
        listeners = f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}"
        with running_broker(directory / "broker", properties=[listeners]) as broker:
            # The broker tells the address that it advertises, not the one it listens on.
            (proxy.broker_port,) = {
                connection.laddr.port
                for connection in psutil.Process(broker.process.pid).net_connections("tcp")
                if connection.status == psutil.CONN_LISTEN
            }
            proxy.lie = lie = attack.lie()
            command = [sys.executable, "-m", "highwater", "bench", "run", str(directory / "workload.yaml"), "--quiet"]
            command += ["--out", str(directory / "result"), "--launcher", "process"]
            command += ["--bootstrap-servers", f"127.0.0.1:{proxy.port}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if not (directory / "result" / "manifest.json").exists():
        return [f"exit status {done.returncode}: {done.stderr[-300:]}"]
    trials = RunResult(directory / "result").trials
    if not trials:
        return [f"exit status {done.returncode} and no trial: {done.stderr[-300:]}"]
    summary = trials[0].summary
    failed = {reason.check for reason in summary.verdict.reasons if reason.check.startswith("delivery.")}
    problems = []
    if type(lie) is not Lie and not lie.told:
        problems.append("no lie was told")
    if failed != attack.checks:
        problems.append(f"{sorted(failed) or 'no check'} failed, {sorted(attack.checks) or 'none'} should have")
    if done.returncode != attack.exit_status:
        problems.append(f"exit status {done.returncode} and not {attack.exit_status}")
    if not attack.proof(summary):
        problems.append(f"the figures do not show it: {summary.produce.response_ns}")
    if problems:
        problems.append(f"{lie.told} lies; {summary.delivery}; {[reason.text for reason in summary.verdict.reasons]}")
    return problems


def main(names: list[str]) -> int:
    if unknown := set(names) - set(ATTACKS):
        print(f"no such lie: {', '.join(sorted(unknown))}; there are: {', '.join(ATTACKS)}", file=sys.stderr)
        return 2
    wrong = 0
    for name in names or ATTACKS:
        for driver in ATTACKS[name].drivers:
            started_s = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="highwater-lies-") as temporary:
                problems = attack(ATTACKS[name], driver, Path(temporary))
            wrong += bool(problems)
            verdict = "; ".join(problems) if problems else "as it should be"
            print(f"{name} ({driver}): {verdict} ({time.monotonic() - started_s:.0f} s)", flush=True)
    print(f"{wrong} wrong" if wrong else "every lie was caught")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
