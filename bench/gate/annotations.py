"""The outcome of the gate for CI systems: GitHub annotations, GitLab code quality report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from highwater.bench.display.comparison_text import how_decided
from highwater.bench.gate.reasoning import describe
from highwater.results.gate import Gate, MetricComparison

Style = Literal["github", "gitlab", "none"]
_GITLAB_SEVERITY: Final = {"regression": "critical", "target_failed": "blocker", "inconclusive": "minor"}


def style_of(environment: Mapping[str, str]) -> Style:
    """The CI system that this process runs in, detected by the variables that it sets in every job."""
    if environment.get("GITHUB_ACTIONS") == "true":
        return "github"
    return "gitlab" if environment.get("GITLAB_CI") == "true" else "none"


def github_lines(gate: Gate) -> Iterator[str]:
    """Workflow commands: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands"""
    level = "error" if gate.exit_code else "warning" if gate.state == "inconclusive" else "notice"
    yield f"::{level} title={_property(f'bench gate: {_words(gate.state)}')}::{_message(gate.text)}"
    if gate.state == "regression":
        for item in _worse(gate):
            yield f"::error title={_property(item.metric)}::{_message(describe(item))}"


def gitlab_report(gate: Gate) -> str:
    """A code quality report: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format"""
    found = []
    if gate.state != "pass":
        found.append(_issue(gate, gate.state, gate.text))
    if gate.state == "regression":
        found += [_issue(gate, item.metric, describe(item)) for item in _worse(gate)]
    return json.dumps(found, indent=2) + "\n"


def _issue(gate: Gate, check: str, description: str) -> dict[str, object]:
    return {
        "description": f"{description}. {how_decided(gate)}.",
        "check_name": f"bench-gate/{check}",
        "fingerprint": hashlib.sha256(f"bench-gate/{check}".encode()).hexdigest(),
        "severity": _GITLAB_SEVERITY.get(gate.state, "major"),
        # A report must name a file: the policy.
        "location": {"path": gate.policy_file or "gate.yaml", "lines": {"begin": 1}},
    }


def _worse(gate: Gate) -> list[MetricComparison]:
    """The metrics that were worse in the last round."""
    return [item for item in gate.rounds[-1].metrics if item.gated and item.verdict == "worse"] if gate.rounds else []


def _words(state: str) -> str:
    return state.replace("_", " ")


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
