"""Sessions one after the other in a process, each in its own JVM: with stand-ins for PySpark's class and gateway."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from highwater.common.spark_jvm import end_jvm, forget_jvm


def context(gateway: Any = None, active: Any = None) -> Any:
    return SimpleNamespace(_gateway=gateway, _jvm=gateway and gateway.jvm, _active_spark_context=active)


def gateway() -> Any:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return SimpleNamespace(jvm=object(), proc=process, shutdown=lambda: None)


def test_a_jvm_that_an_earlier_session_left_is_not_used() -> None:
    spark_context = context(SimpleNamespace(jvm=object()))
    forget_jvm(spark_context)
    assert (spark_context._gateway, spark_context._jvm) == (None, None)


def test_the_jvm_of_a_session_that_runs_stays() -> None:
    earlier = SimpleNamespace(jvm=object())
    spark_context = context(earlier, active=object())
    forget_jvm(spark_context)
    assert spark_context._gateway is earlier


def test_an_ended_jvm_is_forgotten() -> None:
    own = gateway()
    spark_context = context(own)
    end_jvm(spark_context, own)
    assert own.proc.poll() is not None
    assert (spark_context._gateway, spark_context._jvm) == (None, None)


def test_the_jvm_of_another_session_is_not_forgotten() -> None:
    other, own = SimpleNamespace(jvm=object()), gateway()
    spark_context = context(other)
    end_jvm(spark_context, own)
    assert own.proc.poll() is not None
    assert spark_context._gateway is other
