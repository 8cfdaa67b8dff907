"""Which launcher a run was asked to use: Spark, or plain processes of this host. Imports are late, for --help."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from highwater.bench.errors import UsageError

if TYPE_CHECKING:
    from highwater.spark_loadgen import LoadPlan, LoadResult, ProcessLauncher, Progress, SparkLauncher

_DEFAULT_MASTER: Final = "local[*]"
# Words that mark a secret in a name or value: those of Spark (spark.redaction.regex), and more.
_SECRET: Final = re.compile(r"secret|password|passwd|pwd|token|access[.]?key|credential|[.]key\b", re.IGNORECASE)
_HIDDEN: Final = "(secret)"
_OPTION: Final = "--spark-conf"


class LauncherKind(StrEnum):
    """What starts the tasks of a load."""

    SPARK = "spark"
    PROCESS = "process"


def make_launcher(
    kind: LauncherKind, master: str | None, spark_conf: Mapping[str, str]
) -> SparkLauncher | ProcessLauncher:
    """A launcher that is not started yet. master: for Spark; None = all cores of this host. Raises UsageError."""
    from highwater.spark_loadgen import ProcessLauncher, SparkLauncher

    if kind is LauncherKind.SPARK:
        return SparkLauncher(master=master or _DEFAULT_MASTER, spark_conf=spark_conf)
    if master is not None or spark_conf:
        given = "--master" if master is not None else "--spark-conf"
        raise UsageError(f"{given} is a setting of Spark and --launcher process uses none: leave one of them out")
    return ProcessLauncher()


class NoLauncher:
    """Stands for a launcher where native clients alone send: they are started by the trials themselves."""

    name = "native"
    master = "native clients"
    settings: Mapping[str, str] = {}
    slots = 0

    def __enter__(self) -> NoLauncher:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def versions(self) -> Mapping[str, str]:
        return {}

    def run(
        self,
        plan: LoadPlan,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        may_start: Callable[[], bool] | None = None,
    ) -> LoadResult:
        raise ValueError("a plan of native clients has no load tasks")


def looks_secret(setting: str) -> bool:
    """Whether the name or value of a setting looks like a secret."""
    return _SECRET.search(setting) is not None


def told_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a launcher for results, with secrets hidden."""
    return {name: _HIDDEN if looks_secret(f"{name}={value}") else value for name, value in settings.items()}


def told_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line for results, with secrets hidden."""
    told = []
    for before, argument in pairwise(["", *arguments]):
        option, equals, setting = argument.partition("=") if argument.startswith(f"{_OPTION}=") else ("", "", argument)
        name, has_value, value = setting.partition("=")
        if (option or before == _OPTION) and has_value:
            told.append(f"{option}{equals}{name}={told_settings({name: value})[name]}")
        else:
            told.append(argument)
    return told
