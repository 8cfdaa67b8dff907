"""Drill every sink of the pipeline on our broker and on Apache Kafka, and each safeguard by its absence.

    python -m tests.drills.pipeline --rounds 200 --out results/pipeline-drill

The queries of all sinks are in one driver: what kills it is a round of each. Systems take turns, `--turn` rounds at a
time, so that a drill that is stopped has drilled all of them alike; the same `--out` goes on. Executors die in rounds
of their own. Then each safeguard is taken away, and has to be found out within 20 rounds. Each drill leaves its rounds
and its verdict below `--out`. The exit status is 1 if a drill found a fault, or a control found none, and 4 if nothing
is wrong and something is not proven.
`--quick` runs one round of each sink.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pydantic import TypeAdapter

from highwater.bench.systems import SystemProcess, start_system
from highwater.bench.workload.system import SystemUnderTest
from highwater.common.exit_codes import EXIT_INVALID, EXIT_OK, EXIT_REGRESSION
from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.command import output_of
from highwater.pipeline.drill.drill import Asked, drill
from highwater.pipeline.drill.errors import DrillError
from highwater.pipeline.drill.kinds import FENCING, FIRST_OFFSETS, KINDS, MARIADB, MARKER, POSTGRESQL, ROW_LOCK
from highwater.pipeline.drill.model import Moment, Victim
from highwater.pipeline.drill.servers import Server
from tests.database_servers import running_mariadb, running_postgresql
from tests.waiting import wait_until

OURS: Final = "highwater"
SYSTEMS: Final = (OURS, "3.9", "4")
SINKS: Final = tuple(kind for kind in KINDS if kind != "file")
CONTROL_ROUNDS: Final = 20
# Where a missing safeguard shows, so that twenty rounds are enough; the drill itself comes to all moments.
_SHOWS_AT: Final[dict[str, tuple[tuple[Moment, ...], tuple[Victim, ...]]]] = {
    MARKER: ((CrashPoint.SINK_COMMITTED,), (Victim.DRIVER, Victim.JVM)),
    ROW_LOCK: ((CrashPoint.SINK_BEGINS,), (Victim.SUCCESSOR,)),
    FENCING: ((CrashPoint.SINK_BEGINS, CrashPoint.SINK_WRITTEN), (Victim.SUCCESSOR,)),
    FIRST_OFFSETS: ((CrashPoint.SOURCE_FIRST_OFFSETS,), (Victim.DRIVER,)),
}
_WITH_EXECUTORS: Final = "local-cluster[2,4,1024]"
"""A task that waits keeps one of the threads."""
_DATABASES: Final = {POSTGRESQL: running_postgresql, MARIADB: running_mariadb}
_START_S: Final = 300.0
"""A broker of Kafka takes more than two minutes on a host with a load of 28."""


class KafkaBroker:
    """A broker of Apache Kafka as a server that a drill kills."""

    def __init__(self, process: SystemProcess) -> None:
        self._process = process

    def kill(self) -> None:
        self._process.take_down(signal.SIGKILL)
        wait_until(self._process.reap, "the end of the broker")

    def start(self) -> None:
        self._process.start_again()
        wait_until(self._process.serves, "a broker that serves again", _START_S)


@contextmanager
def running_system(system: str, folder: Path) -> Iterator[tuple[dict[str, str], dict[Victim, Server]]]:
    """Client properties and the broker as a victim; nothing for ours, which a drill starts by itself."""
    if system == OURS:
        yield {}, {}
        return
    data, log = folder / "data", folder / "log"
    data.mkdir(parents=True)
    log.mkdir()
    wanted = TypeAdapter[SystemUnderTest](SystemUnderTest).validate_python({"kind": "apache-kafka", "version": system})
    with start_system(wanted, [data], log, lambda: None) as running:
        (node,) = running.nodes
        yield {"bootstrap.servers": running.bootstrap_servers}, {Victim.BROKER: KafkaBroker(node)}


@contextmanager
def running_database(sink: str, folder: Path) -> Iterator[tuple[str, dict[Victim, Server]]]:
    """The URL, and the server as a victim."""
    if sink not in _DATABASES:
        yield "", {}
        return
    folder.mkdir(parents=True)
    with _DATABASES[sink](folder) as server:
        yield server.url, {Victim.DATABASE: server}


def asked_of(
    sinks: Sequence[str], system: str, rounds: int, seed: int, outs: Sequence[Path], scratch: Path, stack: ExitStack
) -> list[Asked]:
    """With the servers that they need, for as long as the stack is open."""
    properties, brokers = stack.enter_context(running_system(system, scratch / "kafka"))
    asked = []
    for sink, out in zip(sinks, outs, strict=True):
        url, databases = stack.enter_context(running_database(sink, scratch / sink))
        asked.append(
            Asked(
                kind=sink,
                rounds=rounds,
                seed=seed,
                out=out,
                make_output=output_of(sink, sink, url),
                properties=properties,
                source={f"kafka.{name}": value for name, value in properties.items()},
                servers={**brokers, **databases},
                system=system,
            )
        )
    return asked


def run(asked: Sequence[Asked]) -> dict[str, int]:
    """The exit status of each; none if the drill itself failed."""
    name = " and ".join(filter(None, (asked[0].system, asked[0].without and f"without {asked[0].without}")))
    started_s = time.monotonic()
    try:
        found = drill(asked, lambda line: print(f"{name}: {line}", flush=True))
    except (DrillError, TimeoutError) as error:
        print(f"{name}: the drill itself failed: {error}", flush=True)
        return {}
    print(f"{name}: {time.monotonic() - started_s:.0f} s", flush=True)
    for each, (verdict, _) in zip(asked, found, strict=True):
        print(f"{name}: {each.kind}: {verdict.sentence}", flush=True)
    return {each.kind: verdict.exit_status for each, (verdict, _) in zip(asked, found, strict=True)}


def control(sink: str, safeguard: str, seed: int, out: Path) -> bool:
    """Whether the drill finds out that the sink lacks the safeguard."""
    with in_scratch(out) as scratch, ExitStack() as stack:
        (asked,) = asked_of([sink], OURS, CONTROL_ROUNDS, seed, [out], scratch, stack)
        moments, victims = _SHOWS_AT[safeguard]
        careless = replace(asked, without=safeguard, moments=moments, victims=victims)
        return run([careless]).get(sink) == EXIT_REGRESSION


def quick(seed: int) -> list[str]:
    """One round of each sink that dies after the commit; returns what is broken."""
    with TemporaryDirectory(prefix="pipeline-drill-") as folder:
        out = Path(folder)
        with in_scratch(out) as scratch, ExitStack() as stack:
            asked = asked_of(SINKS, OURS, 1, seed, [out / sink for sink in SINKS], scratch, stack)
            moments, victims = _SHOWS_AT[MARKER]
            found = run([replace(each, moments=moments, victims=victims) for each in asked])
    return [sink for sink in SINKS if found.get(sink) != EXIT_OK]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pipeline", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200, help="for each sink on each system")
    parser.add_argument("--turn", type=int, default=20, help="rounds after which another system has its turn")
    parser.add_argument("--sinks", nargs="+", choices=SINKS, default=SINKS)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--executor-rounds", type=int, default=20, help="for each sink, on our broker")
    parser.add_argument("--no-controls", action="store_true", help="leave out the drills without a safeguard")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/pipeline-drill"))
    parser.add_argument("--quick", action="store_true", help="one round of each sink on our broker")
    options = parser.parse_args(arguments)
    if options.quick:
        return conclude(quick(options.seed), ())
    broken: list[str] = []
    unproven: set[str] = set()

    def note(found: Mapping[str, int], where: str) -> None:
        """What the last turn says is the verdict, unless there was a fault; a drill that failed itself is one."""
        for sink in options.sinks:
            status, drilled = found.get(sink, EXIT_REGRESSION), f"{sink} {where}"
            if status == EXIT_REGRESSION:
                broken.append(drilled)
            (unproven.add if status == EXIT_INVALID else unproven.discard)(drilled)

    for rounds in [*range(options.turn, options.rounds, options.turn), options.rounds]:
        for system in options.systems:
            outs = [options.out / system / sink for sink in options.sinks]
            with in_scratch(options.out) as scratch, ExitStack() as stack:
                asked = asked_of(options.sinks, system, rounds, options.seed, outs, scratch, stack)
                note(run(asked), f"on {system}")
    if options.executor_rounds:
        outs = [options.out / OURS / f"{sink}-executors" for sink in options.sinks]
        with in_scratch(options.out) as scratch, ExitStack() as stack:
            asked = asked_of(options.sinks, OURS, options.executor_rounds, options.seed, outs, scratch, stack)
            with_executors = [replace(each, master=_WITH_EXECUTORS, victims=(Victim.EXECUTOR,)) for each in asked]
            note(run(with_executors), "with executors")
    for sink in () if options.no_controls else options.sinks:
        for safeguard in KINDS[sink].safeguards:
            out = options.out / "without" / f"{sink}-{safeguard}"
            if not control(sink, safeguard, options.seed, out):
                broken.append(f"{sink} without {safeguard}: nothing was found")
    return conclude(broken, sorted(unproven))


def conclude(broken: Sequence[str], unproven: Sequence[str]) -> int:
    if broken:
        print(f"BROKEN: {', '.join(broken)}")
        return 1
    print("all sinks kept their promise, and each control that was asked for was found out")
    if unproven:
        print(f"not proven yet: {', '.join(unproven)}")
        return EXIT_INVALID
    return EXIT_OK


@contextmanager
def in_scratch(out: Path) -> Iterator[Path]:
    """A folder for servers, removed with its content."""
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="servers-", dir=out.resolve(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
