"""Errors of Spark as one line and an exit code."""

from __future__ import annotations

import pytest

from highwater.common.errors import UsageError
from highwater.pipeline.errors import ClientError, DataLossError, SettingsError
from highwater.pipeline.run.failures import exit_code_of, reason_of

IN_A_TASK = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted. SQLSTATE: XXKST
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 2020, in main
highwater.pipeline.errors.DataLossError: orders-0: the log begins at 7; failOnDataLoss=false goes on with what is there

\tat org.apache.spark.sql.Here(Here.scala:1)
"""
OF_A_USER = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "steps.py", line 3, in score
ZeroDivisionError: division by zero
"""


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (SettingsError("a.yaml:3: no"), "a.yaml:3: no", 2),
        (DataLossError("gone"), "gone; failOnDataLoss=false goes on with what is there", 3),
        (UsageError("no master"), "no master", 2),
        (ClientError("no broker"), "no broker", 5),
        (RuntimeError(IN_A_TASK), IN_A_TASK.splitlines()[3].partition(": ")[2], 3),
        (RuntimeError(OF_A_USER), "ZeroDivisionError: division by zero", 5),
        (
            RuntimeError(
                "org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] no column x. SQLSTATE: 42703; line 1"
            ),
            "[UNRESOLVED_COLUMN] no column x.",
            5,
        ),
        (RuntimeError(""), "RuntimeError", 5),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero", 5),
        (
            RuntimeError("[X] Multiple streaming jobs detected for 3."),
            "[X] Multiple streaming jobs detected for 3; another query runs with this checkpoint: stop one of them",
            5,
        ),
        (
            RuntimeError("The driver worker exited unexpectedly (crashed)."),
            "The driver worker exited unexpectedly (crashed); Spark's workers may lack protobuf: pip install protobuf",
            5,
        ),
    ],
)
def test_the_useful_line_and_the_code(error: Exception, line: str, code: int) -> None:
    assert (reason_of(error), exit_code_of(error)) == (line, code)
