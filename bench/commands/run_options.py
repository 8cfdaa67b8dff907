"""The options that `bench run`, `plan` and `search` share, and what they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import (
    CalibrationFile,
    Launcher,
    Seed,
    SparkConf,
    SparkMaster,
    StorageOption,
    Trials,
    calibration_of,
    pairs_of,
    probes_of,
    specification_of,
)
from highwater.bench.commands.load_options import LoadOptions
from highwater.bench.commands.planning import Asked
from highwater.bench.runs.launchers import LauncherChoice, LauncherKind

if TYPE_CHECKING:
    from highwater.bench.workload.specification import Specification


@dataclass(frozen=True)
class WorkloadOptions:
    """A workload, where its results go, and what starts its load."""

    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Workload file (YAML, schema bench.workload/1), unless --rate gives a load."
        ),
    ] = None
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Result directory; new or empty.")] = None
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Continue the interrupted run in this directory.")
    ] = None
    launcher: Launcher = LauncherKind.SPARK
    master: SparkMaster = None
    spark_conf: SparkConf = None
    seed: Seed = None
    payload_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Send the lines of this text file.")] = None
    storage: StorageOption = None
    bootstrap_servers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,…", help="Measure this running cluster and start no broker.")
    ] = None
    command_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TLS and SASL properties of the cluster's clients, by librdkafka's names."),
    ] = None
    calibration: CalibrationFile = None

    def specification(
        self, load: LoadOptions, trials: int | None, objectives: dict[str, str] | None = None
    ) -> Specification:
        """The workload with these options applied. Raises UsageError."""
        return specification_of(
            self.file,
            trials,
            self.payload_file,
            self.storage,
            self.bootstrap_servers,
            self.command_config,
            objectives,
            load=load.given(),
            resume=self.resume,
        )

    def launcher_choice(self) -> LauncherChoice:
        """Raises UsageError."""
        return LauncherChoice(self.launcher, self.master, pairs_of(self.spark_conf, "--spark-conf"))


@dataclass(frozen=True)
class RunOptions(WorkloadOptions):
    """And of a run whose trials are known before."""

    trials: Trials = None
    retry_invalid: Annotated[
        bool,
        typer.Option(
            "--retry-invalid",
            help="With --resume: rerun invalid and failed trials; the originals are kept under replaced/.",
        ),
    ] = False
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep the broker's files, which needs more disk space, and say where.")
    ] = False
    probes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Results of fio on the hosts of external clusters.")
    ] = None

    def asked(self, load: LoadOptions) -> Asked:
        """Raises UsageError."""
        from highwater.bench.runs.resume import seed_of
        from highwater.bench.trials.plan import make_plan

        specification = self.specification(load, self.trials)
        return Asked(
            plan=make_plan(specification, self.seed if self.resume is None else seed_of(self.resume, self.seed)),
            launcher=self.launcher_choice(),
            out=self.out,
            resume=self.resume,
            retry_invalid=self.retry_invalid,
            keep_data=self.keep_data,
            calibration=calibration_of(self.calibration),
            probes=probes_of(self.probes, specification),
        )
