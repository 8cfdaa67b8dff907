"""What role pipeline refuses before it changes anything, and how it hands secrets to systemd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.modules import load
from tests.playbooks.playing import play_part

FILTERS = load("filter_plugins/highwater_pipeline.py")


@pytest.fixture
def there(tmp_path: Path) -> dict[str, Any]:
    """A pipeline without a fault."""
    for name in ("orders.yaml", "steps.py"):
        (tmp_path / name).write_text("")
    return {"name": "orders", "file": str(tmp_path / "orders.yaml"), "files": [str(tmp_path / "steps.py")]}


def test_a_pipeline_without_fault(there: dict[str, Any]) -> None:
    assert FILTERS.faults([{**there, "environment": {"PGPASSWORD": 'a "$b" c\\'}, "every": "10min"}]) == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"name": "or-ders"}, "a pipeline has the name 'or-ders'; names have letters, digits and '_'"),
        ({"file": "/none/orders.yaml"}, "pipeline orders names the file /none/orders.yaml, which is not on the contr"),
        ({"evry": "1h"}, "pipeline orders has the unknown key evry; keys are environment, every, file, files, name"),
        ({"environment": {"A-B": "x"}}, "pipeline orders has the variable 'A-B', which is not a name of a variable"),
        ({"environment": {"A": "hush\nhush"}}, "pipeline orders has a value of several lines for A"),
    ],
)
def test_a_fault_is_one_sentence_without_values(there: dict[str, Any], changed: dict[str, Any], fault: str) -> None:
    (found,) = FILTERS.faults([{**there, **changed}])
    assert found.startswith(fault)
    assert "hush" not in found


def test_two_pipelines_of_one_name_and_files_of_one_name(there: dict[str, Any]) -> None:
    assert FILTERS.faults([there, there]) == ["2 pipelines have the name orders; give each its own"]
    twice = {**there, "files": there["files"] * 2}
    assert FILTERS.faults([twice]) == ["pipeline orders has files of one name; beside it they would be one file"]


def test_a_value_is_quoted_for_systemd() -> None:
    text = FILTERS.environment_file({"B": 'a "$HOME" `c` \\d #e', "A": 1})
    assert text == 'A="1"\nB="a \\"\\$HOME\\" \\`c\\` \\\\d #e"\n'


def test_the_role_says_what_is_wrong_with_the_inventory(tmp_path: Path) -> None:
    inventory = {"hosts": {"one": {"pipeline_instances": [{"name": "orders", "file": "/none/orders.yaml"}]}}}
    done = play_part(tmp_path, "pipeline", "assert", inventory)
    said = " ".join((done.stdout + done.stderr).split())
    assert "one: pipeline orders names the file /none/orders.yaml, which is not on the controller" in said
