"""Drill every sink of the pipeline on our broker and on Apache Kafka, and each safeguard by its absence.

    python -m tests.drills.pipeline --rounds 200 --out results/pipeline-drill

Sinks and systems take turns, `--turn` rounds at a time, so that a drill that is stopped has drilled all of them alike;
the same `--out` goes on. Executors die in rounds of their own. Then each safeguard is taken away, and has to be found
out within 20 rounds. Each drill leaves its rounds and its verdict below `--out`. The exit status is 1 if a drill found
a fault, or a control found none.
`--quick` runs one round of each sink, and one control.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pydantic import TypeAdapter

from highwater.bench.systems import SystemProcess, start_system
from highwater.bench.workload.system import SystemUnderTest
from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.command import output_of
from highwater.pipeline.drill.drill import Asked, drill
from highwater.pipeline.drill.errors import DrillError
from highwater.pipeline.drill.kinds import FENCING, FIRST_OFFSETS, KINDS, MARIADB, MARKER, POSTGRESQL, ROW_LOCK
from highwater.pipeline.drill.model import Moment, Victim
from highwater.pipeline.drill.servers import Server
from highwater.pipeline.drill.verdict import PROVEN, VIOLATED
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
_WITH_EXECUTORS: Final = "local-cluster[2,1,1024]"
_DATABASES: Final = {POSTGRESQL: running_postgresql, MARIADB: running_mariadb}
_START_S: Final = 120.0


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


def asked_of(sink: str, system: str, rounds: int, seed: int, out: Path, scratch: Path, stack: ExitStack) -> Asked:
    properties, brokers = stack.enter_context(running_system(system, scratch / "kafka"))
    url, databases = stack.enter_context(running_database(sink, scratch / "database"))
    return Asked(
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


def run(asked: Asked) -> int:
    name = f"{asked.kind} on {asked.system}{f' without {asked.without}' if asked.without else ''}"
    started_s = time.monotonic()
    try:
        verdict, _ = drill(asked, lambda line: print(f"{name}: {line}", flush=True))
    except DrillError as error:
        print(f"{name}: the drill itself failed: {error}", flush=True)
        return -1
    print(f"{name}: {verdict.sentence} ({time.monotonic() - started_s:.0f} s)", flush=True)
    return verdict.exit_status


def quick(seed: int) -> list[str]:
    """One round of each sink that dies after the commit, and one control; returns what is broken."""
    broken = []
    with TemporaryDirectory(prefix="pipeline-drill-") as folder:
        for sink, without, expected in (*((sink, "", PROVEN) for sink in SINKS), (SINKS[0], MARKER, VIOLATED)):
            out = Path(folder) / f"{sink}{without}"
            with in_scratch(out) as scratch, ExitStack() as stack:
                asked = asked_of(sink, OURS, 1, seed, out, scratch, stack)
                moments, victims = _SHOWS_AT[MARKER]
                if run(replace(asked, without=without, moments=moments, victims=victims)) != expected:
                    broken.append(f"{sink}{f' without {without}' if without else ''}")
    return broken


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pipeline", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200, help="for each sink on each system")
    parser.add_argument("--turn", type=int, default=20, help="rounds after which another sink has its turn")
    parser.add_argument("--sinks", nargs="+", choices=SINKS, default=SINKS)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--executor-rounds", type=int, default=20, help="for each sink, on our broker")
    parser.add_argument("--no-controls", action="store_true", help="leave out the drills without a safeguard")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/pipeline-drill"))
    parser.add_argument("--quick", action="store_true", help="one round of each sink on our broker, and one control")
    options = parser.parse_args(arguments)
    if options.quick:
        return conclude(quick(options.seed))
    broken = []
    for rounds in [*range(options.turn, options.rounds, options.turn), options.rounds]:
        for system in options.systems:
            for sink in options.sinks:
                with in_scratch(options.out) as scratch, ExitStack() as stack:
                    out = options.out / system / sink
                    asked = asked_of(sink, system, rounds, options.seed, out, scratch, stack)
                    if run(asked) in (VIOLATED, -1):
                        broken.append(f"{sink} on {system}")
    for sink in options.sinks if options.executor_rounds else ():
        with in_scratch(options.out) as scratch, ExitStack() as stack:
            out = options.out / OURS / f"{sink}-executors"
            asked = asked_of(sink, OURS, options.executor_rounds, options.seed, out, scratch, stack)
            if run(replace(asked, master=_WITH_EXECUTORS, victims=(Victim.EXECUTOR,))) in (VIOLATED, -1):
                broken.append(f"{sink} with executors")
    for sink in () if options.no_controls else options.sinks:
        for safeguard in KINDS[sink].safeguards:
            with in_scratch(options.out) as scratch, ExitStack() as stack:
                out = options.out / "without" / f"{sink}-{safeguard}"
                asked = asked_of(sink, OURS, CONTROL_ROUNDS, options.seed, out, scratch, stack)
                moments, victims = _SHOWS_AT[safeguard]
                if run(replace(asked, without=safeguard, moments=moments, victims=victims)) != VIOLATED:
                    broken.append(f"{sink} without {safeguard}: nothing was found")
    return conclude(broken)


def conclude(broken: Sequence[str]) -> int:
    print(f"BROKEN: {', '.join(broken)}" if broken else "all sinks kept their promise, and each control was found out")
    return 1 if broken else 0


@contextmanager
def in_scratch(out: Path) -> Iterator[Path]:
    """A folder for servers, removed with its content."""
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="servers-", dir=out.resolve(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
