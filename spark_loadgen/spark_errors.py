"""Reduces Spark's long errors to one line that a person can use."""

from __future__ import annotations

import re
from typing import Final

_PYTHON_ERROR: Final = re.compile(r"[\w.]+: ")
_LOST_TASK: Final = re.compile(r" executor \w+\): (?:[\w.$]+: )?(.+)")
_JAVA_CLASS: Final = re.compile(r"^[\w.$]+(Exception|Error): ")


def reason_of(error: Exception) -> str:
    """The one useful line of a Spark error: the end of a Python trace, else Java's first cause."""
    text = str(getattr(error, "java_exception", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Spark puts its own text on the first line of the trace.
    starts = [i for i, line in enumerate(lines) if "Traceback (most recent call last):" in line]
    if starts:
        trace = lines[starts[-1] :]
        if python_error := next((line for line in trace[1:] if _PYTHON_ERROR.match(line)), None):
            return python_error
    messages = [line for line in lines if not line.startswith(("at ", "... "))] or [type(error).__name__]
    if lost_task := _LOST_TASK.search(messages[0].partition("most recent failure: Lost task ")[2]):
        return lost_task[1]
    # The error of a failed barrier stage names the failed task first, and the cause on the next line.
    cause = messages[1] if "failed barrier" in messages[0] and len(messages) > 1 else messages[0]
    return _JAVA_CLASS.sub("", cause)
