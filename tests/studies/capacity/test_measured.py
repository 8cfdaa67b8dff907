"""What a result directory of workloads/ceilings.yaml says, and which directories say nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.common.errors import UsageError
from highwater.results.models import TrialSummary, Verdict
from highwater.results.reader import RunResult
from highwater.results.storage import WritebackUse
from highwater.studies.capacity.costs import fitted
from highwater.studies.capacity.draws import predictions
from highwater.studies.capacity.measured import measured_of
from tests.bench.summaries import LATE
from tests.studies.capacity.ceilings_run import TRIALS, write_ceilings
from tests.studies.capacity.samples import MOST_CORES, TRUE_COSTS, WAKING_S, closed_loop


def test_costs_and_ceilings_of_a_run(tmp_path: Path) -> None:
    found = measured_of([RunResult(write_ceilings(tmp_path / "run"))])
    costs = fitted([trial for cell in found.cells for trial in cell.trials], MOST_CORES)
    assert costs.cpu_s == pytest.approx(TRUE_COSTS, rel=0.05)
    assert costs.waking_s == pytest.approx(WAKING_S, rel=0.1)
    assert set(costs.batch_bytes) == {"produced", "consumed", "replicated"}
    held_out = [
        "held-out-produce",
        "held-out-busy",
        "held-out-copied",
        "held-out-read",
        "held-out-acks-1",
        "held-out-partitions",
        "held-out-zstd",
        "held-out-small-records",
    ]
    assert [cell.name for cell in found.held_out] == held_out
    told = predictions(found, costs)
    assert [each.cell for each in told] == [*held_out, "full-4KiB", "one-partition"]
    assert all(abs(each.error_ratio) < 0.05 for each in told)
    assert found.partition_bytes == (20_000.0,) * TRIALS
    assert found.process_bytes == pytest.approx(90_000_000)
    assert found.partition_bytes_per_s == pytest.approx((closed_loop(65_536),) * TRIALS)
    (disk,) = found.disks
    assert (disk.write_bytes_per_s, disk.medium) == ((400e6, 420e6), "ssd")
    assert (disk.syncs_per_s, disk.many_files) == ((3000.0, 3000.0), ((64, (200e6, 210e6)),))
    assert found.busiest == pytest.approx((0.98, 1.0, 1.02), rel=1e-3)
    assert {cell.name for cell in found.cells if cell.is_closed} == {"full-4KiB", "one-partition"}
    assert (found.trials_used, found.trials_left_out) == (27 * TRIALS, 0)


def test_bytes_are_those_of_the_log_and_not_of_all_its_copies(tmp_path: Path) -> None:
    def compressed(made: TrialSummary) -> TrialSummary:
        written = WritebackUse(
            dirty_max_bytes=None,
            writeback_max_bytes=None,
            written_bytes=None,
            appended_bytes=made.delivery.acked * 512 * made.system.copies,
        )
        return made.model_copy(update={"writeback": written})

    plain = measured_of([RunResult(write_ceilings(tmp_path / "plain"))])
    half = measured_of([RunResult(write_ceilings(tmp_path / "half", compressed))])
    for one, other in zip(plain.cells, half.cells, strict=True):
        assert other.trials[0].work.produced_bytes == pytest.approx(one.trials[0].work.produced_bytes / 2)


def test_a_heap_counts_as_taken(tmp_path: Path) -> None:
    def with_heap(made: TrialSummary) -> TrialSummary:
        system = made.system.model_copy(update={"command": ["java", "-Xmx2G", "kafka.Kafka"]})
        return made.model_copy(update={"system": system})

    assert measured_of([RunResult(write_ceilings(tmp_path / "run", with_heap))]).process_bytes == 2 << 30


def changed(**fields: Any) -> Any:
    return lambda made: made.model_copy(update=fields)


def invalid(made: TrialSummary) -> TrialSummary:
    return made.model_copy(update={"verdict": Verdict(state="invalid", reasons=[LATE])})


def another_version(made: TrialSummary) -> TrialSummary:
    return made.model_copy(update={"system": made.system.model_copy(update={"version": made.trial_id})})


def beside_other_work(made: TrialSummary) -> TrialSummary:
    return made.model_copy(update={"host": made.host.model_copy(update={"other_cpu_ratio": 1.5})})


def test_trials_beside_other_work_do_not_say_what_a_broker_can_use(tmp_path: Path) -> None:
    def once(made: TrialSummary) -> TrialSummary:
        return beside_other_work(made) if made.block == 1 else made

    found = measured_of([RunResult(write_ceilings(tmp_path / "once", once))])
    assert len(found.busiest) == TRIALS - 1
    assert {len(cell.trials) for cell in found.cells if cell.is_closed} == {TRIALS - 1}
    assert {len(cell.trials) for cell in found.cells if not cell.is_closed} == {TRIALS}


@pytest.mark.parametrize(
    ("change", "of_manifest", "said"),
    [
        (changed(driver="client"), {}, "no usable trial of one broker and the wire driver"),
        (invalid, {}, "no usable trial"),
        (changed(), {"for_measurement": False}, "is of a workload that is not for measurement"),
        (beside_other_work, {}, "other work of the host took 1.5 CPUs or more; measure .* does nothing else"),
        (another_version, {}, "measured several systems"),
    ],
)
def test_what_is_no_measurement_of_ceilings(tmp_path: Path, change: Any, of_manifest: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        measured_of([RunResult(write_ceilings(tmp_path / "run", change, **of_manifest))])


def test_two_classes_of_hosts_make_no_ceilings(tmp_path: Path) -> None:
    one = RunResult(write_ceilings(tmp_path / "one"))
    other = RunResult(write_ceilings(tmp_path / "other", changed(tuning_fingerprint="e" * 64)))
    with pytest.raises(UsageError, match=r"of another class of hosts than .* \(tuning_fingerprint differs"):
        measured_of([one, other])


def test_several_runs_of_a_class_are_one_measurement(tmp_path: Path) -> None:
    one, other = (RunResult(write_ceilings(tmp_path / name)) for name in ("one", "other"))
    both, alone = measured_of([one, other]), measured_of([one])
    assert both.trials_used == 2 * alone.trials_used
    samples: dict[str, Any] = {"write_bytes_per_s": (), "read_bytes_per_s": (), "syncs_per_s": (), "many_files": ()}
    assert replace(both.disks[0], **samples) == replace(alone.disks[0], **samples)
    assert len(both.disks[0].write_bytes_per_s) == 2 * len(alone.disks[0].write_bytes_per_s)


def test_one_name_for_two_kinds_of_disks_is_refused(tmp_path: Path) -> None:
    def hdd(made: TrialSummary) -> TrialSummary:
        return made.model_copy(update={"storage": made.storage.model_copy(update={"medium": "hdd"})})

    one, other = RunResult(write_ceilings(tmp_path / "one")), RunResult(write_ceilings(tmp_path / "other", hdd))
    with pytest.raises(UsageError, match=r"temporary names another kind of disk .* with --storage NAME=DIRECTORY"):
        measured_of([one, other])
