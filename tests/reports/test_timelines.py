"""Percentile and time charts: the right trial, the right seconds, no curve beyond its samples."""

from __future__ import annotations

import re
from pathlib import Path

from highwater.reports.cells import Run
from highwater.reports.host import host_figures
from highwater.reports.measures import E2E_P99
from highwater.reports.spectrum import spectrum_figures
from highwater.reports.timelines import timeline_figures
from highwater.results.reader import RunResult
from tests.drawing.test_plot import drawn_points
from tests.reports.parsing import Document, parse_drawing
from tests.reports.sample_run import Sample, write_sample

_SVG = "{http://www.w3.org/2000/svg}"


def test_a_spectrum_ends_where_fewer_than_ten_samples_are_left(tmp_path: Path) -> None:
    sample = Sample(axes={}, trials=1, measure_s=12, rate_per_s=200)
    figure, _ = spectrum_figures(Run.of(RunResult(write_sample(tmp_path / "run", sample))))
    kind, low, high, _ = (parse_drawing(figure.views[0].panels[0].drawing).get("data-x") or "").split()
    assert (kind, low) == ("percentile", "0")
    left = 2400 * (1 - float(high) / 100)
    assert 10 <= left < 13, "the next point of the spectrum would leave fewer than ten"


def test_a_spectrum_is_drawn_where_the_histogram_says(golden_run: Path) -> None:
    run = Run.of(RunResult(golden_run))
    figure, _ = spectrum_figures(run)
    drawing = parse_drawing(figure.views[0].panels[0].drawing)
    left, top, right, bottom = (float(v) for v in (drawing.get("data-plot") or "").split())
    _, _, highest, _ = (drawing.get("data-x") or "").split()
    _, _, most_ms, _ = (drawing.get("data-y") or "").split()
    path = next(p for p in drawing.iter(f"{_SVG}path") if p.get("data-name") == run.cells[0].caption)
    x, y = drawn_points(path.get("d") or "")[-1]
    share = (x - left) / (right - left)
    percentile = 100 * (1 - (1 - float(highest) / 100) ** share)
    trial = run.cells[0].typical()
    assert trial is not None
    wanted = [p.value_ns / 1e6 for p in trial.spectrum("produce_response") if p.percentile <= percentile + 0.01][-1]
    assert abs((bottom - y) / (bottom - top) * float(most_ms) - wanted) < float(most_ms) / 200


def test_tables_under_spectra_are_the_percentiles_of_the_summary(golden_run: Path, golden_document: Document) -> None:
    run = Run.of(RunResult(golden_run))
    (table,) = golden_document.with_id("spectrum-e2e").find("table")
    rows = {row[0]: row[1:] for row in table.rows()}
    for column, cell in enumerate(run.cells):
        trial = cell.typical(E2E_P99)
        assert trial is not None
        assert trial.summary.e2e
        assert float(rows["99.9"][column]) == float(f"{trial.summary.e2e.response_ns.p999 / 1e6:.3g}")


def test_warm_up_takes_no_part_in_what_a_timeline_says(golden_run: Path) -> None:
    run = Run.of(RunResult(golden_run))
    throughput, produce, e2e, _ = timeline_figures(run)
    lowest = min(
        (w.acked for cell in run.cells for t in cell.shown for w in t.windows() if w.phase == "measure"),
    )
    assert throughput.finding.startswith(f"Lowest acknowledged of one second: {lowest:,}/s")
    for figure, field in ((produce, "produce_p99_ns"), (e2e, "e2e_p99_ns")):
        windows = [w for cell in run.cells for t in cell.shown for w in t.windows()]
        highest = max(getattr(w, field) for w in windows if w.phase == "measure")
        assert f"{highest / 1e6:.3g}" in figure.finding
        assert max(getattr(w, field) for w in windows) >= highest


def test_all_panels_of_a_figure_share_their_axes(golden_run: Path) -> None:
    run = Run.of(RunResult(golden_run))
    for figure in timeline_figures(run) + host_figures(run):
        (view,) = figure.views
        drawings = [parse_drawing(panel.drawing) for panel in view.panels]
        assert len(drawings) == len(run.cells)
        assert len({(d.get("data-x"), d.get("data-y"), d.get("data-plot")) for d in drawings}) == 1


def test_throughput_starts_at_zero(golden_run: Path) -> None:
    throughput = timeline_figures(Run.of(RunResult(golden_run)))[0]
    assert re.search(r'data-y="linear 0 ', throughput.views[0].panels[0].drawing)


def test_host_quantities_that_nobody_knows_make_no_chart(tmp_path: Path) -> None:
    run = Run.of(RunResult(write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1, quiet_host=True))))
    assert host_figures(run) == []
