"""Reduces the errors of Spark, its workers and its streaming queries to one line and an exit code."""

from __future__ import annotations

import re
from typing import Final

from highwater.common.errors import UsageError
from highwater.common.exit_codes import EXIT_DAMAGE, EXIT_STEP_FAILED, EXIT_USAGE
from highwater.common.spark_errors import lines_of
from highwater.common.spark_errors import reason_of as reason_of_spark
from highwater.pipeline import errors

_OURS: Final = re.compile(r"(?<![\w.])highwater\.pipeline\.(?:\w+\.)*(\w+Error): (.+)$")
_MISTAKES: Final = {errors.SettingsError.__name__, UsageError.__name__}
# What Spark says, and the way out that it does not say.
_WAYS_OUT: Final = {
    "Python worker failed to connect back": "a Python worker did not start within 10 s: the host is too busy",
    "Multiple streaming ": "another query runs with this checkpoint: stop one of them",
    "driver worker exited unexpectedly": "Spark's workers may lack protobuf: pip install protobuf",
}


def reason_of(error: BaseException) -> str:
    """One line: the text of the room's own error if there is one, else the last Python error, else Java's first."""
    line = _explain(error)[1]
    hint = next((way_out for text, way_out in _WAYS_OUT.items() if text in line), "")
    return f"{line.rstrip('.')}; {hint}" if hint else line


def exit_code_of(error: BaseException) -> int:
    """EXIT_DAMAGE, EXIT_USAGE for what a user has to correct, EXIT_STEP_FAILED for everything else."""
    name = _explain(error)[0]
    if name == errors.DataLossError.__name__:
        return EXIT_DAMAGE
    return EXIT_USAGE if name in _MISTAKES else EXIT_STEP_FAILED


def _explain(error: BaseException) -> tuple[str, str]:
    """The class of the error without its module, and its line."""
    if isinstance(error, errors.PipelineError):
        return type(error).__name__, str(error)
    if ours := [match for line in lines_of(error) if (match := _OURS.search(line))]:
        return ours[-1][1], ours[-1][2]
    return type(error).__name__, reason_of_spark(error)
