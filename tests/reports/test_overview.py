"""The main table: its figures are those of the result files, and marks are earned."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from highwater.common.units import count_text, significant
from highwater.reports.blocks import Field, Table
from highwater.reports.cells import Run
from highwater.reports.overview import overview_blocks
from highwater.results.models import Scalar, TrialSummary
from highwater.results.reader import RunResult
from tests.reports.parsing import Document
from tests.reports.sample_run import Sample, saturated, write_sample


def table_of(directory: Path, sample: Sample) -> Table:
    (table,) = overview_blocks(Run.of(RunResult(write_sample(directory / "run", sample))))
    assert isinstance(table, Table)
    return table


def looks(table: Table) -> set[str]:
    return {field.look for row in table.rows for field in row.fields}


def trials_field(table: Table, row: int) -> Field:
    return table.rows[row].fields[column(table, "Trials", "valid")]


def column(table: Table, group: str, title: str, unit: str = "") -> int:
    (index,) = [i for i, c in enumerate(table.columns) if (c.group, c.title) == (group, title) and unit in ("", c.unit)]
    return index


def test_figures_of_the_page_are_those_of_the_files(golden_run: Path, golden_document: Document) -> None:
    result = RunResult(golden_run)
    analysis = result.analysis()
    assert analysis
    intervals = {(c.cell, m.metric): m.ci95 for c in analysis.cells for m in c.metrics}
    (table,) = golden_document.with_id("cells").find("table")
    header, *rows = table.rows()[1:]
    assert header[:3] == ["acks", "compression", "validof planned"]
    for row, (cell, trials) in zip(rows, result.cells().items(), strict=True):
        used = [t.summary for t in trials if t.summary.verdict.state != "invalid"]
        planned = [plan for plan in result.manifest.trials if plan.cell == cell and plan.role == "measure"]

        def field(
            metric: str,
            values: list[float],
            scale: float = 1,
            show: Callable[[float], str] = significant,
            cell: str = cell,
        ) -> str:
            interval = intervals.get((cell, metric))
            assert interval
            low, high = (show(v / scale) for v in interval)
            return show(statistics.median(values) / scale) + ("" if low == high else f"[{low}, {high}]")

        assert row[2].startswith(f"{len(used)} of {len(planned)}")
        assert row[3] == count_text(used[0].offered_per_s or 0)
        assert row[4] == field("produce.achieved_per_s", [s.achieved_per_s for s in used], show=count_text)
        assert row[5] == field("produce.achieved_bytes_per_s", [s.achieved_bytes_per_s for s in used], 2**20)
        produce, e2e = [s.produce.response_ns for s in used], [s.e2e.response_ns for s in used if s.e2e]
        for index, percentile in enumerate(("p50", "p99", "p999")):
            assert row[6 + index] == field(f"produce.{percentile}", [getattr(v, percentile) for v in produce], 1e6)
            assert row[9 + index] == field(f"e2e.{percentile}", [getattr(v, percentile) for v in e2e], 1e6)
        assert row[12:15] == ["0", "0", "0"]
        assert row[15] == field("system.cpu_ratio", [s.host.system_cpu_ratio or 0 for s in used])


def test_without_an_analysis_the_range_of_the_trials_stands_beneath(tmp_path: Path) -> None:
    table = table_of(tmp_path, Sample(axes={}, trials=3, measure_s=1))
    field = table.rows[0].fields[column(table, "Produce latency", "p99")]
    low, high = field.small.split("–")
    assert float(low) <= float(field.text) <= float(high)


def test_lost_records_are_summed_over_trials_so_that_no_median_hides_them(tmp_path: Path) -> None:
    def lossy(summary: TrialSummary) -> TrialSummary:
        if summary.trial != 2:
            return summary
        return saturated(summary).model_copy(update={"delivery": summary.delivery.model_copy(update={"lost": 7})})

    table = table_of(tmp_path, Sample(axes={}, trials=3, measure_s=1, change=lossy))
    value = table.rows[0].fields[column(table, "Records, all trials", "lost")]
    assert (value.text, value.look) == ("7", "bad")


def test_best_is_marked_only_where_it_is_decided(tmp_path: Path) -> None:
    def alike(summary: TrialSummary) -> TrialSummary:
        """acks differ in p50 and nothing differs in p99, but the cells' medians differ a little."""
        p99 = 9_000_000 + 500_000 * summary.trial + (10_000 if ("acks=1" in summary.cell) == (summary.trial % 2) else 0)
        p50 = (1_000_000 if "acks=1" in summary.cell else 3_000_000) + 10_000 * summary.trial
        latency = summary.produce.response_ns.model_copy(update={"p99": p99, "p50": p50})
        return summary.model_copy(update={"produce": summary.produce.model_copy(update={"response_ns": latency})})

    axes: dict[str, list[Scalar]] = {"producers.client.acks": ["all", "1"]}
    table = table_of(tmp_path, Sample(axes=axes, trials=6, measure_s=1, change=alike))
    p99, p50 = column(table, "Produce latency", "p99"), column(table, "Produce latency", "p50")
    mib = column(table, "Load", "achieved", "MiB/s")
    assert not any(row.fields[p99].look == "best" for row in table.rows)
    assert [row.fields[0].text for row in table.rows if row.fields[p50].look == "best"] == ["1"]
    assert not any(row.fields[mib].look == "best" for row in table.rows), (
        "every cell carried the offered load, so none is the fastest"
    )


def test_one_trial_of_each_earns_no_mark(tmp_path: Path) -> None:
    table = table_of(tmp_path, Sample(axes={"producers.client.acks": ["all", "1"]}, trials=1, measure_s=1))
    assert "best" not in looks(table)


def test_invalid_trials_never_enter_a_median_while_valid_ones_exist(tmp_path: Path) -> None:
    def second_is_wild(summary: TrialSummary) -> TrialSummary:
        if summary.trial != 2:
            return summary
        return saturated(summary).model_copy(update={"achieved_per_s": 1.0})

    table = table_of(tmp_path, Sample(axes={}, measure_s=1, change=second_is_wild))
    achieved = table.rows[0].fields[column(table, "Load", "achieved", "records/s")]
    assert min(float(v.replace(",", "")) for v in (achieved.text, *achieved.small.split("–")) if v) > 19_900
    assert (trials_field(table, 0).text, trials_field(table, 0).small) == ("2 of 3", "partly valid")


def test_a_cell_without_a_valid_trial_is_shown_in_grey_and_never_best(tmp_path: Path) -> None:
    def fast_but_invalid(summary: TrialSummary) -> TrialSummary:
        return saturated(summary) if "acks=1" in summary.cell else summary

    table = table_of(
        tmp_path, Sample(axes={"producers.client.acks": ["all", "1"]}, measure_s=1, change=fast_but_invalid)
    )
    assert [row.faint for row in table.rows] == [False, True]
    assert [trials_field(table, row).small for row in (0, 1)] == ["valid", "invalid"]
    assert "Rows in grey have no usable trial" in table.note
    assert "best" not in looks(table)


def test_percentile_with_fewer_than_ten_samples_above_is_greyed_and_says_why(tmp_path: Path) -> None:
    def few(summary: TrialSummary) -> TrialSummary:
        latency = summary.produce.response_ns.model_copy(update={"count": 5_000})
        return summary.model_copy(update={"produce": summary.produce.model_copy(update={"response_ns": latency})})

    table = table_of(tmp_path, Sample(axes={}, trials=1, measure_s=1, change=few))
    values = table.rows[0].fields
    assert values[column(table, "Produce latency", "p99")].hint == ""
    assert "5 samples above" in values[column(table, "Produce latency", "p99.9")].hint
    assert values[column(table, "Produce latency", "p50")].hint == ""


def test_without_consumers_there_are_no_empty_end_to_end_columns(tmp_path: Path) -> None:
    table = table_of(tmp_path, Sample(axes={}, trials=1, measure_s=1, consumers=0, quiet_host=True))
    assert not [c for c in table.columns if c.group == "End-to-end latency"]
    assert [c.title for c in table.columns if c.group == "CPU"] == ["generator"]
