"""A whole drill: what was asked becomes queries and rounds, and results say what they prove."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from highwater.common.spark_java import Java, find_spark_java
from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.class_archive import jvm_options
from highwater.pipeline.drill.cluster import DrillCluster
from highwater.pipeline.drill.conductor import Conductor, Setting
from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.kinds import KINDS, Kind
from highwater.pipeline.drill.model import Launch, Moment, RoundResult, Victim
from highwater.pipeline.drill.names import NAME
from highwater.pipeline.drill.outputs import Output
from highwater.pipeline.drill.plan import Planner
from highwater.pipeline.drill.preload import FOLDER as PRELOAD
from highwater.pipeline.drill.results import Results
from highwater.pipeline.drill.servers import OurBroker, Server
from highwater.pipeline.drill.stops import Stops
from highwater.pipeline.drill.track import PARTITIONS, Track, TrackSetting
from highwater.pipeline.drill.verdict import Verdict, judge

_TIMES_MIN: Final = 10
_ROUNDS_FOR_TIMES_MIN: Final = 200
_ROUNDS_TRIED: Final = 1.5
"""The rounds to try for each that was requested: some moments do not come."""
_ON_THIS_HOST: Final = ("local[2]", "local[2,4]")
"""A batch fails with its first task, or its tasks are tried again. With several queries there are more threads."""
_SPARES_THE_DRIVER: Final = {Victim.WORKER, Victim.EXECUTOR, Victim.BROKER, Victim.DATABASE}
_STOPS: Final = "stops"
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
    """The options of the command, for one sink. properties: of librdkafka, for a user's cluster; empty for ours."""

    kind: str
    rounds: int
    seed: int
    out: Path
    make_output: Callable[[str, Path, DrillCluster], Output]
    """Takes a name for what it makes, a folder for what it keeps in files, and the cluster."""
    properties: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    """Options of `format("highwater")`: how the user's cluster is reached."""
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


def drill(asked: Sequence[Asked], tell: Callable[[str], None]) -> list[tuple[Verdict, list[RoundResult]]]:
    """Run the rounds that are left of each, all queries in one driver; returns all rounds.

    Those that are asked for together have the same cluster, moments and master. Raises DrillSetupError for what cannot
    work, and DrillError.
    """
    results = [Results(each.out, each.of_results) for each in asked]
    # A drill that is asked to end takes its processes with it.
    signal.signal(signal.SIGTERM, _interrupt)
    scratch = Path(tempfile.mkdtemp(prefix=f"{NAME}-"))
    try:
        left = [(each, of_it) for each, of_it in zip(asked, results, strict=True) if _left(each, of_it) > 0]
        if left and not any(_is_violated(of_it.rounds) for of_it in results):
            _run(left, scratch, tell)
    finally:
        with suppress(OSError):
            shutil.copytree(scratch / "drivers", asked[0].out / "drivers", dirs_exist_ok=True)
        if asked[0].keeps or any(_is_violated(of_it.rounds) for of_it in results):
            tell(f"checkpoints and logs are in {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    return [(_conclude(each, of_it), of_it.rounds) for each, of_it in zip(asked, results, strict=True)]


def _left(asked: Asked, results: Results) -> int:
    return asked.rounds - sum(1 for each in results.rounds if each.reached)


def _conclude(asked: Asked, results: Results) -> Verdict:
    times_min = min(_TIMES_MIN, max(1, asked.rounds * _TIMES_MIN // _ROUNDS_FOR_TIMES_MIN))
    skips = CrashPoint.SINK_SKIPPED in KINDS[asked.kind].points
    verdict = judge(results.rounds, _moments([asked]), times_min=times_min, skips=skips)
    results.conclude(verdict)
    return verdict


def _moments(asked: Sequence[Asked]) -> Sequence[Moment]:
    """Those that all sinks have."""
    common = [point for point in CrashPoint if all(point in KINDS[each.kind].points for each in asked)]
    return asked[0].moments or (*common, None)


def _run(left: Sequence[tuple[Asked, Results]], scratch: Path, tell: Callable[[str], None]) -> None:
    asked = [each for each, _ in left]
    first = asked[0]
    done = max(len(results.rounds) for _, results in left)
    kinds = " ".join(each.kind for each in asked)
    rng = random.Random(f"{first.seed}-{done}")
    properties, source = dict(first.properties), dict(first.source)
    ours: dict[Victim, Server] = {}
    if not properties:
        broker = OurBroker(scratch)
        broker.start()
        ours[Victim.BROKER] = broker
        properties = {"bootstrap.servers": broker.address}
        source = {"kafka.bootstrap.servers": broker.address}
    with ExitStack() as stack:
        for server in ours.values():
            stack.callback(server.kill)
        cluster = DrillCluster(properties)
        victims = [_victims(each, KINDS[each.kind], {**ours, **each.servers}) for each in asked]
        tracks = [
            stack.enter_context(_track(each, {**ours, **each.servers}, killed, cluster, source, scratch, rng, tell))
            for each, killed in zip(asked, victims, strict=True)
        ]
        java = find_spark_java(os.environ, scratch)
        killed = [victim for victim in Victim if any(victim in of_one for of_one in victims)]
        setting = Setting(
            folder=scratch,
            needs_standby=not _SPARES_THE_DRIVER.issuperset(killed),
            launches=_launches(asked, java, scratch, tell),
            environment=_environment(first, java),
            stops=scratch / _STOPS,
        )
        conductor = Conductor(setting, tracks, rng, tell)
        stack.callback(conductor.close)
        moments = _moments(asked)
        if (most := max(each.rounds for each in asked)) < len(moments):
            tell(f"{most} rounds cannot come to all {len(moments)} moments, so that this will be no proof")
        planner = Planner(
            moments,
            killed,
            [(of_one, results.rounds) for of_one, (_, results) in zip(victims, left, strict=True)],
            random.Random(f"{first.seed} {kinds} {done}"),
        )
        tried = int(max(_left(*each) for each in left) * _ROUNDS_TRIED) + 2
        for number in range(done + 1, done + 1 + tried):
            plan = planner.next_round()
            rounds = conductor.round(number, plan, is_last=all(_left(*each) <= 1 for each in left))
            for (one, results), result in zip(left, rounds, strict=True):
                results.add(result)
                tell(f"{one.kind}: {line(result)}" if len(left) > 1 else line(result))
            if all(_left(*each) <= 0 for each in left) or _is_violated(rounds):
                break


@contextmanager
def _track(
    asked: Asked,
    servers: Mapping[Victim, Server],
    victims: Sequence[Victim],
    cluster: DrillCluster,
    source: Mapping[str, str],
    scratch: Path,
    rng: random.Random,
    tell: Callable[[str], None],
) -> Iterator[Track]:
    """Make a track with its topics, groups and tables, and remove these at the end."""
    kind = KINDS[asked.kind]
    name = f"{NAME}-{asked.kind}-{rng.randrange(16**8):08x}"
    folder = scratch / name
    folder.mkdir()
    with ExitStack() as stack:
        if not asked.keeps:
            stack.callback(removed, tell, f"groups of {name}", lambda: cluster.remove_groups(name))
            stack.callback(removed, tell, f"topic {name}", lambda: cluster.remove([name], []))
        cluster.create_topic(name, PARTITIONS)
        output = asked.make_output(name, folder, cluster)
        if not asked.keeps:
            stack.callback(removed, tell, f"the output of {name}", output.remove)
        setting = TrackSetting(
            name=name,
            folder=folder,
            cluster=cluster,
            source={**source, "subscribe": name},
            output=output,
            victims=frozenset(victims),
            servers=servers,
            whole_batches=kind.whole_batches,
            without=asked.without,
        )
        yield Track(setting, Stops(scratch / _STOPS, name))


def removed(tell: Callable[[str], None], what: str, remove: Callable[[], None]) -> None:
    """Call `remove` at the end of a drill, and report its failure: that must not hide a fault that came before."""
    try:
        remove()
    except Exception as error:
        tell(f"left behind: {what}: {type(error).__name__} {error}".splitlines()[0])


def _victims(asked: Asked, kind: Kind, servers: Mapping[Victim, Server]) -> list[Victim]:
    """Raises DrillSetupError for a victim that this drill cannot kill."""
    cannot = {
        Victim.BROKER: "" if Victim.BROKER in servers else "give --kill-broker COMMAND",
        Victim.DATABASE: ""
        if kind.has_server and Victim.DATABASE in servers
        else "give --kill-database COMMAND"
        if kind.has_server
        else "this sink has no database server",
        Victim.CHECKPOINT: "" if kind.resumes else "this sink does not report where a new query continues",
        # Those of other masters are processes of other daemons, and often of other hosts.
        Victim.EXECUTOR: "" if asked.master.startswith("local-cluster[") else "give --master local-cluster[2,1,1024]",
    }
    for victim in asked.victims:
        if reason := cannot.get(victim):
            raise DrillSetupError(f"the victim {victim.value} cannot be killed: {reason}")
    return list(asked.victims) or [victim for victim in Victim if not cannot.get(victim)]


def _launches(asked: Sequence[Asked], java: Java, scratch: Path, tell: Callable[[str], None]) -> list[Launch]:
    local = scratch / "spark"
    local.mkdir()
    settings = {**_SETTINGS, "spark.local.dir": str(local), "spark.sql.warehouse.dir": str(local / "warehouse")}
    settings["spark.driver.extraJavaOptions"] = jvm_options(java, settings, tell)
    # A task that waits at its point keeps a thread: one for each query, and two for the work.
    threads = str(len(asked) + 2 if len(asked) > 1 else 2)
    masters = [asked[0].master] if asked[0].master else [each.replace("2", threads, 1) for each in _ON_THIS_HOST]
    return [Launch(master, settings, asked[0].transform) for master in masters]


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _environment(asked: Asked, java: Java) -> dict[str, str]:
    """The environment variables of drivers."""
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
