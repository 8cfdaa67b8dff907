"""What trials tell beside rate and latency: changes, noise, storage, ceilings, partitions, phases, factors, knees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.common.units import change_text
from highwater.drawing.downsample import Point
from highwater.reports.cells import Run
from highwater.reports.curve import curve_figures, knee
from highwater.reports.facets import FacetKeys, UnknownFactorError, chosen_keys, facet_figures
from highwater.reports.heatmap import partition_figures
from highwater.reports.page import render, run_document
from highwater.reports.roofline import roofline_figures
from highwater.results.metrics import value_text
from highwater.results.reader import RunResult
from tests.reports.parsing import Document, parse, parse_drawing
from tests.reports.sample_run import Sample, saturated, write_sample

_SVG = "{http://www.w3.org/2000/svg}"


def test_changes_are_those_of_the_analysis(golden_run: Path, golden_document: Document) -> None:
    result = RunResult(golden_run)
    analysis = result.analysis()
    assert analysis
    labels = {cell.key: cell.label for cell in Run.of(result).cells}
    (table,) = golden_document.with_id("changes").find("table")
    rows = {row[0]: row[1:] for row in table.rows()}
    metrics = {
        "Produce latency p99lower is better": "produce.p99",
        "Throughputhigher is better": "produce.achieved_per_s",
    }
    for comparison in analysis.comparisons:
        for title, metric in metrics.items():
            if comparison.metric == metric:
                field = rows[labels[comparison.head]][rows["cell"].index(title)]
                assert change_text(comparison.ratio) in field
                assert ("no change" in field) == (comparison.verdict == "no_change")
                assert ("▼" in field) == (comparison.verdict == "worse")


def test_the_noise_floor_has_one_ratio_for_each_pair(golden_run: Path, golden_document: Document) -> None:
    analysis = RunResult(golden_run).analysis()
    assert analysis
    (table,) = golden_document.with_id("noise").find("table")
    (row,) = [row for row in table.rows() if row[0] == "Produce latency p99"]
    (noise,) = [n for n in analysis.noise if n.metric == "produce.p99"]
    assert row[1] == str(noise.n_pairs)
    assert row[3] == ", ".join(change_text(ratio) for ratio in noise.ratios)


def test_emulated_storage_is_said_wherever_its_figures_stand(tmp_path: Path) -> None:
    sample = Sample(axes={"storage.target": ["default", "hdd"]}, trials=1, measure_s=1, detailed=True)
    document = parse(render(run_document(RunResult(write_sample(tmp_path / "run", sample)))))
    assert "Emulated storage: hdd (rotational, 120 MiB/s, 120 operations/s)" in document.with_id("verdict").text
    assert "hdd (emulated)" in document.with_id("compared").text
    probes, cache = document.with_id("storage").find("table")
    assert {row[0] for row in probes.rows()[2:]} == {"default", "hdd (emulated)"}
    shares = {row[0]: row[1] for row in cache.rows()[2:]}
    assert shares == {"target default": "99.8 %", "target hdd (emulated)": "61 %"}
    assert "emulated" in document.with_id("ceilings").find("table")[0].text


def test_the_roofline_is_a_share_of_what_fio_and_the_generator_reach(tmp_path: Path) -> None:
    sample = Sample(axes={}, trials=1, measure_s=1, detailed=True)
    run = Run.of(RunResult(write_sample(tmp_path / "run", sample)))
    (figure,) = roofline_figures(run)
    rows = [[field.text for field in row.fields] for row in figure.table.rows]
    assert [row[1:3] for row in rows] == [
        ["storage", "850 MiB/s"],
        ["generator", "310,000 records/s"],
        ["network", "1.95 GiB/s"],
    ]
    achieved = run.cells[0].trials[0].summary.achieved_per_s
    assert rows[1][3] == f"{100 * achieved / 310_000:.2f} %"


def test_consumers_that_caught_up_are_held_to_their_own_ceiling(tmp_path: Path) -> None:
    directory = write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1))
    path = next(directory.glob("trials/*/summary.json"))
    summary = json.loads(path.read_text())
    summary["generator"]["consumer_ceiling_per_s"] = 4 * summary["consumed_per_s"]
    summary["backlog"] = {"bytes": 1, "records": 1, "built_at_s": 1.0, "caught_up_at_s": 2.0, "drain_bytes_per_s": 1.0}
    summary["backlog"]["drain_records_per_s"] = 2 * summary["consumed_per_s"]
    path.write_text(json.dumps(summary))
    (figure,) = roofline_figures(Run.of(RunResult(directory)))
    (row,) = ([field.text for field in row.fields] for row in figure.table.rows)
    assert (row[1], row[3]) == ("consumers", "50 %")


def test_without_probes_and_ceiling_there_is_no_roofline(tmp_path: Path) -> None:
    assert (
        roofline_figures(Run.of(RunResult(write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1)))))
        == []
    )


@pytest.mark.parametrize(("partitions", "fields"), [(4, 4), (1000, 200)])
def test_partitions_are_coloured_by_their_share(tmp_path: Path, partitions: int, fields: int) -> None:
    sample = Sample(axes={}, trials=1, measure_s=1, detailed=True, partitions=partitions)
    (figure,) = partition_figures(Run.of(RunResult(write_sample(tmp_path / "run", sample))))
    assert "the busiest partition carried 1.4× the mean" in figure.finding
    drawing = parse_drawing(figure.views[0].panels[0].drawing)
    cells = [r for r in drawing.iter(f"{_SVG}rect") if r.find(f"{_SVG}title") is not None]
    assert len(cells) == fields
    assert "h8" in (cells[0].get("class") or "")
    assert "h8" not in (cells[1].get("class") or "")


def test_an_event_is_drawn_at_its_second(golden_document: Document) -> None:
    for panel in golden_document.with_id("time-produce").find("svg", **{"class": "chart"}):
        assert "rebalance" in panel.text
        assert "phase" not in panel.text


def test_lag_is_drawn_where_it_was_counted(golden_document: Document) -> None:
    assert "Highest value of one second: 650 records" in golden_document.with_id("time-lag").text


def test_steady_state_backlog_and_transactions_are_told(golden_document: Document) -> None:
    (table,) = golden_document.with_id("phases").find("table")
    header, row = table.rows()[1:3]
    told = dict(zip(header, row, strict=True))
    assert told["laid up"] == "256 MiB"
    assert told["read at"] == "95 MiB/s"
    assert told["committed"] == "1,500"


def test_a_knee_is_where_the_curve_is_farthest_below_its_chord() -> None:
    rising = [Point(x, y) for x, y in ((10, 1.0), (20, 1.1), (30, 1.2), (40, 1.4), (50, 9.0), (60, 40.0))]
    assert knee(rising) == Point(50, 9.0) or knee(rising) == Point(40, 1.4)
    straight = [Point(float(x), float(x)) for x in range(10, 70, 10)]
    assert knee(straight) is None
    assert knee(rising[:3]) is None, "three points show no knee"
    assert knee([Point(x, 2.0) for x in range(10)]) is None


def test_a_ladder_is_drawn_over_the_offered_load_with_its_knee(tmp_path: Path) -> None:
    sample = Sample(
        axes={"load.rate": [10_000, 20_000, 40_000, 50_000, 58_000]},
        trials=1,
        measure_s=1,
        change=lambda s: saturated(s) if (s.offered_per_s or 0) > 55_000 else s,
    )
    figure, _ = curve_figures(Run.of(RunResult(write_sample(tmp_path / "run", sample))))
    assert [item.name for item in figure.legend] == ["p50", "p99", "p99.9"], "one curve: a line for each percentile"
    assert "knee at 50,000/s" in figure.finding
    assert "knee" in figure.views[0].panels[0].drawing


def matrix(tmp_path: Path) -> Run:
    axes = {"producers.client.acks": ["all", "1"], "load.rate": [1, 2, 3], "storage.target": ["default", "hdd"]}
    return Run.of(RunResult(write_sample(tmp_path / "run", Sample(axes=axes, trials=1, measure_s=1))))  # type: ignore[arg-type]


def test_factors_find_their_places(tmp_path: Path) -> None:
    run = matrix(tmp_path)
    assert chosen_keys(run, FacetKeys()) == FacetKeys("load.rate", "producers.client.acks", "storage.target", "")
    chosen = chosen_keys(run, FacetKeys(x="target", rows="load.rate"))
    assert chosen == FacetKeys("storage.target", "producers.client.acks", "", "load.rate")
    (figure,) = facet_figures(run, FacetKeys())
    assert len(figure.views[0].panels) == 2
    assert figure.columns == 2
    (figure,) = facet_figures(run, FacetKeys(rows="load.rate", x="target"))
    assert [panel.title for panel in figure.views[0].panels] == ["rate 1", "rate 2", "rate 3"]


def test_a_factor_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownFactorError, match=r'"linger" is not a factor of this run; its factors are .*load\.rate'):
        chosen_keys(matrix(tmp_path), FacetKeys(colour="linger"))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (5_000_000, "ns", "5 ms"),
        (20_000.0, "per_s", "20,000/s"),
        (2**21, "bytes_per_s", "2 MiB/s"),
        (0.5, "ratio", "50 %"),
        (3.0, "s_per_gib", "3 s/GiB"),
        (0.0, "records", "0 records"),
        (0.0, "ns", "0 ns"),
    ],
)
def test_units_of_files_become_units_of_people(value: float, unit: str, text: str) -> None:
    assert value_text(value, unit) == text
