"""The rules for Prometheus: read by promtool, on the names that the monitor's page has, and for all findings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from highwater.monitor.figures.cluster import derive
from highwater.monitor.figures.rows import Finding, FindingKind, Level
from highwater.monitor.history.writer import HistoryState
from highwater.monitor.metrics_page import metrics_page
from highwater.monitor.state import MonitorState
from tests.monitor.clusters import window
from tests.promtool import promtool

RULES = Path(__file__).parents[3] / "monitor/alerts/rules.yml"
# Names of its own: a source is down by the metric of the source, and not as a finding too.
BY_ANOTHER_METRIC = {FindingKind.SOURCE_SILENT}
FINDINGS = [kind for kind in FindingKind if kind not in BY_ANOTHER_METRIC]


def page(*findings: Finding) -> str:
    (snapshot,) = window(ticks=1)
    figures = replace(derive([snapshot]), findings=findings)
    state = MonitorState(started_ms=0, tick_s=15.0, history=HistoryState(""))
    return "".join(metrics_page((snapshot, figures), state, snapshot.taken_at_ms + 1000))


def test_promtool_reads_the_rules() -> None:
    checked = promtool("check", "rules", RULES)
    assert checked.returncode == 0, checked.stderr
    assert "16 rules found" in checked.stdout


def test_every_name_is_on_the_page() -> None:
    text = page(Finding(FindingKind.LAG, Level.ERROR, "group a", "It stopped."))
    served = {family.name for family in text_string_to_metric_families(text)}
    expressions = [
        rule["expr"] for part in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in part["rules"]
    ]
    asked = {name for expression in expressions for name in re.findall(r"highwater_monitor_\w+", expression)}
    assert asked
    assert asked <= served


@pytest.mark.parametrize("level", [Level.WARN, Level.ERROR])
@pytest.mark.parametrize("kind", FINDINGS, ids=lambda kind: kind.value)
def test_every_finding_fires_one_alert(tmp_path: Path, kind: FindingKind, level: Level) -> None:
    (sample,) = re.findall(r"highwater_monitor_findings\{.*", page(Finding(kind, level, "", "It is wrong.")))
    series, value = sample.rsplit(" ", 1)
    unit_test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series.replace("{", '{instance="m",', 1), "values": f"{value}x30"}],
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{alertstate="firing"})',
                        "eval_time": "30m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    }
                ],
            }
        ],
    }
    (tmp_path / "unit.yml").write_text(yaml.safe_dump(unit_test))
    tested = promtool("test", "rules", tmp_path / "unit.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr
