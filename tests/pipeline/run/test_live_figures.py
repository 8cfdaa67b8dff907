"""The live figures of a pipeline: a line for each flow, and a sentence of all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.common.live_figures import LiveLines
from highwater.pipeline.run.live_figures import charts_of, live_figures, sentence_of
from highwater.pipeline.run.progress import FlowProgress
from highwater.pipeline.run.queries import FlowRun
from tests.pipeline.run.test_progress import report

DURATIONS = {"durationMs": {"triggerExecution": 1500, "addBatch": 1250}}


def flow(name: str, *reports: dict[str, Any]) -> FlowRun:
    progress = FlowProgress(name)
    progress.add(reports)
    return cast(FlowRun, SimpleNamespace(flow=SimpleNamespace(name=name), progress=progress))


def test_flows_in_a_sentence() -> None:
    runs = [flow("keep", report(0, 1000, 1, **DURATIONS)), flow("count", report(0, 10, 1, sources=[]))]
    assert sentence_of(runs) == "keep: 2,000/s, lag 2, a batch takes 1.5 s; count: 20/s."
    many = [flow(f"f{number}", report(0, 1, 1)) for number in range(6)]
    assert sentence_of(many).endswith("f3: 2/s, lag 2; 2 more flows.")


def lagging(name: str, *lags: int) -> FlowRun:
    reports = [
        report(batch, 10, batch, sources=[{"endOffset": {"t": {"0": 0}}, "latestOffset": {"t": {"0": lag}}}])
        for batch, lag in enumerate(lags)
    ]
    return flow(name, *reports)


@pytest.mark.parametrize(
    ("flows", "answer"),
    [
        ([lagging("a", 5, 6, 7)], "a: "),
        ([lagging("a", 5, 9, 7, 6)], "Keeps up. a: "),
        ([lagging("a", 500, 900, 700, 600)], "Does not catch up. a: "),
        ([lagging("a", 900, 700, 600, 500)], "Catches up. a: "),
        ([lagging("a", 5, 6, 7, 8), lagging("b", 1, 2, 3, 4)], "Falls behind. a: "),
        ([lagging("a", 5, 6, 5, 6), lagging("b", 1, 2, 3, 4)], "b: falls behind. a: "),
    ],
)
def test_whether_flows_keep_up_comes_first(flows: list[FlowRun], answer: str) -> None:
    assert sentence_of(flows).startswith(answer)


def test_each_batch_is_figures_and_the_end_is_the_answer(tmp_path: Path) -> None:
    with live_figures(tmp_path, "orders", ["keep"], "highwater pipeline run o.yaml", None) as live:
        reader = LiveLines(tmp_path)
        live.progress(flow("keep", report(0, 1000, 1, **DURATIONS)))
        lines = reader.read() or []
        live.answer = "done: keep: 1,000 rows in"
    assert (lines[0]["title"], lines[0]["again"]) == ("orders", "highwater pipeline run o.yaml")
    assert lines[-1]["figures"] == {
        "rate.keep": 2000.0,
        "lag.keep": 2,
        "batch.keep": 1.5,
        "sink.keep": 1.25,
    }
    assert {name.partition(".")[0] for name in lines[-1]["figures"]} <= {chart.name for chart in charts_of(["keep"])}
    assert [line["finished"] for line in reader.read() or []] == ["done: keep: 1,000 rows in"]


def test_an_idle_flow_reads_nothing_now_and_keeps_the_time_of_its_last_batch() -> None:
    idle = flow("keep", report(0, 1000, 1, **DURATIONS), report(0, 0, 9, durationMs={"triggerExecution": 3}))
    assert (idle.progress.rows_per_s, idle.progress.rows_per_s_now, idle.progress.batch_s) == (2000.0, 0.0, 1.5)
