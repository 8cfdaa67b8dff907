"""Two hosts of two brokers each with TLS and logins: killed, measured by the bench, not shrunk by accident.

The brokers of the first host run compiled (broker_compiled). Run by `python -m tests.lab test`, as root, on a lab of
its own; `make test` does not collect it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from highwater.common.compiled import MODULES
from highwater.results.reader import RunResult
from tests.lab import inventory
from tests.lab.cores_story import (
    ALL,
    ALL_DATA,
    BROKERS,
    MONITOR,
    MOVE_WITHIN_S,
    PARTITIONS,
    SENDING_S,
    UNITS,
    bootstrap_of,
    command_that_moves,
    compiled_modules,
    inventory_of,
    killed,
    on_one_host,
    refusal,
    replicas_of,
    running,
    wait_until_whole,
)
from tests.lab.ledger import Ledger
from tests.lab.operating import Operator, Played, operated
from tests.lab.security_story import BENCH
from tests.lab.story import access
from tests.lab.telling import tell

NAME: Final = "corsec"
COMMITTED: Final = (inventory.COMMITTED / "group_vars/all.yml").read_text("utf-8")
RUN: Final = "divided"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    yield from operated(NAME, 2, tmp_path_factory.mktemp("logs"))


@pytest.mark.timeout(3600)
def test_hosts_of_two_brokers_with_tls_are_measured_as_one_cluster(lab: Operator, tmp_path: Path) -> None:
    nodes, keys = list(lab.record.nodes), lab.store.directory / "keys"

    def play(playbook: str, *arguments: str, processes: int = 2, status: int = 0) -> Played:
        variables = {
            "all": COMMITTED + access.VARIABLES,
            "brokers": BROKERS.format(processes=processes),
            "monitor": MONITOR,
        }
        compiled = {nodes[0].name: {"broker_compiled": True}, nodes[1].name: {"broker_compiled": False}}
        roles = ("spark_master", "spark_workers", "bench")
        made = inventory_of(lab, tmp_path / f"of-{processes}", nodes, variables, compiled, roles)
        return lab.play(playbook, "-i", str(made), *arguments, status=status)

    for playbook in ("provision.yml", "zookeeper.yml", "broker.yml", "agent.yml", "monitor.yml"):
        play(playbook)
    for playbook in ("broker.yml", "agent.yml", "monitor.yml"):
        again = play(playbook)
        assert again.changed == 0, again.changes
    for node in nodes:
        assert running(lab, node) == sorted(UNITS)
    assert [compiled_modules(lab, node) for node in nodes] == [{len(MODULES)}, {0}]

    ledger = Ledger(bootstrap_of(nodes), "orders", connection=access.of_librdkafka(keys))
    ledger.create_topic(PARTITIONS, 2)
    held = replicas_of(ledger.client)
    assert {broker for name, replicas in held.items() if name.startswith("orders-") for broker in replicas} == ALL
    assert on_one_host(ledger.client) == []
    with ledger.producing():
        for unit in UNITS:
            killed(lab, nodes[0], unit)
        wait_until_whole(ledger.client, ALL)
        time.sleep(SENDING_S)
    assert ledger.faults() == []

    measured = {
        "bench_workload": "smoke",
        "bench_run": RUN,
        "bench_overrides": BENCH,
        "bench_reports_directory": str(tmp_path / "reports"),
        "bench_accepted_exit_codes": [0, 4],
    }
    play("bench.yml", "-e", json.dumps(measured))
    trials = RunResult(tmp_path / "reports" / RUN).trials
    assert trials
    for trial in trials:
        assert trial.summary.achieved_per_s > 0
        assert (trial.summary.delivery.lost, trial.summary.delivery.corrupt) == (0, 0)
        tell(f"bench over SASL_SSL: {trial.summary.achieved_per_s:.0f} records/s, {trial.summary.delivery}")
    told = (tmp_path / "reports" / RUN / "manifest.json").read_text("utf-8")
    assert ", 2 processes on each host" in told
    assert "-compiled and highwater " in told
    # With Spark, which bench.yml has brought.
    play("verify.yml", "-e", "verify_tuning=false")

    refused = refusal(play("broker.yml", processes=1, status=2))
    lab.run(nodes[0], command_that_moves(refused), MOVE_WITHIN_S)
    assert {broker for replicas in replicas_of(ledger.client).values() for broker in replicas} == {1, 2}
    assert on_one_host(ledger.client) == []
    assert ledger.faults() == []
    play("teardown.yml", "-e", json.dumps({**ALL_DATA, "teardown_unmount": True}))
    for node in nodes:
        assert running(lab, node) == []
