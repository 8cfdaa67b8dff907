"""Names of cells and factors, and which trial stands for a cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.reports.cells import Run
from highwater.reports.measures import PRODUCE_P99
from highwater.results.analysis.cells import scalar_text, short_names
from highwater.results.models import Scalar, TrialSummary
from highwater.results.reader import RunResult
from tests.reports.sample_run import Sample, saturated, write_sample


def test_factors_are_called_what_people_call_them() -> None:
    names = short_names(["producers.client.compression.type", "producers.client.batch.size", "storage.target", "x"])
    assert list(names.values()) == ["compression", "batch", "target", "x"]


def test_names_that_would_clash_stay_whole() -> None:
    factors = ["producers.client.client.id", "consumers.client.client.id", "producers.client.acks"]
    assert list(short_names(factors).values()) == [*factors[:2], "acks"]


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (131_072, "131,072"), (0.5, "0.5"), ("64KiB", "64KiB"), (None, "–")]
)
def test_values_of_factors(value: Scalar | None, text: str) -> None:
    assert scalar_text(value) == text


def test_long_labels_leave_the_names_out_and_say_so(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {
        "producers.client.acks": ["all", "1"],
        "producers.client.compression.type": ["none", "zstd"],
        "producers.client.batch.size": ["16KiB", "1MiB"],
    }
    run = Run.of(RunResult(write_sample(tmp_path / "run", Sample(axes=axes, trials=1, measure_s=1))))
    assert run.cells[0].label == "all · none · 16KiB"
    assert run.naming == "acks · compression · batch"


def test_a_factor_that_does_not_vary_is_not_in_the_label(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {
        "producers.client.acks": ["all"],
        "producers.client.compression.type": ["none", "lz4"],
    }
    run = Run.of(RunResult(write_sample(tmp_path / "run", Sample(axes=axes, trials=1, measure_s=1))))
    assert [cell.label for cell in run.cells] == ["compression none", "compression lz4"]


def test_emulated_storage_is_part_of_every_label(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {"storage.target": ["default", "hdd"]}
    run = Run.of(RunResult(write_sample(tmp_path / "run", Sample(axes=axes, trials=1, measure_s=1))))
    assert [cell.label for cell in run.cells] == ["target default", "target hdd (emulated)"]


def test_the_typical_trial_is_a_real_valid_one_in_the_middle(tmp_path: Path) -> None:
    def change(summary: TrialSummary) -> TrialSummary:
        p99 = {1: 30, 2: 10, 3: 20, 4: 1}[summary.trial] * 1_000_000
        latency = summary.produce.response_ns.model_copy(update={"p99": p99})
        summary = summary.model_copy(update={"produce": summary.produce.model_copy(update={"response_ns": latency})})
        return saturated(summary) if summary.trial == 4 else summary

    run = Run.of(RunResult(write_sample(tmp_path / "run", Sample(axes={}, trials=4, measure_s=1, change=change))))
    typical = run.cells[0].typical(PRODUCE_P99)
    assert typical is not None
    assert typical.summary.trial == 3
