"""What a run refuses before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.common.exit_codes import EXIT_USAGE
from highwater.pipeline.run import runner

EXAMPLE = Path(__file__).parents[3] / "examples/windows.yaml"


@pytest.mark.parametrize(
    ("master", "fault"),
    [("spork://a:1", "'spork://a:1' is not a Spark master: use local"), ("spark://127.0.0.1:1", "does not answer: ")],
)
def test_a_wrong_master_is_refused_before_anything_starts(
    master: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    request = runner.Request(file=EXAMPLE, is_dry=False, flows=(), available_now=False, master=master, settings={})
    assert runner.run_pipeline(request) == EXIT_USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert fault in line
