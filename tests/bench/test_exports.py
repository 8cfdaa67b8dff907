"""Every export, read back by the tool it is for where that is installed, or by its published shape."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import duckdb
import pandas
import pyperf
import pytest
from pyarrow import parquet

from highwater.bench.exports import exporter, formats
from highwater.common.errors import UsageError
from highwater.results.metrics import METRICS
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult
from tests.bench.summaries import LATE
from tests.reports.sample_run import Sample, write_sample

AXES = {"producers.client.acks": ["all", "1"]}


def spoil(summary: TrialSummary) -> TrialSummary:
    """The first trial of one cell is invalid, and far off."""
    if summary.trial_id != "c1-t1":
        return summary
    invalid = summary.verdict.model_copy(update={"state": "invalid", "reasons": [LATE]})
    return summary.model_copy(update={"achieved_per_s": 1.0, "verdict": invalid})


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sample = Sample(axes=dict(AXES), trials=6, measure_s=12, rate_per_s=2000.0, change=spoil)  # type: ignore[arg-type]
    return write_sample(tmp_path_factory.mktemp("run") / "run", sample)


@pytest.fixture(scope="module")
def result(directory: Path) -> RunResult:
    return RunResult(directory)


def text(result: RunResult, name: str) -> str:
    (file,) = exporter(name)(result)
    return file.content.decode()


def rates(result: RunResult, cell: str) -> list[float]:
    return [trial.summary.achieved_per_s for trial in result.cells()[cell] if trial.summary.verdict.state != "invalid"]


def test_pyperf_reads_it_and_compares_it(result: RunResult, tmp_path: Path) -> None:
    base, head = tmp_path / "base.json", tmp_path / "head.json"
    base.write_text(text(result, "pyperf"))
    suite = pyperf.BenchmarkSuite.load(str(base))
    rate = suite.get_benchmark("acks=all:produce.achieved_per_s.second_per_record")
    assert rate.get_unit() == "second"
    assert 1 / rate.median() == pytest.approx(median(rates(result, "acks=all")), rel=1e-3)
    assert rate.get_nvalue() == 5, "the invalid trial is left out"
    latency = suite.get_benchmark("acks=1:produce.p99")
    assert latency.get_unit() == "second"
    assert suite.get_benchmark("acks=1:system.rss_bytes").get_unit() == "byte"
    slower = json.loads(base.read_text())
    for benchmark in slower["benchmarks"]:
        if benchmark["metadata"]["unit"] == "second":
            for run in benchmark["runs"]:
                run["values"] = [value * 2 for value in run["values"]]
    head.write_text(json.dumps(slower))
    command = [sys.executable, "-m", "pyperf", "compare_to", "--table", str(base), str(head)]
    compared = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "acks=1:produce.p99" in compared
    assert "2.00x slower" in compared


def test_bencher_gets_values_with_bounds(result: RunResult) -> None:
    document = json.loads(text(result, "bmf"))
    assert set(document) == {"quickstart/acks=all", "quickstart/acks=1"}
    measure = document["quickstart/acks=all"]["produce.achieved_per_s"]
    assert measure["lower_value"] <= measure["value"] <= measure["upper_value"]
    assert measure["value"] == pytest.approx(median(rates(result, "acks=all")))
    assert "produce.p99 (ns)" in document["quickstart/acks=1"]


def test_github_action_benchmark_gets_two_lists(result: RunResult) -> None:
    files = {file.suffix: json.loads(file.content) for file in exporter("gab")(result)}
    assert set(files) == {"-bigger", "-smaller"}
    for entries in files.values():
        assert all(isinstance(entry["name"], str) and isinstance(entry["value"], float) for entry in entries)
        assert all(isinstance(entry["unit"], str) and isinstance(entry["range"], str) for entry in entries)
    assert any(entry["name"].endswith("acks=all:produce.achieved_per_s") for entry in files["-bigger"])
    assert any(entry["name"].endswith("acks=all:produce.p99") for entry in files["-smaller"])


def test_otavas_csv_is_one_row_with_its_columns(result: RunResult) -> None:
    (row,) = csv.DictReader(io.StringIO(text(result, "otava")))
    assert list(row)[:3] == ["time", "commit", "branch"]
    assert row["time"] == "2025-03-01T09:00:00+00:00"
    assert "acks=all:produce.p99_ns" in row
    assert float(row["acks=all:produce.achieved_per_s"]) == pytest.approx(median(rates(result, "acks=all")))


def test_csv_and_parquet_hold_every_trial_and_the_same_figures(result: RunResult, tmp_path: Path) -> None:
    read = pandas.read_csv(io.StringIO(text(result, "csv")))
    assert len(read) == len(result.trials) == 12
    assert sorted(read["verdict"].unique()) == ["invalid", "valid"]
    (file,) = exporter("parquet")(result)
    (tmp_path / "trials.parquet").write_bytes(file.content)
    stored = pandas.read_parquet(tmp_path / "trials.parquet")
    assert list(stored.columns) == list(read.columns)
    for name in (definition.column for definition in METRICS.values()):
        assert stored[name].dtype == "float64"
        pandas.testing.assert_series_equal(stored[name], read[name].astype("float64"))
    metadata = parquet.read_schema(tmp_path / "trials.parquet").metadata
    assert json.loads(metadata[b"units"])["produce.p99_ns"] == "ns"
    assert {"produce.p99_ns", "lag.max_records", "consume.per_s", "writeback.flush_s"} <= set(read.columns)
    assert json.loads(metadata[b"manifest"])["name"] == "quickstart"


def test_omb_gets_a_file_per_trial_with_its_own_names_and_units(result: RunResult) -> None:
    files = exporter("omb")(result)
    assert len(files) == 11
    trial = result.cells()["acks=all"][-1]
    document = json.loads(next(file.content for file in files if file.suffix == f"-{trial.summary.trial_id}"))
    assert len(document["publishRate"]) == 2, "twelve seconds are one window of ten and one of two"
    assert document["aggregatedPublishLatency99pct"] == pytest.approx(trial.summary.produce.service_ns.p99 / 1e6)
    assert document["aggregatedPublishDelayLatency99pct"] == round(trial.summary.produce.send_delay_ns.p99 / 1e3)
    assert trial.summary.e2e
    assert document["aggregatedEndToEndLatency50pct"] == pytest.approx(trial.summary.e2e.response_ns.p50 / 1e6)
    assert document["aggregatedPublishLatencyQuantiles"]["100"] == document["aggregatedPublishLatencyMax"]
    assert (document["topics"], document["partitions"], document["producersPerTopic"]) == (1, 4, 1)
    assert document["consumersPerTopic"] == 1
    # Every field of TestResult.java, and no other.
    latencies = [
        f"{kind}{label}"
        for kind in ("publishLatency", "publishDelayLatency", "endToEndLatency")
        for label in ("Avg", "50pct", "75pct", "95pct", "99pct", "999pct", "9999pct", "99999pct", "Max")
    ]
    aggregated = [f"aggregated{name[0].upper()}{name[1:]}" for name in latencies]
    quantiles = [f"aggregated{kind}Quantiles" for kind in ("PublishLatency", "PublishDelayLatency", "EndToEndLatency")]
    rest = [
        "workload",
        "driver",
        "messageSize",
        "topics",
        "partitions",
        "producersPerTopic",
        "consumersPerTopic",
        "publishRate",
        "publishErrorRate",
        "consumeRate",
        "backlog",
    ]
    assert set(document) == {*latencies, *aggregated, *quantiles, *rest}


def test_omb_tells_each_cell_as_its_variant_has_it(tmp_path: Path) -> None:
    result = RunResult(write_sample(tmp_path / "run", Sample(axes={"variant": ["few", "many"]}, trials=1)))
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    manifest["workload"] |= {
        "matrix": {},
        "topics": {"count": 2, "partitions": 4},
        "producers": {"count": 4},
        "consumers": {"groups": 2, "per_group": 3},
        "variants": {"few": {}, "many": {"topics": {"count": 2, "partitions": 64}}},
    }
    (tmp_path / "run/manifest.json").write_text(json.dumps(manifest))
    result = RunResult(tmp_path / "run")
    assert [trial.summary.cell for trials in result.cells().values() for trial in trials] == [
        "variant=few",
        "variant=many",
    ]
    told = [json.loads(file.content) for file in exporter("omb")(result)]
    assert [
        (item["topics"], item["partitions"], item["producersPerTopic"], item["consumersPerTopic"]) for item in told
    ] == [(2, 4, 2, 1.5), (2, 64, 2, 1.5)], "OMB counts clients for each topic"


def test_the_query_of_the_docs_gives_the_figures_of_the_report(tmp_path: Path) -> None:
    run = RunResult(write_sample(tmp_path / "run", Sample(trials=6, analysed=True)))
    assert any(trial.summary.role == "a_a" for trial in run.trials)
    (file,) = exporter("parquet")(run)
    (tmp_path / "friday.parquet").write_bytes(file.content)
    page = (Path(__file__).parents[2] / "docs/bench-ci.md").read_text("utf-8")
    found = re.search(r"duckdb\.sql\('''(.+?)'''\)", page, re.DOTALL)
    assert found is not None
    sql = found[1].replace('\\"', '"').replace("friday.parquet", str(tmp_path / "friday.parquet"))
    analysis = run.analysis()
    assert analysis is not None
    reported = {
        cell.cell: next(item.value for item in cell.metrics if item.metric == "produce.p99") / 1e6
        for cell in analysis.cells
    }
    assert dict(duckdb.connect().execute(sql).fetchall()) == pytest.approx(reported)


def test_every_format_that_is_offered_exists() -> None:
    for name in formats():
        assert callable(exporter(name))


def test_what_was_measured_on_an_emulated_disk_is_called_so_by_every_format(tmp_path: Path) -> None:
    def emulate(summary: TrialSummary) -> TrialSummary:
        words = "a file as a hard disk, limited to 120 MiB/s"
        storage = summary.storage.model_copy(update={"emulated": True, "emulation": words})
        return summary.model_copy(update={"storage": storage})

    sample = Sample(axes=dict(AXES), trials=2, measure_s=2, rate_per_s=200.0, change=emulate)  # type: ignore[arg-type]
    emulated = RunResult(write_sample(tmp_path / "run", sample))
    assert emulated.emulation_notes() == [
        f"emulated disk: {emulated.trials[0].summary.storage.name}: a file as a hard disk, limited to 120 MiB/s"
    ]
    for name in ("pyperf", "bmf", "gab", "otava", "csv"):
        for file in exporter(name)(emulated):
            assert "emulated" in file.content.decode(), name


@pytest.mark.parametrize("name", ["bmf", "gab", "otava", "pyperf"])
def test_a_run_without_a_usable_trial_is_no_estimate(tmp_path: Path, name: str) -> None:
    def spoil_all(summary: TrialSummary) -> TrialSummary:
        invalid = summary.verdict.model_copy(update={"state": "invalid", "reasons": [LATE]})
        return summary.model_copy(update={"verdict": invalid})

    result = RunResult(write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=3, change=spoil_all)))
    with pytest.raises(UsageError, match="has no usable trial to export"):
        exporter(name)(result)
