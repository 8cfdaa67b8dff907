"""A real group of each protocol on the real broker: a member joins, one leaves, one is killed, and all is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.test_real_broker import TINY
from tests.bench.trials.test_real_faults import run

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("host_settings_stay"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

# Sessions as short as brokers and clients of both protocols allow, and time for a busy machine.
WATCHED = (
    TINY.replace("trials: {n: 1", "trials: {n: 1, a_a: false")
    .replace("phases: {warmup: 1s, measure: 2s, drain: 60s}", "phases: {warmup: 1s, measure: 50s}")
    .replace(
        "matrix: {producers.client.compression.type: [lz4]}\n",
        "consumers: {groups: 0}\n"
        "rebalance:\n"
        "  members: 2\n"
        "  changes: [{at: 5s, do: join}, {at: 17s, do: leave, member: 1}, {at: 29s, do: kill, member: 2}]\n"
        "variants:\n"
        "  classic: {rebalance: {protocol: classic, client: {session.timeout.ms: 6000}}}\n"
        "  consumer:\n"
        "    rebalance: {protocol: consumer}\n"
        "    system:\n"
        "      config:\n"
        "        group.consumer.min.heartbeat.interval.ms: 500\n"
        "        group.consumer.heartbeat.interval.ms: 500\n"
        "        group.consumer.min.session.timeout.ms: 6000\n"
        "        group.consumer.session.timeout.ms: 6000\n",
    )
)


def test_each_protocol_reads_everything_again_after_each_change(tmp_path: Path) -> None:
    result = run(tmp_path, WATCHED)
    assert sorted(trial.summary.factors["variant"] for trial in result.trials) == ["classic", "consumer"]
    for trial in result.trials:
        found = trial.summary.rebalances
        assert found is not None
        assert found.protocol == trial.summary.factors["variant"]
        assert [(change.do, change.member) for change in found.changes] == [("join", 3), ("leave", 1), ("kill", 2)]
        assert all(change.all_read_s is not None for change in found.changes), found
        assert found.skipped == 0
        # The dead member's session has to end first.
        assert found.changes[2].longest_pause_s > 4
        happened = [event.text for event in trial.events() if event.kind == "membership"]
        assert happened == ["member 3 joins", "member 1 leaves", "member 2 killed"]
