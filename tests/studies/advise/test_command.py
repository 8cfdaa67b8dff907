from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli import app
from tests.studies.advise.questions import QUESTION, write_question

EXAMPLE = Path(__file__).parents[3] / "examples" / "advise" / "question.yaml"


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["advise", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_example_is_a_question_that_can_be_asked() -> None:
    code, output = invoke(EXAMPLE, "--plan", "--json")
    assert code == 0
    assert json.loads(output)["combinations"] > 100


@pytest.mark.parametrize(
    ("question", "options", "text"),
    [
        (QUESTION.replace("15m", "1m"), ("--plan",), "budget: 1 min is too little to decide"),
        (QUESTION.replace("linger.ms", "lingre.ms"), ("--plan",), "did you mean"),
        (QUESTION, ("--resume", "nowhere"), "holds no advice"),
        (QUESTION, ("--resume", "nowhere", "--out", "elsewhere"), "give one of them"),
    ],
)
def test_wrong_uses_are_one_line_and_status_2(
    question: str, options: tuple[str, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_question(tmp_path, question)
    monkeypatch.chdir(tmp_path)
    code, output = invoke(path, *options)
    assert code == 2
    assert text in " ".join(output.split())
    assert output.startswith("error: ")
    assert not (tmp_path / "elsewhere").exists()
