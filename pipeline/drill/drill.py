"""A whole drill: what was asked becomes a setting, rounds are run, and results say what they prove."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from highwater.common.errors import MissingDependencyError
from highwater.common.spark_java import Java, find_spark_java
from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.class_archive import jvm_options
from highwater.pipeline.drill.cluster import Cluster
from highwater.pipeline.drill.conductor import PARTITIONS, Conductor, Setting
from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.kinds import KINDS, Kind
from highwater.pipeline.drill.model import Launch, Moment, RoundResult, Victim
from highwater.pipeline.drill.names import NAME
from highwater.pipeline.drill.outputs import Output
from highwater.pipeline.drill.plan import plan_rounds
from highwater.pipeline.drill.preload import FOLDER as PRELOAD
from highwater.pipeline.drill.results import Results
from highwater.pipeline.drill.servers import OurBroker, Server
from highwater.pipeline.drill.verdict import Verdict, judge

_TIMES_MIN: Final = 10
_ROUNDS_FOR_TIMES_MIN: Final = 200
_ROUNDS_TRIED: Final = 1.5
"""For each round that was asked: some moments do not come."""
_ON_THIS_HOST: Final = ("local[2]", "local[2,4]")
"""A batch fails with its first task, or its tasks are tried again."""
_SPARES_THE_DRIVER: Final = {Victim.WORKER, Victim.EXECUTOR, Victim.BROKER, Victim.DATABASE}
_SETTINGS: Final = {
    "spark.driver.memory": "768m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # What costs CPU time in short lives, and proves nothing.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.pollingDelay": "100ms",
    # Executors are killed again and again.
    "spark.deploy.maxExecutorRetries": "-1",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command. properties: of librdkafka, for a cluster of the user; empty for our own broker."""

    kind: str
    rounds: int
    seed: int
    out: Path
    make_output: Callable[[str, Path, Cluster], Output]
    """Takes a name for what it makes, a folder for what it keeps in files, and the cluster."""
    properties: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    """Of `format("highwater")`: how the user's cluster is reached."""
    servers: Mapping[Victim, Server] = field(default_factory=dict)
    system: str = ""
    """A name for the user's cluster in the results; its addresses if there is none."""
    transform: str = ""
    moments: tuple[Moment, ...] = ()
    victims: tuple[Victim, ...] = ()
    master: str = ""
    without: str = ""
    keeps: bool = False

    @property
    def of_results(self) -> dict[str, str]:
        """What has to be the same when a drill goes on."""
        return {
            "sink": self.kind,
            "cluster": self.system or self.properties.get("bootstrap.servers", "a broker of the drill"),
            "query": self.transform,
            "master": self.master or " and ".join(_ON_THIS_HOST),
            "without": self.without,
        }


def drill(asked: Asked, tell: Callable[[str], None]) -> tuple[Verdict, list[RoundResult]]:
    """Run the rounds that are left; returns all. Raises DrillSetupError for what cannot work, and DrillError."""
    kind = KINDS[asked.kind]
    moments = asked.moments or (*kind.points, None)
    results = Results(asked.out, asked.of_results)
    # A drill that is asked to end takes its processes with it.
    signal.signal(signal.SIGTERM, _interrupt)
    scratch = Path(tempfile.mkdtemp(prefix=f"{NAME}-"))
    try:
        _run(asked, kind, moments, results, scratch, tell)
    finally:
        keeps = asked.keeps or _is_violated(results.rounds)
        with suppress(OSError):
            shutil.copytree(scratch / "drivers", asked.out / "drivers", dirs_exist_ok=True)
        if keeps:
            tell(f"checkpoints and logs are in {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    times_min = min(_TIMES_MIN, max(1, asked.rounds * _TIMES_MIN // _ROUNDS_FOR_TIMES_MIN))
    verdict = judge(results.rounds, moments, times_min=times_min, skips=CrashPoint.SINK_SKIPPED in kind.points)
    results.conclude(verdict)
    return verdict, results.rounds


def _run(
    asked: Asked, kind: Kind, moments: Sequence[Moment], results: Results, scratch: Path, tell: Callable[[str], None]
) -> None:
    left = asked.rounds - sum(1 for each in results.rounds if each.reached)
    if left <= 0 or _is_violated(results.rounds):
        return
    rng = random.Random(f"{asked.seed}-{len(results.rounds)}")
    name = f"{NAME}-{asked.kind}-{rng.randrange(16**8):08x}"
    servers = dict(asked.servers)
    properties, source = dict(asked.properties), dict(asked.source)
    broker = None
    if not properties:
        broker = OurBroker(scratch)
        broker.start()
        servers.setdefault(Victim.BROKER, broker)
        properties = {"bootstrap.servers": broker.address}
        source = {"kafka.bootstrap.servers": broker.address}
    try:
        victims = _victims(asked, kind, servers)
        cluster = Cluster(properties)
        cluster.create_topic(name, PARTITIONS)
        output = None
        conductor = None
        try:
            java = _java(scratch)
            output = asked.make_output(name, scratch, cluster)
            setting = Setting(
                name=name,
                folder=scratch,
                cluster=cluster,
                source={**source, "subscribe": name},
                output=output,
                needs_standby=not _SPARES_THE_DRIVER.issuperset(victims),
                launches=_launches(asked, java, scratch, tell),
                environment=_environment(asked, java),
                servers=servers,
                whole_batches=kind.whole_batches,
                without=asked.without,
            )
            conductor = Conductor(setting, rng, tell)
            done = len(results.rounds)
            # The same plan again, from where it was left.
            order = random.Random(f"{asked.seed} {asked.kind}")
            plans = plan_rounds(moments, victims, done + int(left * _ROUNDS_TRIED) + 2, order)[done:]
            plans[0] = replace(plans[0], begins_query=True)
            for plan in plans:
                result = conductor.round(len(results.rounds) + 1, plan, is_last=left == 1)
                results.add(result)
                tell(line(result))
                left -= result.reached
                if not left or _is_violated([result]):
                    break
        finally:
            if conductor is not None:
                conductor.close()
            if output is not None and not asked.keeps:
                output.remove()
            if not asked.keeps:
                cluster.remove([name], [])
                cluster.remove_groups(name)
    finally:
        if broker is not None:
            broker.kill()


def _victims(asked: Asked, kind: Kind, servers: Mapping[Victim, Server]) -> list[Victim]:
    """Raises DrillSetupError for a victim that this drill cannot kill."""
    cannot = {
        Victim.BROKER: "" if Victim.BROKER in servers else "give --kill-broker COMMAND",
        Victim.DATABASE: ""
        if kind.has_server and Victim.DATABASE in servers
        else "give --kill-database COMMAND"
        if kind.has_server
        else "this sink has no database server",
        Victim.CHECKPOINT: "" if kind.resumes else "this sink does not say where a new query goes on",
        # Those of other masters are processes of other daemons, and often of other hosts.
        Victim.EXECUTOR: "" if asked.master.startswith("local-cluster[") else "give --master local-cluster[2,1,1024]",
    }
    for victim in asked.victims:
        if reason := cannot.get(victim):
            raise DrillSetupError(f"the victim {victim.value} cannot be killed: {reason}")
    return list(asked.victims) or [victim for victim in Victim if not cannot.get(victim)]


def _launches(asked: Asked, java: Java, scratch: Path, tell: Callable[[str], None]) -> list[Launch]:
    local = scratch / "spark"
    local.mkdir()
    settings = {**_SETTINGS, "spark.local.dir": str(local), "spark.sql.warehouse.dir": str(local / "warehouse")}
    settings["spark.driver.extraJavaOptions"] = jvm_options(java, settings, tell)
    return [Launch(master, settings, asked.transform) for master in ([asked.master] if asked.master else _ON_THIS_HOST)]


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _java(scratch: Path) -> Java:
    try:
        return find_spark_java(os.environ, scratch)
    except MissingDependencyError as error:
        raise DrillSetupError(str(error)) from None


def _environment(asked: Asked, java: Java) -> dict[str, str]:
    """Of drivers."""
    found = {"JAVA_HOME": str(java.home)}
    if asked.master and not asked.master.startswith("local"):
        return {**found, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    path = os.pathsep.join(filter(None, (PRELOAD, os.environ.get("PYTHONPATH"))))
    return {**found, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": path}


def _is_violated(results: Sequence[RoundResult]) -> bool:
    return any(each.lost or each.twice or each.partial_batches for each in results)


def line(result: RoundResult) -> str:
    came = "" if result.reached else ", which does not count"
    return (
        f"round {result.number}: {result.victim} at {result.moment}{came}; {result.lost} lost, {result.twice} twice, "
        f"{result.replays_skipped} replays skipped, {result.restarts} starts, {result.duration_s:g} s"
    )
