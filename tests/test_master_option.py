"""Each command that starts Spark refuses what is no master in one line, before it does anything else."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from highwater.cli import app
from highwater.common.spark_master import master_fault
from tests.test_command_config import commands

STARTS_SPARK = sorted(
    path for path, parameters in commands(typer.main.get_command(app)) for each in parameters if "--master" in each.opts
)


def test_commands_of_each_room_are_among_them() -> None:
    assert {
        "bench run",
        "bench lake query",
        "bench telemetry live",
        "capture from",
        "pipeline run",
        "pipeline drill",
    } <= {*STARTS_SPARK}


@pytest.mark.parametrize("command", STARTS_SPARK)
def test_a_master_that_is_none_is_one_line_and_exit_status_2(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--master", "bogus"])
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: {master_fault('bogus')}\n")
