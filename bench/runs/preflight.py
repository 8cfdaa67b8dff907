"""What keeps a plan from running here, known without a start: for `bench plan` and `bench run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from highwater.bench.host.cluster_sampler import check_samplers
from highwater.bench.runs.launchers import LauncherChoice
from highwater.bench.storage import emulated_hdd
from highwater.bench.storage.areas import check_target
from highwater.bench.storage.targets import target_paths
from highwater.bench.systems import check_system
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.trials.given_calibration import check_host, host_facts
from highwater.bench.trials.host_profile import check_profile
from highwater.bench.trials.native_load import build_clients
from highwater.bench.trials.plan import Plan
from highwater.bench.trials.reachable_rate import rate_problems
from highwater.bench.workload.model import Workload
from highwater.bench.workload.system import ClusterUnderTest
from highwater.common.errors import NotComparableError, UsageError
from highwater.results.calibration import Calibration
from highwater.results.files import ResultDirectoryError
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.tuning.facts.model import Facts

T = TypeVar("T")
Refusal = UsageError | NotComparableError | LoadSetupError | ResultDirectoryError


@dataclass(slots=True)
class Preflight:
    """refusals: why the plan cannot run here, the first one first. warnings: why some of its trials may be in vain."""

    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self) -> None:
        """Raises the first refusal, if there is one."""
        if self.refusals:
            raise self.refusals[0]

    def ask(self, check: Callable[[], T]) -> T | None:
        """What `check` returns; None if it raises a refusal, which is kept."""
        try:
            return check()
        except (UsageError, NotComparableError, LoadSetupError, ResultDirectoryError) as error:
            self.refusals.append(error)
            return None


def preflight(
    plan: Plan,
    launcher: LauncherChoice,
    facts: Facts,
    *,
    keep_data: bool = False,
    calibration: Calibration | None = None,
    rates_known: bool = True,
) -> Preflight:
    """Check everything that can be known without a start: launcher, systems, storage, host, clusters, calibration.

    rates_known: the trials have the rates of the plan; False for a search, which chooses its rates as it goes.
    """
    found = Preflight()
    for check in _checks(plan, launcher, facts, keep_data):
        found.ask(check)
    if calibration is not None:
        found.ask(partial(_check_calibration, calibration, facts))
        if rates_known and launcher.is_on_this_host and not found.refusals:
            refused, found.warnings = rate_problems(plan, calibration)
            found.refusals += map(UsageError, refused)
    return found


def storage_targets(plan: Plan) -> dict[str, Path]:
    """The storage targets of the plan's systems, by name."""
    paths = target_paths(plan.specification.workload)
    workloads = [trial.cell.workload for trial in plan.trials]
    return {w.storage.target: paths[w.storage.target] for w in workloads if w.system.kind != "external"}


def _checks(plan: Plan, launcher: LauncherChoice, facts: Facts, keep_data: bool) -> Iterator[Callable[[], object]]:
    workloads = [cell.workload for cell in plan.cells]
    targets = storage_targets(plan)
    yield partial(launcher.check, plan)
    yield partial(build_clients, workloads)
    for wanted in {workload.system.model_dump_json(): workload.system for workload in workloads}.values():
        yield partial(check_system, wanted)
    for target, path in targets.items():
        yield partial(_check_storage, plan, target, path, facts, keep_data)
    for workload in workloads:
        yield partial(check_profile, workload.host, facts, _log_directories(workload, targets))
    external = {
        (system.external.bootstrap_servers, system.external.command_config): (workload, system)
        for workload in workloads
        if isinstance(system := workload.system, ClusterUnderTest)
    }
    for workload, system in external.values():
        yield partial(_check_cluster, plan, workload, system)


def _check_storage(plan: Plan, target: str, path: Path, facts: Facts, keep_data: bool) -> None:
    host = emulated_hdd.DiskHost(facts)
    emulated_hdd.require_ready(host, path)
    if plan.lanes > 1 and emulated_hdd.disk_at(host, path) is not None:
        raise UsageError(f"trials.at_once: each system would have all of the emulated disk at {path} to itself")
    check_target(target, path, plan.log_bytes(target, kept=keep_data))


def _log_directories(workload: Workload, targets: Mapping[str, Path]) -> tuple[str, ...]:
    return () if workload.system.kind == "external" else (str(targets[workload.storage.target]),)


def _check_cluster(plan: Plan, workload: Workload, system: ClusterUnderTest) -> None:
    login = plan.specification.command_config(workload)
    BrokerClient(system.external.bootstrap_servers, login).check_reachable()
    check_samplers(system.name, system.external)


def _check_calibration(calibration: Calibration, facts: Facts) -> None:
    check_host(calibration, host_facts(facts, {}))
