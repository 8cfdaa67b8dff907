"""Reduces what Spark raises, and what its Java prints, to one line that a person can use."""

from __future__ import annotations

import builtins
import re
from typing import Final

from .spark_master import standalone_addresses

_TRACE: Final = "Traceback (most recent call last):"
_PYTHON_ERROR: Final = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Failed|Interrupt)\b(?:: .*)?$")
_LOST_TASK: Final = re.compile(r" executor \w+\): (?:[\w.$]+: )?(.+)")
_JAVA_CLASS: Final = re.compile(r"^(?:[\w$]+\.)+[\w$]*(?:Exception|Error): ")
_UNKNOWN_HOST: Final = re.compile(r"java\.net\.UnknownHostException: ([^:\s]+)")
_CAUSE: Final = "Caused by: "
_SAME_SETTINGS: Final = "spark.authenticate*, spark.ssl.rpc.* and spark.network.crypto.* have to be those of the master"


def reason_of(error: BaseException) -> str:
    """The one useful line: the end of the last trace of Python, else Java's first cause."""
    lines = lines_of(error)
    traces = [index for index, line in enumerate(lines) if _TRACE in line]
    if traces and (python := [line for line in lines[traces[-1] + 1 :] if _PYTHON_ERROR.match(line)]):
        return python[0]
    name = type(error).__name__
    if type(error).__module__ == builtins.__name__ and not isinstance(error, RuntimeError):
        return f"{name}: {lines[0]}" if lines else name
    messages = [line for line in lines if not line.startswith(("at ", "... "))] or [name]
    if lost := _LOST_TASK.search(messages[0].partition("most recent failure: Lost task ")[2]):
        return lost[1]
    # The error of a failed barrier stage names the failed task first, and the cause on the next line.
    cause = messages[1] if "failed barrier" in messages[0] and len(messages) > 1 else messages[0]
    return _JAVA_CLASS.sub("", cause).partition("SQLSTATE: ")[0].rstrip()


def lines_of(error: BaseException) -> list[str]:
    """The lines of Java's error if Java raised it, with text, without their indentation."""
    text = str(getattr(error, "java_exception", None) or error)
    return [line.strip() for line in text.splitlines() if line.strip()]


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


def first_error_in(log: str) -> str:
    """The first line of Java's output that reports an error, or the last line of all."""
    if unknown := _UNKNOWN_HOST.search(log):
        return (
            f"this host's own name, {unknown[1]}, has no address: add it to /etc/hosts, or set SPARK_LOCAL_IP to the "
            "address of this host that executors reach"
        )
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    found = [line for line in lines if "exception" in line.lower() or "error" in line.lower()]
    return (found or lines[-1:] or ["it printed nothing"])[0].removeprefix('Exception in thread "main" ')
