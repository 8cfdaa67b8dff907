"""Drill the consumer that needs no Spark: members of a group die at named places, each record is counted.

    python -m tests.drills.consumer --rounds 200 --out results/consumer-drill

A group of two members reads a topic into a database. In each round one of them stops at a crash point; then it is
killed, or frozen until the other has its partitions, or the broker or the database is killed. The same `--out` goes on.
The exit status is 1 if records were lost, are there twice, or a reader saw a part of a transaction.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Message

from highwater.common.exit_codes import EXIT_REGRESSION
from highwater.pipeline.consumer import Consumer
from highwater.pipeline.crash_points import DIRECTORY_VARIABLE, CrashPoint, reach
from highwater.pipeline.database.address import read_address
from highwater.pipeline.database.dialects import dialect_of
from highwater.pipeline.drill.cluster import DrillCluster
from highwater.pipeline.drill.drill import line
from highwater.pipeline.drill.kinds import MARIADB, POSTGRESQL, SQLITE
from highwater.pipeline.drill.ledger import Ledger, Row, partial_batches, sizes_of_batches
from highwater.pipeline.drill.model import Moment, RoundResult, moment_name
from highwater.pipeline.drill.results import Results
from highwater.pipeline.drill.servers import OurBroker, Server
from highwater.pipeline.drill.stops import Stops
from highwater.pipeline.drill.table_output import TableOutput
from highwater.pipeline.drill.verdict import judge
from highwater.pipeline.errors import PipelineError
from tests.drills.pipeline import OURS, SYSTEMS, in_scratch, running_database, running_system

KILLED: Final = "member"
FROZEN: Final = "frozen member"
BROKER: Final = "broker"
DATABASE: Final = "database"
DATABASES: Final = (SQLITE, POSTGRESQL, MARIADB)
MOMENTS: Final[tuple[Moment, ...]] = (
    CrashPoint.SINK_BEGINS,
    CrashPoint.SINK_BEGUN,
    CrashPoint.SINK_WRITING,
    CrashPoint.SINK_WRITTEN,
    CrashPoint.SINK_BEFORE_COMMIT,
    CrashPoint.SINK_COMMITTED,
    None,
)
RECORDS: Final = 120
PARTITIONS: Final = 4
MEMBERS: Final = 2
TIMES_MIN: Final = 10
_SESSION_MS: Final = 1000
_BROKER_PROPERTIES: Final = (f"group.min.session.timeout.ms={_SESSION_MS}",)
_REACH_S: Final = 30.0
_STILL_S: Final = 60.0
_FROZEN_S: Final = 2.5
_RANDOM_WITHIN_S: Final = 1.0
_POLL_S: Final = 0.02


def member(bootstrap: str, topic: str, url: str, table: str, stops: str, careless: bool) -> None:
    """A process of the group, until it is killed. careless: rows are committed ahead of the offsets."""
    os.environ[DIRECTORY_VARIABLE] = stops
    mark = dialect_of(read_address(url)).mark
    transactions = count()

    def write(cursor: Any, records: Sequence[Message]) -> None:
        name = f"{os.getpid()}-{next(transactions)}"
        rows = [((each.key() or b"").decode(), name) for each in records]
        insert = f"insert into {table} values ({mark}, {mark})"
        half = (len(rows) + 1) // 2
        cursor.executemany(insert, rows[:half])
        reach(CrashPoint.SINK_WRITING)
        if rows[half:]:
            cursor.executemany(insert, rows[half:])
        if careless:
            cursor.connection.commit()

    settings = {
        "bootstrap.servers": bootstrap,
        "session.timeout.ms": _SESSION_MS,
        "heartbeat.interval.ms": 200,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    while True:
        with suppress(PipelineError), Consumer(settings, [topic], url, name=topic, records_max=50) as consumer:
            while True:
                with suppress(PipelineError):
                    consumer.once(write, wait_s=0.1)
        time.sleep(0.1)


class Group:
    """The members, and all that a round needs of them."""

    def __init__(self, arguments: tuple[str | bool, ...]) -> None:
        self._arguments = arguments
        # A process that has imported everything is forked for each member: a member costs next to nothing.
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(["tests.drills.consumer"])
        self.members: list[BaseProcess] = [self._start() for _ in range(MEMBERS)]

    def of(self, pid: int | None, rng: random.Random) -> BaseProcess:
        return next((each for each in self.members if each.pid == pid), None) or rng.choice(self.members)

    def replace(self, victim: BaseProcess) -> None:
        victim.kill()
        victim.join()
        self.members[self.members.index(victim)] = self._start()

    def close(self) -> None:
        for each in self.members:
            each.kill()
            each.join()

    def _start(self) -> BaseProcess:
        # Its name is not __main__, so that the server of forks has it imported already.
        from tests.drills import consumer

        process: BaseProcess = self._context.Process(target=consumer.member, args=self._arguments, daemon=True)
        process.start()
        return process


class Rounds:
    def __init__(
        self,
        name: str,
        cluster: DrillCluster,
        stops: Stops,
        output: TableOutput,
        group: Group,
        servers: dict[str, Server],
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._stops = stops
        self._output = output
        self._group = group
        self._servers = servers
        self._ledger = Ledger()

    def round(self, number: int, moment: Moment, victim: str, rng: random.Random) -> RoundResult:
        started_s = time.monotonic()
        keys = [f"{number}-{sequence}" for sequence in range(RECORDS)]
        if moment is not None:
            self._stops.arm(moment)
        self._produce(keys[: RECORDS // 2])
        waiting = None
        if moment is None:
            time.sleep(rng.uniform(0, _RANDOM_WITHIN_S))
        else:
            waiting = self._waiting(moment)
        views = [sizes_of_batches(self._rows())]
        self._strike(victim, self._group.of(waiting, rng), keys, rng)
        self._produce(keys)
        rows = self._through()
        account = self._ledger.account(rows)
        final = sizes_of_batches(rows)
        return RoundResult(
            number=number,
            moment=moment_name(moment),
            victim=victim,
            reached=moment is None or waiting is not None,
            replays_skipped=0,
            restarts=int(victim == KILLED),
            records=len(self._ledger.produced),
            lost=len(account.lost),
            twice=len(account.twice) + len(account.unknown),
            partial_batches=len({each for view in views for each in partial_batches(view, final)}),
            duration_s=round(time.monotonic() - started_s, 1),
        )

    def _strike(self, victim: str, struck: BaseProcess, keys: list[str], rng: random.Random) -> None:
        if victim == KILLED:
            self._group.replace(struck)
        elif victim == FROZEN:
            assert struck.pid is not None
            os.kill(struck.pid, signal.SIGSTOP)
            self._produce(keys)
            _until(lambda: not self._ledger.account(self._rows()).lost, _FROZEN_S)
            os.kill(struck.pid, signal.SIGCONT)
        else:
            server = self._servers[victim]
            server.kill()
            self._stops.release()
            time.sleep(rng.uniform(0, 0.3))
            server.start()
        self._stops.release()

    def _waiting(self, moment: CrashPoint) -> int | None:
        _until(lambda: self._stops.who_waits(moment) is not None, _REACH_S)
        return self._stops.who_waits(moment)

    def _produce(self, keys: Sequence[str]) -> None:
        fresh = [key for key in keys if key not in self._ledger.produced]
        if fresh:
            self._cluster.produce(self._name, PARTITIONS, fresh)
            self._ledger.produced.update(fresh)

    def _through(self) -> list[Row]:
        """The rows once nothing is missing, or no more come."""
        seen, deadline_s = -1, time.monotonic() + _STILL_S
        while True:
            rows = self._rows()
            if not self._ledger.account(rows).lost or time.monotonic() > deadline_s:
                return rows
            if len(rows) != seen:
                seen, deadline_s = len(rows), time.monotonic() + _STILL_S
            time.sleep(_POLL_S * 5)

    def _rows(self) -> list[Row]:
        return self._output.rows()


def plan(rounds: int, victims: Sequence[str], seed: int) -> list[tuple[Moment, str]]:
    """Each moment equally often, with its victims in turn, in random order."""
    rng = random.Random(seed)
    pairs = [(moment, victim) for moment in MOMENTS for victim in victims]
    order: list[tuple[Moment, str]] = []
    while len(order) < rounds:
        order += rng.sample(pairs, len(pairs))
    return order[:rounds]


def drill(kind: str, system: str, rounds: int, seed: int, out: Path, *, careless: bool = False) -> int:
    """Returns the exit status of the verdict."""
    without = "one transaction" if careless else ""
    results = Results(out, {"sink": f"consumer in {kind}", "cluster": system, "without": without})
    with in_scratch(out) as scratch, ExitStack() as stack:
        properties, brokers = stack.enter_context(running_system(system, scratch / "kafka"))
        url, databases = stack.enter_context(running_database(kind, scratch / "database"))
        servers: dict[str, Server] = {each.value: server for each, server in {**brokers, **databases}.items()}
        if not properties:
            broker = OurBroker(scratch, *_BROKER_PROPERTIES)
            broker.start()
            stack.callback(broker.kill)
            servers[BROKER] = broker
            properties = {"bootstrap.servers": broker.address}
        name = f"hw_drill_consumer_{len(results.rounds)}"
        cluster = DrillCluster(properties)
        cluster.create_topic(name, PARTITIONS)
        url = url or f"sqlite:{scratch / 'output.db'}"
        _create_table(url, name)
        output = TableOutput(kind, url, name)
        stops = Stops(scratch / "stops")
        group = Group((properties["bootstrap.servers"], name, url, name, str(scratch / "stops"), careless))
        stack.callback(group.close)
        run = Rounds(name, cluster, stops, output, group, servers)
        order = plan(rounds, [KILLED, FROZEN, *servers], seed)
        for moment, victim in order[len(results.rounds) :]:
            number = len(results.rounds) + 1
            result = run.round(number, moment, victim, random.Random(f"{seed} {number}"))
            results.add(result)
            print(f"consumer in {kind} on {system}: {line(result)}", flush=True)
            if result.lost or result.twice or result.partial_batches:
                break
    verdict = judge(results.rounds, MOMENTS, times_min=min(TIMES_MIN, rounds // len(MOMENTS)), skips=False)
    results.conclude(verdict)
    print(f"consumer in {kind} on {system}: {verdict.sentence}", flush=True)
    return verdict.exit_status


def _create_table(url: str, name: str) -> None:
    dialect = dialect_of(read_address(url))
    connection = dialect.connect()
    connection.cursor().execute(f"create table {name} ({dialect.quoted('key')} varchar(40), batch varchar(40))")
    connection.commit()
    connection.close()


def _until(holds: Callable[[], bool], within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s and not holds():
        time.sleep(_POLL_S)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="consumer", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200, help="for each database on each system")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[OURS])
    parser.add_argument("--careless", action="store_true", help="commit rows ahead of offsets: has to be found out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/consumer-drill"))
    options = parser.parse_args(arguments)
    # A drill that is asked to end takes its processes with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    statuses = [
        drill(kind, system, options.rounds, options.seed, options.out / system / kind, careless=options.careless)
        for system in options.systems
        for kind in options.databases
    ]
    return int(EXIT_REGRESSION in statuses)


if __name__ == "__main__":
    sys.exit(main())
