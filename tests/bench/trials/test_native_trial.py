"""Whole runs by native clients: loaded, counted, restarted, and verified again from their files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from highwater.bench.runs.execution import run_plan
from highwater.bench.trials.plan import make_plan
from highwater.bench.verify import disagreements
from highwater.bench.workload.specification import load_specification
from highwater.results.analysis.aims import outcomes
from highwater.results.reader import RunResult

pytestmark = [
    pytest.mark.clients,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here to compile bench/native"),
]

WORKLOAD = """\
schema: bench.workload/1
name: native
for_measurement: false
topics: {partitions: 1}
producers: {driver: wire_load, count: 2, client: {acks: 1, batch.num.messages: 3}}
consumers: {groups: 0}
records: {size: 1KiB}
load: {model: closed, records: 3000}
phases: {warmup: 0s}
trials: {n: 1, a_a: false, seed: 7}
storage: {probe: false, drop_caches: never}
# A test on a busy machine.
validity: {host_cpu_ratio_max: 1.0, steal_ratio_max: 1.0, canary_ratio_max: 1000.0}
variants:
  ours: {restart: kill}
  read: {consumers: {groups: 1, start: after_load, driver: wire_fetch, cold: true}}
  floor: {system: {kind: bare-loop}}
aims:
  - {of: ours, beside: [floor], ratio: {produce.achieved_per_s: ">=0.0001", produce.p99: "<=1000000"}}
"""


def test_a_native_load_is_counted_restarted_read_and_verified(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    run_plan(make_plan(load_specification(tmp_path / "w.yaml")), tmp_path / "out")
    result = RunResult(tmp_path / "out")
    found = {trial.summary.factors["variant"]: trial.summary for trial in result.trials}
    assert {name: summary.verdict.state for name, summary in found.items()} == dict.fromkeys(found, "valid")
    assert {summary.delivery.in_log for summary in found.values()} == {3000}
    ours, read, floor = found["ours"], found["read"], found["floor"]
    assert ours.verdict.notes[0].startswith(
        "counted by offsets: 3000 of 3000 acknowledged records are in the log after"
    )
    assert ours.restart is not None
    assert ours.restart.ready_s > 0
    assert ours.produce.response_ns.count == 1000, "a latency of each request"
    assert (ours.produce.send_delay_ns.count, ours.delivery.checked, ours.e2e) == (0, False, None)
    assert ours.start is not None
    assert ours.start.partitions == 1
    assert read.delivery.received == 3000
    assert read.consumed_bytes_per_s > 0
    assert read.cold_read_bytes_per_s is not None
    assert floor.system.kind == "bare-loop"
    assert [(outcome.metric, outcome.state) for outcome in outcomes(result)] == [
        ("produce.achieved_per_s", "reached"),
        ("produce.p99", "reached"),
    ]
    assert list(disagreements(result)) == []
