"""The JVM of a process's Spark: its end, and a JVM of its own for the next session."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import Any, Final

_END_TIMEOUT_S: Final = 30


def forget_jvm(spark_context: Any) -> None:
    """Before a session and its settings are made: PySpark would stay in the JVM that an earlier session has left.

    spark_context: the class SparkContext, which rooms import and this one does not.
    """
    if spark_context._active_spark_context is None:
        spark_context._gateway = spark_context._jvm = None


def end_jvm(spark_context: Any, gateway: Any) -> None:
    """End it, so that the next session of this process starts another one with its own settings."""
    with suppress(Exception):
        gateway.shutdown()
    # Spark's gateway server ends when its standard input does.
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    if spark_context._gateway is gateway:
        spark_context._gateway = spark_context._jvm = None
