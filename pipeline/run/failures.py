"""Reduces the errors of Spark, its workers and its streaming queries to one line and an exit code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from highwater.common.exit_codes import EXIT_DAMAGE, EXIT_STEP_FAILED, EXIT_USAGE
from highwater.common.spark_master import standalone_addresses
from highwater.pipeline import errors

_OURS: Final = re.compile(r"(?<![\w.])highwater\.pipeline\.(?:\w+\.)*(\w+Error): (.+)$")
_PYTHON_ERROR: Final = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b(?:: .*)?$")
_TRACE: Final = "Traceback (most recent call last):"
_BUILTINS: Final = "builtins"
_LOST_TASK: Final = re.compile(r" executor \w+\): (?:[\w.$]+: )?(.+)")
_JAVA_CLASS: Final = re.compile(r"^(?:[\w$]+\.)+[\w$]*(?:Exception|Error): ")
_CAUSE: Final = "Caused by: "
_SAME_SETTINGS: Final = "spark.authenticate*, spark.ssl.rpc.* and spark.network.crypto.* have to be those of the master"


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
    return EXIT_USAGE if name == errors.SettingsError.__name__ else EXIT_STEP_FAILED


def _explain(error: BaseException) -> tuple[str, str]:
    """The class of the error without its module, and its line."""
    if isinstance(error, errors.PipelineError):
        return type(error).__name__, str(error)
    text = str(getattr(error, "java_exception", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [match for line in lines if (match := _OURS.search(line))]
    if ours:
        return ours[-1][1], ours[-1][2]
    traces = [index for index, line in enumerate(lines) if _TRACE in line]
    if traces and (python := [line for line in lines[traces[-1] + 1 :] if _PYTHON_ERROR.match(line)]):
        return type(error).__name__, python[0]
    if type(error).__module__ == _BUILTINS and not isinstance(error, RuntimeError):
        return type(error).__name__, f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    messages = [line for line in lines if not line.startswith(("at ", "... "))] or [type(error).__name__]
    if lost := _LOST_TASK.search(messages[0].partition("most recent failure: Lost task ")[2]):
        return type(error).__name__, lost[1]
    return type(error).__name__, _JAVA_CLASS.sub("", messages[0]).partition("SQLSTATE: ")[0].rstrip()


def refusal_in(log: str, master: str) -> str | None:
    """One line if no address of a standalone master took the application, by what Java has printed so far."""
    addresses = standalone_addresses(master)
    if not addresses or not all(f"Failed to connect to master {address}" in log for address in addresses):
        return None
    if "SaslException" in log:
        return f"the Spark master {master} refuses spark.authenticate.secret: it has another one"
    causes = [line.removeprefix(_CAUSE) for line in log.splitlines() if line.startswith(_CAUSE)]
    reason = _JAVA_CLASS.sub("", causes[-1]) if causes else "it closes the connection"
    return f"the Spark master {master} refuses this application: {reason}; {_SAME_SETTINGS}"


def not_accepted(master: str) -> str:
    """One line: Spark has given up."""
    return f"the Spark master {master} did not accept this application; {_SAME_SETTINGS}"


def first_error_in(log: Path) -> str:
    """The first line of Java's output that reports an error, or the last line of all."""
    try:
        text = log.read_text("utf-8", "replace")
    except OSError:
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    found = [line for line in lines if "exception" in line.lower() or "error" in line.lower()]
    return (found or lines[-1:] or ["it printed nothing"])[0].removeprefix('Exception in thread "main" ')
