"""The shipped JSON Schemas are the models' own; they accept what loads, and refuse what does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from typer.testing import CliRunner

from highwater.bench.gate.policy import default_policy
from highwater.bench.workload.specification import load_specification
from highwater.cli import app
from highwater.studies.json_schemas import SCHEMAS, json_schema

ROOT = Path(__file__).parent.parent.parent
WORKLOADS = sorted((ROOT / "workloads").glob("*.yaml"))
QUESTIONS = [
    ROOT / "examples/advise/question.yaml",
    *(
        path
        for path in sorted((ROOT / "workloads/advise").glob("*.yaml"))
        if "bench.question/" in path.read_text("utf-8")
    ),
]
SMALLEST: dict[str, Any] = {
    "schema": "bench.workload/1",
    "name": "t",
    "records": {"size": "1KiB"},
    "load": {"rate": "1k/s"},
    "phases": {"measure": "5s"},
}


def faults(name: str, document: Any) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(json_schema(name)).iter_errors(document)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_shipped_schema_is_the_models_own(name: str) -> None:
    renew = f"renew it: highwater bench schema {name} > bench/schemas/{name}.schema.json"
    shipped = (ROOT / f"bench/schemas/{name}.schema.json").read_text("utf-8")
    assert json.loads(shipped) == json_schema(name), renew
    jsonschema.Draft202012Validator.check_schema(json_schema(name))
    assert CliRunner().invoke(app, ["bench", "schema", name]).stdout == shipped


def test_an_unknown_schema_is_one_line() -> None:
    result = CliRunner().invoke(app, ["bench", "schema", "workloads"])
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: there is no schema 'workloads'; there are {', '.join(SCHEMAS)}\n",
    )


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.name)
def test_every_shipped_workload_is_accepted_as_written_and_as_dumped(path: Path) -> None:
    assert faults("workload", yaml.safe_load(path.read_text("utf-8"))) == []
    for cell in load_specification(path).cells:
        assert faults("workload", cell.workload.as_document()) == []


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.name)
def test_every_shipped_question_is_accepted(path: Path) -> None:
    assert faults("question", yaml.safe_load(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("changed", "is_accepted"),
    [
        ({"objective": [{"least": "produce.p99"}, {"most": "produce.achieved_per_s"}]}, True),
        ({"objective": "produce.p99"}, False),
        ({"budget": 600}, False),
        ({"constraints": {"errors": 0}}, False),
        ({"durability": {"kill": "perhaps"}}, False),
    ],
)
def test_what_a_question_may_be(changed: dict[str, Any], is_accepted: bool) -> None:
    question = yaml.safe_load(QUESTIONS[0].read_text("utf-8"))
    assert (faults("question", question | changed) == []) is is_accepted


def test_the_default_policy_is_accepted() -> None:
    assert faults("gate-policy", default_policy().as_document()) == []


@pytest.mark.parametrize(
    "sections",
    [
        {"records": {"size": {"weights": {"128B": 3, "1KiB": 6}}, "keys": {"zipf": {"n": "100k", "s": 1.1}}}},
        {"records": {"size": {"uniform": {"min": "100B", "max": "2KiB"}}, "headers": {"count": 2, "bytes": 16}}},
        {"load": {"schedule": [{"rate": "50k/s", "for": "60s"}]}, "phases": {"drain": {"max": "60s"}}},
        {"phases": {"warmup": {"until": "steady", "slope": "0.5%"}, "measure": "60s"}},
        {"producers": {"transactions": {"every": "100ms"}}, "consumers": {"start": {"after_backlog": "2GiB"}}},
        {"slo": {"produce.p99": "<20ms", "errors": "==0", "produce.achieved_per_s": ">=49k/s"}},
    ],
)
def test_every_shape_of_a_value_is_accepted(sections: dict[str, Any]) -> None:
    assert faults("workload", SMALLEST | sections) == []


@pytest.mark.parametrize(
    "sections",
    [
        {"slo": 1},
        {"slo": {"produce.p99": "20ms"}},
        {"records": {"size": 1024}},
        {"records": {"size": {"weights": {"128": 3}}}},
        {"records": {"size": "1KiB", "keys": {"zipf": {"m": 3}}}},
        {"phases": {"measure": "5"}},
        {"producers": {"cuont": 1}},
    ],
)
def test_what_does_not_load_is_refused(sections: dict[str, Any]) -> None:
    assert faults("workload", SMALLEST | sections)


def test_a_file_that_includes_another_need_not_have_everything() -> None:
    assert faults("workload", {"name": "t"})
    assert faults("workload", {"include": "base.yaml", "name": "t"}) == []


def test_the_help_names_every_schema() -> None:
    told = " ".join(CliRunner().invoke(app, ["bench", "schema", "--help"]).output.split())
    assert [name for name in SCHEMAS if name not in told] == []
