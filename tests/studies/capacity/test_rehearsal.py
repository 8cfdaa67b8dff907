"""The rehearsal of a plan: a workload whose cells the costs predict, and what cannot be rehearsed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from highwater.bench.workload.specification import load_specification
from highwater.common.errors import UsageError
from highwater.results.reader import RunResult
from highwater.studies.capacity.draws import costs_of
from highwater.studies.capacity.measured import measured_of
from highwater.studies.capacity.rehearsal import rehearsal_of
from highwater.studies.commands import measuring
from highwater.studies.commands.measuring import rehearsed
from tests.studies.capacity.ceilings_run import write_ceilings
from tests.studies.capacity.samples import load, load_with, measured, work

SYSTEM = {"kind": "highwater", "clusters": {}, "nodes": 1, "config": {}}


def test_each_topic_is_a_held_out_cell_of_a_workload_that_can_run(tmp_path: Path) -> None:
    """40 MB/s in batches of 32 KiB, three copies, two groups: a hundredth is 0.4 MB/s in 12.2 batches a second."""
    made = rehearsal_of(load(), measured(), SYSTEM, 0.02)
    file = tmp_path / "rehearsal.yaml"
    file.write_text(yaml.safe_dump(made.workload), "utf-8")
    (cell,) = load_specification(file).cells
    assert cell.name == f"variant={made.topics[0].cell}" == "variant=held-out-1-orders"
    assert cell.workload.load.rate_per_s == round(0.02 * 40e6 / 1024)
    assert cell.workload.producers.client["batch.num.messages"] == 32
    assert (cell.workload.topics.replication, cell.workload.consumers.groups) == (3, 2)
    assert made.workload["variants"][made.topics[0].cell]["system"] == {"nodes": 3}
    done = work(0.02 * 40e6, 32 * 1024, groups=2, copies=2, partitions=3)
    assert made.topics[0].predicted_cores == pytest.approx(costs_of(measured()).cpu_cores(done))


def test_batches_below_a_record_are_smaller_records() -> None:
    made = rehearsal_of(load_with({"batch_bytes": 300}), measured(), SYSTEM, 0.005)
    (variant,) = made.workload["variants"].values()
    assert (variant["records"]["size"], variant["producers"]["client"]["batch.num.messages"]) == ("300B", 1)


def test_what_is_too_much_or_too_little_for_this_host() -> None:
    with pytest.raises(
        UsageError, match=r"^--rehearse 0\.1 %: orders would have 1\.22 batches a second.*1\.7% or more$"
    ):
        rehearsal_of(load(), measured(), SYSTEM, 0.001)
    tiny = load_with({"batch_bytes": 1024})
    with pytest.raises(
        UsageError, match=r"^--rehearse 100 %: the brokers of orders would need .* of this host's 8 pro"
    ):
        rehearsal_of(tiny, measured(), SYSTEM, 1.0)


def test_a_share_and_a_host_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings = RunResult(write_ceilings(tmp_path / "run"))
    known = measured_of([ceilings])
    for share, said in [
        ("0%", "--rehearse 0%: a share of the load is more than 0% and at most 100%"),
        ("200%", "--rehearse 200%: a share of the load"),
        ("some", "--rehearse: 'some' is not a percentage"),
    ]:
        with pytest.raises(UsageError) as caught:
            rehearsed(load(), known, ceilings, share, tmp_path / "out", [])
        assert str(caught.value).startswith(said)
    other = SimpleNamespace(cpu_model="Other CPU", cpu_count=known.host.cpu_count)
    monkeypatch.setattr(measuring, "collect", lambda: other)
    with pytest.raises(
        UsageError, match=r"this host's processor is Other CPU, and .* is of .*: rehearse on a host like"
    ):
        rehearsed(load(), known, ceilings, "5%", tmp_path / "out", [])
    assert not (tmp_path / "out").exists()


def test_a_run_without_a_valid_trial_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings = RunResult(write_ceilings(tmp_path / "run"))
    known = measured_of([ceilings])
    here = SimpleNamespace(cpu_model=known.host.cpu_model, cpu_count=known.host.cpu_count)
    monkeypatch.setattr(measuring, "collect", lambda: here)
    asked: list[list[str]] = []

    def bench(status: int) -> Any:
        def run(command: list[str], **_: Any) -> Any:
            asked.append(command)
            write_ceilings(Path(command[command.index("--out") + 1]))
            return SimpleNamespace(returncode=status)

        return run

    monkeypatch.setattr("subprocess.run", bench(0))
    with pytest.raises(UsageError, match="no valid trial of held-out-1-orders, so the rehearsal says nothing"):
        rehearsed(load(), known, ceilings, "2%", tmp_path / "one", ["data=/mnt/data"])
    assert asked[0][-2:] == ["--storage", "data=/mnt/data"]
    monkeypatch.setattr("subprocess.run", bench(3))
    with pytest.raises(
        UsageError, match="the rehearsal ended with exit status 3, for the reason above: no plan was saved"
    ):
        rehearsed(load(), known, ceilings, "2%", tmp_path / "two", [])
