"""Which launcher a run was asked to use: Spark, or plain processes of this host. Imports are late, for --help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from highwater.common.errors import UsageError
from highwater.common.secret_names import has_secret_word

if TYPE_CHECKING:
    from highwater.bench.trials.plan import Plan
    from highwater.bench.trials.trial import Launcher
    from highwater.spark_loadgen.launcher import SparkLauncher
    from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
    from highwater.spark_loadgen.process_launcher import ProcessLauncher

_DEFAULT_MASTER: Final = "local[*]"
_HIDDEN: Final = "(secret)"
_OPTION: Final = "--spark-conf"


class LauncherKind(StrEnum):
    """What starts the tasks of a load."""

    SPARK = "spark"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class LauncherChoice:
    """What starts the load tasks. `master` (None: all cores of this host) and `spark_conf` are for Spark."""

    kind: LauncherKind = LauncherKind.SPARK
    master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)

    def check(self, plan: Plan) -> None:
        """Check, without a start, that the load of this plan can start. Raises UsageError and LoadSetupError."""
        if plan.lanes > 1 and self.kind is not LauncherKind.PROCESS:
            raise UsageError(
                "trials.at_once: Spark's executors cannot be bound to one processor; use --launcher process"
            )
        launcher = make_launcher(self.kind, self.master, self.spark_conf)
        if plan.tasks:
            launcher.check()
            check_slots(plan, launcher.slots_by_master, launcher.master)

    def open(self, plan: Plan) -> AbstractContextManager[Launcher]:
        """Start the launcher; leaving the context ends it. Raises UsageError and LoadSetupError."""
        if not plan.tasks:
            return NoLauncher()
        return make_launcher(self.kind, self.master, self.spark_conf)

    @property
    def is_on_this_host(self) -> bool:
        return self.kind is LauncherKind.PROCESS or (self.master or _DEFAULT_MASTER).startswith("local")


def check_slots(plan: Plan, slots: int | None, master: str) -> None:
    """Check that the load fits: a barrier stage with too few slots would wait for ever. Raises UsageError.

    slots: how many tasks `master` runs at once; None: not known yet.
    """
    if slots is not None and plan.tasks > slots:
        raise UsageError(
            f"the workload needs {plan.tasks} load tasks at once and {master} has slots for {slots}; "
            f"use --launcher process, --master 'local[{plan.tasks}]' or a larger cluster, or lower producers.count and "
            "consumers.per_group"
        )


def make_launcher(
    kind: LauncherKind, master: str | None, spark_conf: Mapping[str, str]
) -> SparkLauncher | ProcessLauncher:
    """A launcher that is not started yet. master: for Spark; None = all cores of this host. Raises UsageError."""
    from highwater.spark_loadgen.launcher import SparkLauncher
    from highwater.spark_loadgen.process_launcher import ProcessLauncher

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


def told_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a launcher for results, with secrets hidden."""
    return {name: _HIDDEN if has_secret_word(f"{name}={value}") else value for name, value in settings.items()}


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
