"""schemas/ is what the code makes, and files of the repository are what their first line says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from highwater.bench.gate.policy import default_policy
from highwater.broker.faults.script import read_script
from highwater.common.errors import UsageError
from tests import schemas_folder
from tests.schemas_folder import FOLDER, ROOT, documents, pointed

# Files of pipelines have no schema. Of workloads: what others include and is not whole, and what takes a variant away.
WITHOUT = {
    "examples/containers/compose.yaml",
    "examples/containers/kubernetes.yaml",
    "examples/shop.yaml",
    "examples/windows.yaml",
    "workloads/broker-beside-kafka/cluster-latency-ceiling.yaml",
    "workloads/broker-beside-kafka/cluster-systems.yaml",
    "workloads/broker-beside-kafka/latency-ceiling.yaml",
    "workloads/broker-beside-kafka/systems.yaml",
}
POINTED = dict(pointed())


def faults(document: Any, schema: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.parametrize("name", documents())
def test_a_schema_of_the_folder_is_the_one_of_the_code(name: str) -> None:
    made = documents()[name]
    assert (FOLDER / f"{name}.schema.json").read_text("utf-8") == schemas_folder.text(made), "renew it: make docs"
    jsonschema.Draft202012Validator.check_schema(made)


def test_the_folder_has_nothing_else_and_its_page_names_all() -> None:
    names = {f"{name}.schema.json" for name in documents()}
    assert {path.name for path in FOLDER.iterdir()} == {*names, "README.md"}
    page = (FOLDER / "README.md").read_text("utf-8")
    assert [name for name in names if f"]({name})" not in page] == []


def test_every_file_that_has_a_schema_names_it() -> None:
    files = {path for folder in ("examples", "workloads") for path in (ROOT / folder).rglob("*.yaml")}
    assert {str(path.relative_to(ROOT)) for path in files - POINTED.keys()} == WITHOUT


@pytest.mark.parametrize("path", POINTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_what_its_first_line_says(path: Path) -> None:
    schema = json.loads(POINTED[path].read_text("utf-8"))
    assert faults(yaml.safe_load(path.read_text("utf-8")), schema) == []


def test_the_default_policy_is_one() -> None:
    assert faults(default_policy().as_document(), documents()["gate-policy"]) == []


@pytest.mark.parametrize(
    "script",
    [
        "rules: [{then: {kind: drop_afer}}]",
        "rules: [{when: {api: Produse}, then: {kind: drop_after}}]",
        "rules: [{when: {nth: 0}, then: {kind: drop_after}}]",
        "rules: [{when: {version: 3-}, then: {kind: drop_after}}]",
        "rules: [{when: {probability: 2}, then: {kind: drop_after}}]",
        "rules: [{then: {kind: error}}]",
        "rules: [{then: {kind: drop_after, ms: 3}}]",
        "rules: [{then: {kind: drop_after}, time: 1}]",
        "ruels: []",
    ],
)
def test_what_the_broker_refuses_the_schema_of_faults_refuses(script: str) -> None:
    with pytest.raises(UsageError):
        read_script(script)
    assert faults(yaml.safe_load(script), documents()["faults"])


@pytest.mark.parametrize(
    "script",
    [
        "rules: [{when: {api: [Produce, Fetch], version: 3-9, probability: 0.5}, then: {kind: drop_after}, times: 2}]",
        "rules: [{when: {version: 3}, then: {kind: error, error: NOT_LEADER_OR_FOLLOWER}}]",
        "rules: []",
    ],
)
def test_what_the_broker_takes_the_schema_of_faults_takes(script: str) -> None:
    read_script(script)
    assert faults(yaml.safe_load(script), documents()["faults"]) == []
