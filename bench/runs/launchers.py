"""Which launcher a run was asked to use: Spark, or plain processes of this host. Imports are late, for --help."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError

if TYPE_CHECKING:
    from spark_loadgen import ProcessLauncher, SparkLauncher

_DEFAULT_MASTER: Final = "local[*]"


class LauncherKind(StrEnum):
    """What starts the tasks of a load."""

    SPARK = "spark"
    PROCESS = "process"


def make_launcher(
    kind: LauncherKind, master: str | None, spark_conf: Mapping[str, str]
) -> SparkLauncher | ProcessLauncher:
    """A launcher, not started yet. `master`: of Spark; None = all cores of this host. Raises UsageError."""
    from spark_loadgen import ProcessLauncher, SparkLauncher

    if kind is LauncherKind.SPARK:
        return SparkLauncher(master=master or _DEFAULT_MASTER, spark_conf=spark_conf)
    if master is not None or spark_conf:
        given = "--master" if master is not None else "--spark-conf"
        raise UsageError(f"{given} is a setting of Spark and --launcher process uses none: leave one of them out")
    return ProcessLauncher()
