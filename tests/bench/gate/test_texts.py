"""The gate's outcome for CI systems: JUnit XML, Markdown, GitHub's commands, GitLab's report."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from highwater.bench.display.comparison_text import gate_markdown
from highwater.bench.gate import reasoning
from highwater.bench.gate.annotations import github_lines, gitlab_report, style_of
from highwater.bench.gate.junit import junit_xml
from highwater.results.gate import ComparedSide, Gate, GateRound
from tests.bench.gate.test_reasoning import POLICY, evaluate, run


def outcome(ratio: float, text: str | None = None) -> Gate:
    first, again = evaluate(run(ratio, 6)), evaluate(run(ratio, 6, seed=2))
    found = reasoning.settle(first, [again] if first.worse else [], POLICY, strict=False)
    rounds = [
        GateRound(
            stage=stage,
            directory=".",
            seed=1,
            pairs=item.pairs,
            pairs_valid=item.pairs_valid,
            a_a_pairs=item.a_a_pairs,
            metrics=item.metrics,
            text="",
        )
        for stage, item in (("first", first), ("confirmation", again))
        if stage == "first" or first.worse
    ]
    return Gate(
        state=found.state,
        exit_code=found.exit_code,
        text=text or found.text,
        base=ComparedSide(given="git:main"),
        head=ComparedSide(given="<b>|`here`"),
        interleaved=True,
        confirmed=found.confirmed,
        policy=POLICY.as_document(),
        policy_file="ci/gate.yaml",
        rounds=rounds,
        environment=[],
    )


def test_junit_names_what_failed_and_skips_what_is_only_tracked() -> None:
    root = ElementTree.fromstring(junit_xml(outcome(0.8)))  # noqa: S314 (our own)
    suites = root.findall("testsuite")
    assert [(s.get("tests"), s.get("failures"), s.get("errors"), s.get("skipped")) for s in suites] == [
        ("3", "2", "0", "1"),
        ("2", "1", "0", "1"),
    ]
    assert "First round: 6 of 6 pairs valid, 6 A/A pairs" in (suites[0].get("name") or "")
    failure = suites[0].find("testcase[@name='produce.achieved_per_s']/failure")
    assert failure is not None
    assert "% worse" in (failure.get("message") or "")


def test_junit_of_a_pass_has_no_failures_and_any_text_is_xml() -> None:
    root = ElementTree.fromstring(junit_xml(outcome(1.0, "fine \x1b[31m <&> \x00")))  # noqa: S314 (our own)
    assert not root.findall(".//failure")
    assert root.findtext(".//system-out") == "fine  [31m <&>  "


def test_markdown_shows_gated_metrics_first_and_escapes_what_others_wrote() -> None:
    text = gate_markdown(outcome(0.8))
    assert text.startswith("### ❌ regression: produce.achieved&#95;per&#95;s ")
    assert "| **produce.achieved&#95;per&#95;s** | 20" in text
    assert "`<b>|'here'`" in text
    assert "<details><summary>Confirmation with fresh processes: 6 of 6 pairs valid" in text
    assert gate_markdown(outcome(1.0)).startswith("### ✅ pass: no change; smallest detectable change")


def test_githubs_commands_are_one_line_each_and_escaped() -> None:
    lines = list(github_lines(outcome(0.8)))
    assert lines[0].startswith("::error title=bench gate%3A regression::produce.achieved_per_s ")
    assert "25.0%25" in lines[0] or "%25 worse" in lines[0]
    assert len(lines) == 2
    assert not any("\n" in line for line in lines)
    assert next(iter(github_lines(outcome(1.0)))).startswith("::notice title=bench gate%3A pass::")


def test_gitlabs_report_has_what_it_asks_for() -> None:
    issues = json.loads(gitlab_report(outcome(0.8)))
    assert {issue["severity"] for issue in issues} == {"critical"}
    assert all(issue["location"] == {"path": "ci/gate.yaml", "lines": {"begin": 1}} for issue in issues)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == 2
    assert json.loads(gitlab_report(outcome(1.0))) == []


@pytest.mark.parametrize(
    ("environment", "style"), [({"GITHUB_ACTIONS": "true"}, "github"), ({"GITLAB_CI": "true"}, "gitlab"), ({}, "none")]
)
def test_the_ci_system_is_known_by_its_own_variable(environment: dict[str, str], style: str) -> None:
    assert style_of(environment) == style
