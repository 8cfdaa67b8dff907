"""The main table: its figures are those of the result files, and marks are earned."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from bench.results import RunResult, Scalar, TrialSummary
from reports.cells import Run
from reports.overview import Overview, overview
from reports.quantity import significant, whole
from tests.reports.parsing import Document
from tests.reports.sample_run import Sample, saturated, write_sample


def table_of(directory: Path, sample: Sample) -> Overview:
    return overview(Run.of(RunResult(write_sample(directory / "run", sample))))


def column(table: Overview, group: str, title: str, unit: str = "") -> int:
    (index,) = [i for i, c in enumerate(table.columns) if (c.group, c.title) == (group, title) and unit in ("", c.unit)]
    return index


def test_figures_of_the_page_are_those_of_the_files(golden_run: Path, golden_document: Document) -> None:
    result = RunResult(golden_run)
    (table,) = golden_document.find("table", **{"class": "overview sortable"})
    header, *rows = table.rows()[1:]
    assert header[:3] == ["acks", "compression", "validof planned"]
    for row, (cell, trials) in zip(rows, result.cells().items(), strict=True):
        valid = [t.summary for t in trials if t.summary.verdict.state == "valid"]
        planned = [plan for plan in result.manifest.trials if plan.cell == cell]

        def spread(values: list[float], show: Callable[[float], str] = significant) -> str:
            low, high = show(min(values)), show(max(values))
            return show(statistics.median(values)) + (f"{low}–{high}" if low != high else "")

        assert row[2].startswith(f"{len(valid)} of {len(planned)}")
        assert row[3] == whole(valid[0].offered_per_s)
        assert row[4] == spread([s.achieved_per_s for s in valid], whole)
        assert row[5] == spread([s.achieved_bytes_per_s / 2**20 for s in valid])
        latencies = [field.removeprefix("▲") for field in row[6:12]]
        produce, e2e = [s.produce.response_ns for s in valid], [s.e2e.response_ns for s in valid if s.e2e]
        assert latencies[0] == spread([latency.p50 / 1e6 for latency in produce])
        assert latencies[1] == spread([latency.p99 / 1e6 for latency in produce])
        assert latencies[2] == spread([latency.p999 / 1e6 for latency in produce])
        assert latencies[3] == spread([latency.max / 1e6 for latency in produce])
        assert latencies[4] == spread([latency.p50 / 1e6 for latency in e2e])
        assert latencies[5] == spread([latency.p99 / 1e6 for latency in e2e])
        assert row[12:15] == ["0", "0", "0"]
        assert row[15].removeprefix("▲") == spread([s.host.system_cpu_ratio or 0 for s in valid])
        assert row[16] == spread([s.generator.cpu_ratio_max for s in valid])


def test_lost_records_are_summed_over_trials_so_that_no_median_hides_them(tmp_path: Path) -> None:
    def lossy(summary: TrialSummary) -> TrialSummary:
        if summary.trial != 2:
            return summary
        return saturated(summary).model_copy(update={"delivery": summary.delivery.model_copy(update={"lost": 7})})

    table = table_of(tmp_path, Sample(axes={}, trials=3, measure_s=1, change=lossy))
    value = table.rows[0].values[column(table, "Records, all trials", "lost")]
    assert (value.text, value.bad) == ("7", True)


def test_best_is_marked_only_where_ranges_lie_apart(tmp_path: Path) -> None:
    def alike(summary: TrialSummary) -> TrialSummary:
        """Compression makes no difference, but the cells' medians differ a little."""
        p99 = 9_000_000 + 500_000 * summary.trial + (10_000 if "none" in summary.cell else 0)
        p50 = (1_000_000 if "acks=1" in summary.cell else 3_000_000) + 10_000 * summary.trial
        latency = summary.produce.response_ns.model_copy(update={"p99": p99, "p50": p50})
        return summary.model_copy(update={"produce": summary.produce.model_copy(update={"response_ns": latency})})

    axes: dict[str, list[Scalar]] = {
        "producers.client.acks": ["all", "1"],
        "producers.client.compression.type": ["none", "lz4"],
    }
    table = table_of(tmp_path, Sample(axes=axes, measure_s=1, change=alike))
    p99, p50 = column(table, "Produce latency", "p99"), column(table, "Produce latency", "p50")
    assert not any(row.values[p99].best for row in table.rows)
    assert [row.factors[0].text for row in table.rows if row.values[p50].best] == ["1", "1"]
    assert not any(row.values[column(table, "Load", "achieved", "MiB/s")].best for row in table.rows), (
        "every cell carried the offered load, so none is the fastest"
    )


def test_one_trial_of_each_earns_no_mark(tmp_path: Path) -> None:
    table = table_of(tmp_path, Sample(axes={"producers.client.acks": ["all", "1"]}, trials=1, measure_s=1))
    assert not table.any_best


def test_invalid_trials_never_enter_a_median_while_valid_ones_exist(tmp_path: Path) -> None:
    def second_is_wild(summary: TrialSummary) -> TrialSummary:
        if summary.trial != 2:
            return summary
        return saturated(summary).model_copy(update={"achieved_per_s": 1.0})

    table = table_of(tmp_path, Sample(axes={}, measure_s=1, change=second_is_wild))
    achieved = table.rows[0].values[column(table, "Load", "achieved", "records/s")]
    assert min(float(v.replace(",", "")) for v in (achieved.text, *achieved.range.split("–")) if v) > 19_900
    assert (table.rows[0].trials.text, table.rows[0].state) == ("2 of 3", "partly valid")


def test_a_cell_without_a_valid_trial_is_shown_in_grey_and_never_best(tmp_path: Path) -> None:
    def fast_but_invalid(summary: TrialSummary) -> TrialSummary:
        return saturated(summary) if "acks=1" in summary.cell else summary

    table = table_of(
        tmp_path, Sample(axes={"producers.client.acks": ["all", "1"]}, measure_s=1, change=fast_but_invalid)
    )
    assert [row.sound for row in table.rows] == [True, False]
    assert [row.state for row in table.rows] == ["valid", "invalid"]
    assert table.any_unsound
    assert not table.any_best


def test_percentile_with_fewer_than_ten_samples_above_is_greyed_and_says_why(tmp_path: Path) -> None:
    def few(summary: TrialSummary) -> TrialSummary:
        latency = summary.produce.response_ns.model_copy(update={"count": 5_000})
        return summary.model_copy(update={"produce": summary.produce.model_copy(update={"response_ns": latency})})

    table = table_of(tmp_path, Sample(axes={}, trials=1, measure_s=1, change=few))
    values = table.rows[0].values
    assert values[column(table, "Produce latency", "p99")].hint == ""
    assert "5 samples above" in values[column(table, "Produce latency", "p99.9")].hint
    assert values[column(table, "Produce latency", "max")].hint == ""


def test_without_consumers_there_are_no_empty_end_to_end_columns(tmp_path: Path) -> None:
    table = table_of(tmp_path, Sample(axes={}, trials=1, measure_s=1, consumers=0, quiet_host=True))
    assert not [c for c in table.columns if c.group == "End-to-end latency"]
    assert [c.title for c in table.columns if c.group == "CPU"] == ["generator"]
