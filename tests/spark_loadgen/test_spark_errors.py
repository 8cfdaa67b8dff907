"""Spark's errors in one line."""

from __future__ import annotations

import pytest

from highwater.spark_loadgen.spark_errors import reason_of

TRACE_AFTER_SPARKS_WORDS = """org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover:
Most recent failure reason: Stage failed because barrier task ResultTask(0, 0) finished unsuccessfully.
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1983, in main
    process()
ZeroDivisionError: division by zero
	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:572)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TRACE_AFTER_SPARKS_WORDS, "ZeroDivisionError: division by zero"),
        ("Traceback (most recent call last):\n  File x\nValueError: no\n\tat java", "ValueError: no"),
        (
            (
                "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: "
                "Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): java.io.EOFException: it ended\n\tat x"
            ),
            "it ended",
        ),
        ("java.net.ConnectException: Connection refused\n\tat x", "Connection refused"),
        ("\tat nothing.but.frames", "RuntimeError"),
    ],
)
def test_the_line_that_tells_something(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)) == reason
