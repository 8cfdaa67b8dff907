"""Runs of every shape and in every state of ruin give a whole page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.reports.page import render, run_document
from highwater.results.models import Environment, Scalar
from highwater.results.reader import RunResult
from tests.reports.parsing import Document, parse
from tests.reports.sample_run import Sample, saturated, write_sample

ACKS: dict[str, list[Scalar]] = {"producers.client.acks": ["all", "1"]}


def page_of(directory: Path, sample: Sample) -> Document:
    return parse(render(run_document(RunResult(write_sample(directory / "run", sample)))))


def charts(document: Document) -> Sequence[str]:
    return [figure.attributes["id"] for figure in document.find("figure")]


def test_no_finished_trial(tmp_path: Path) -> None:
    sample = Sample(axes=ACKS, trials=1, status="interrupted", unfinished=("c1-t1", "c2-t1"))
    document = page_of(tmp_path, sample)
    assert "None of 2 planned trials finished" in document.with_id("verdict").text
    assert charts(document) == []
    assert "none finished" in document.with_id("cells").text


def test_a_run_that_planned_nothing_yet(tmp_path: Path) -> None:
    assert charts(page_of(tmp_path, Sample(axes=ACKS, trials=0, status="running"))) == []


def test_a_cell_without_a_finished_trial(tmp_path: Path) -> None:
    document = page_of(tmp_path, Sample(axes=ACKS, trials=1, measure_s=1, status="interrupted", unfinished=("c1-t1",)))
    assert len(document.with_id("cells").find("tbody")[0].rows()) == 2
    assert "“acks all” has no usable trial" not in document.with_id("findings").text
    assert "the only cell with a usable trial" in document.with_id("findings").text


def test_trials_that_are_all_invalid(tmp_path: Path) -> None:
    document = page_of(tmp_path, Sample(axes=ACKS, trials=1, measure_s=1, change=saturated))
    assert "Invalid" in document.with_id("verdict").text
    assert not [e for e in document.find("section") if e.attributes.get("id") == "findings"]
    assert "(invalid)" in document.with_id("spectrum-produce").text


def test_no_consumers(tmp_path: Path) -> None:
    document = page_of(tmp_path, Sample(axes=ACKS, trials=1, measure_s=1, consumers=0))
    assert not [name for name in charts(document) if "e2e" in name]
    assert "End-to-end" not in document.with_id("cells").text


def test_one_cell(tmp_path: Path) -> None:
    document = page_of(tmp_path, Sample(axes={}, trials=1, measure_s=1))
    assert "all trials" in document.with_id("cells").text


def test_environment_that_knows_nothing(tmp_path: Path) -> None:
    sample = Sample(axes={}, trials=1, measure_s=1, quiet_host=True, environment=Environment(facts={}, tuning=[]))
    directory = write_sample(tmp_path / "run", sample)
    parse(render(run_document(RunResult(directory))))
    (directory / "env.json").unlink()
    document = parse(render(run_document(RunResult(directory))))
    assert not [name for name in charts(document) if name.startswith("host")]


def test_twenty_four_cells_become_small_multiples(tmp_path: Path) -> None:
    sample = Sample(
        axes={
            "producers.client.acks": ["all", "1", "0"],
            "producers.client.compression.type": ["none", "lz4", "zstd", "gzip"],
            "producers.client.batch.size": ["16KiB", "1MiB"],
        },
        trials=1,
        measure_s=1,
    )
    document = page_of(tmp_path, sample)
    spectrum = document.with_id("spectrum-produce")
    for view in (e for e in spectrum if e.attributes.get("class", "").startswith("view ")):
        drawings = view.find("svg", **{"class": "chart"})
        assert len(drawings) == 24
        for drawing in drawings:
            assert len([p for p in drawing.find("path") if "data-name" in p.attributes]) <= 2
    assert len(document.with_id("time-throughput").find("svg", **{"class": "chart"})) == 24


def test_several_loads_of_more_than_four_kinds(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {"load.rate": [10_000, 20_000], "producers.client.linger.ms": [0, 1, 5, 10, 50]}
    document = page_of(tmp_path, Sample(axes=axes, trials=1, measure_s=1))
    assert charts(document)[:2] == ["load-produce", "load-e2e"]


@pytest.fixture(scope="module")
def half_an_hour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sample = Sample(axes={}, trials=1, measure_s=1797)
    return write_sample(tmp_path_factory.mktemp("long") / "run", sample)


def test_half_an_hour_of_seconds_stays_small_and_keeps_its_spikes(half_an_hour: Path) -> None:
    path = half_an_hour / "trials" / "c1-t1" / "windows.jsonl"
    lines = path.read_text("utf-8").splitlines()
    lines[900] = re.sub(r'"acked":\d+', '"acked":123', lines[900])
    path.write_text("\n".join(lines) + "\n", "utf-8")
    page = render(run_document(RunResult(half_an_hour)))
    assert len(page) < 400_000
    figure = parse(page).with_id("time-throughput")
    assert "Lowest acknowledged of one second: 123/s (all trials, trial 1, second 900)" in figure.text
    assert len(figure.find("table")[0].rows()) <= 31
    (line,) = [p for p in figure.find("path") if p.attributes.get("data-name") == "acknowledged"]
    assert line.attributes["d"].count("l") < 2 * 600


def test_a_hundred_trials_of_a_minute_make_a_page_of_a_few_mib(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {
        "producers.client.acks": ["all", "1"],
        "producers.client.linger.ms": [0, 1, 5, 10, 50],
    }
    sample = Sample(axes=axes, trials=1, measure_s=57, analysed=True, detailed=True, partitions=48)
    directory = write_sample(tmp_path / "run", sample)
    copy_trials(directory, times=10)
    result = RunResult(directory)
    assert sum(len(trials) for trials in result.cells().values()) == 100
    assert len(render(run_document(result)).encode()) < 4 * 2**20


def copy_trials(directory: Path, times: int) -> None:
    """The same trials again under other names; to write a hundred histograms would take longer than to draw them."""
    manifest = json.loads((directory / "manifest.json").read_text("utf-8"))
    for plan in list(manifest["trials"]):
        for trial in range(2, times + 1):
            changed = {"trial_id": f"{plan['trial_id']}-{trial}", "trial": trial, "block": trial}
            manifest["trials"].append(plan | changed)
            source, copied = directory / "trials" / plan["trial_id"], directory / "trials" / str(changed["trial_id"])
            shutil.copytree(source, copied)
            summary = json.loads((source / "summary.json").read_text("utf-8"))
            (copied / "summary.json").write_text(json.dumps(summary | changed), "utf-8")
    (directory / "manifest.json").write_text(json.dumps(manifest), "utf-8")
