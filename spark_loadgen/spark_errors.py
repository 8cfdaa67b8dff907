"""What Spark's long errors come down to, in one line that a person can use."""

from __future__ import annotations

import re
from typing import Final

_PYTHON_ERROR: Final = re.compile(r"[\w.]+: ")
_LOST_TASK: Final = re.compile(r"most recent failure: Lost task .*? executor \w+\): (?:[\w.$]+: )?(.+)")
_JAVA_CLASS: Final = re.compile(r"^[\w.$]+(Exception|Error): ")


def reason_of(error: Exception) -> str:
    """The one line of a Spark error that tells something: the end of a Python trace, else Java's first cause."""
    text = str(getattr(error, "java_exception", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Spark puts its own words before the trace, on the trace's first line.
    starts = [i for i, line in enumerate(lines) if "Traceback (most recent call last):" in line]
    if starts:
        trace = lines[starts[-1] :]
        if told := next((line for line in trace[1:] if _PYTHON_ERROR.match(line)), None):
            return told
    said = [line for line in lines if not line.startswith(("at ", "... "))] or [type(error).__name__]
    if lost_task := _LOST_TASK.search(said[0]):
        return lost_task[1]
    # A failed barrier stage names the task that failed, and on the next line why.
    cause = said[1] if "failed barrier" in said[0] and len(said) > 1 else said[0]
    return _JAVA_CLASS.sub("", cause)
