"""Kill a broker with SIGKILL at random moments under load, start it again, and see that it kept every promise.

    python -m tests.drills.kill9 --rounds 200

Each round lets the load run for a moment, kills the broker, kills some of the starts that follow as well, and checks
with stock clients. What is checked stands with each actor in `actors.py`. Every `ROUNDS_PER_LIFE` rounds the load is
brought to its end, everything is read once more from the beginning, and a new log directory is begun. After a broken
promise the log directory, the broker's log and the seed stay for inspection, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.broker.running import COMMAND, start_broker
from tests.drills.actors import Actor, Churner, Committer, Lost, Trimmer, client
from tests.drills.members import Members
from tests.drills.reading import DEADLINE_S, Place, Seen, read
from tests.drills.transactor import Transactor
from tests.drills.writers import KeyedWriter, Writer, value_of

ROUNDS_PER_LIFE: Final = 25
RETENTION_BYTES: Final = 300_000
# Everything that happens now and then happens all the time.
PROPERTIES: Final = (
    "log.segment.bytes=60000",
    "log.index.interval.bytes=500",
    "log.flush.offset.checkpoint.interval.ms=250",
    "log.retention.check.interval.ms=300",
    "log.segment.delete.delay.ms=200",
    "log.cleaner.backoff.ms=250",
    "log.cleaner.min.cleanable.ratio=0.05",
    "offsets.topic.num.partitions=4",
    "offsets.topic.segment.bytes=30000",
    "transaction.state.log.num.partitions=4",
    "transaction.state.log.segment.bytes=30000",
    "group.initial.rebalance.delay.ms=0",
    "auto.create.topics.enable=false",
)
TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "plain": (3, {}),
    "synced": (2, {"flush.messages": "1"}),
    "compacted": (2, {"cleanup.policy": "compact", "delete.retention.ms": "500", "segment.bytes": "20000"}),
    # Each has its own, for an undecided transaction of the other would hold up its reader.
    "ledger-0": (3, {}),
    "ledger-1": (3, {}),
    "short": (2, {"retention.bytes": str(RETENTION_BYTES), "segment.bytes": "40000"}),
}
GROWING: Final = ("plain", "synced", "short")
"""Those in which nothing is replaced, so that it is enough to read what came since the last time."""
CHURN: Final = "churn"


class Life:
    """One log directory with its load, from its first start to its last check."""

    def __init__(self, log_dir: Path, rng: random.Random, counts: Counter[str]) -> None:
        self._rng = rng
        self._counts = counts
        self._log_dir = log_dir
        self._broker = start_broker(log_dir, properties=PROPERTIES)
        self._port = self._broker.port
        self._address = self._broker.address
        self._read_up_to: dict[Place, int] = {}
        self._admin = AdminClient(client(self._address))
        topics = [NewTopic(name, count, 1, config=config) for name, (count, config) in TOPICS.items()]
        for future in self._admin.create_topics(topics).values():
            future.result(DEADLINE_S)

        def writer(topic: str, name: str, **options: Any) -> Writer:
            return Writer(name, self._address, topic, TOPICS[topic][0], **options)

        one_at_a_time = {"max_in_flight_requests_per_connection": 1, "enable_idempotence": False}
        self.writers = [
            writer("plain", "deaf", acks="0", **one_at_a_time),
            writer("plain", "repeating", acks="1", compression_type="gzip", **one_at_a_time),
            writer("plain", "idempotent-zstd", enable_idempotence=True, compression_type="zstd"),
            writer("plain", "idempotent-lz4", enable_idempotence=True, compression_type="lz4"),
            writer("synced", "synced", enable_idempotence=True, compression_type="snappy"),
            writer("short", "short", enable_idempotence=True),
        ]
        self._trimmer = Trimmer("trimmer", self._address, "short", TOPICS["short"][0])
        self.actors: list[Actor] = [
            *self.writers,
            self._trimmer,
            Members("members", self._address, self._admin, "synced", TOPICS["synced"][0]),
            KeyedWriter("keyed", self._address, "compacted", TOPICS["compacted"][0]),
            Committer("committer", self._address, self._admin, "plain", TOPICS["plain"][0]),
            Churner(CHURN, self._address, value_of),
            *(
                Transactor(topic, self._address, self._admin, topic, TOPICS[topic][0])
                for topic in ("ledger-0", "ledger-1")
            ),
        ]
        for actor in self.actors:
            actor.start()

    def round(self) -> None:
        time.sleep(self._rng.uniform(0.02, 0.8))
        self._kill()
        while self._rng.random() < 0.3:
            self._kill_a_start()
        self._start()
        for actor in self.actors:
            actor.pause()
        self._check()
        for actor in self.actors:
            actor.resume()

    def finish(self) -> None:
        """Let the load come to its end, and look at everything: as it is, after a last kill, and after a stop."""
        for actor in self.actors:
            actor.finish()
        self._check()
        before = self._contents()
        self._kill()
        self._start()
        self._compare(before, "a kill without load")
        if self._broker.stop() != 0:
            raise Lost("the last stop was not clean")
        self._start()
        self._compare(before, "a clean stop")

    def end(self) -> None:
        """Also after a failure: nobody goes on."""
        self._broker.kill()
        for actor in self.actors:
            actor.abandon()

    def _start(self) -> None:
        self._broker = start_broker(self._log_dir, port=self._port, properties=PROPERTIES)

    def _kill(self) -> None:
        self._broker.kill()
        self._counts["kills of a running broker"] += 1
        for actor in self.actors:
            actor.note_kill()

    def _kill_a_start(self) -> None:
        options = [argument for text in PROPERTIES for argument in ("--property", text)]
        command = [*COMMAND, "--log-dir", str(self._log_dir), "--port", str(self._port), *options]
        with self._broker.stderr_path.open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        try:
            time.sleep(self._rng.uniform(0.2, 0.8))
            if process.poll() is not None:
                raise Lost(f"the broker did not start: it ended with {process.returncode}")
        finally:
            process.kill()
            process.wait()
        self._counts["kills of a starting broker"] += 1
        for actor in self.actors:
            actor.note_kill()

    def _places(self) -> list[Place]:
        """All partitions, of the topics that come and go as well."""
        found = self._admin.list_topics(timeout=DEADLINE_S).topics
        return [(name, index) for name, topic in found.items() if name[0] != "_" for index in topic.partitions]

    def _check(self) -> None:
        places = [place for place in self._places() if not place[0].startswith("ledger")]
        seen = read(self._admin, self._address, places, self._read_up_to)
        for (topic, partition), found in seen.items():
            if topic in GROWING:
                self._check_offsets(topic, partition, found)
                self._read_up_to[topic, partition] = found.high
        for actor in self.actors:
            actor.check(seen)
        self._check_retention(seen)

    def _check_offsets(self, topic: str, partition: int, found: Seen) -> None:
        if found.high < self._read_up_to.get((topic, partition), 0):
            raise Lost(f"{topic}-{partition} ends at {found.high}, and ended later before the kill")
        offsets = [record.offset for record in found.records]
        # Records may have been deleted between the question where they begin and the reading.
        start = offsets[0] if offsets and topic == self._trimmer.topic else found.start
        if offsets != list(range(start, found.high)):
            raise Lost(f"{topic}-{partition} has gaps between {start} and {found.high}")
        self._counts["records read back"] += len(offsets)

    def _check_retention(self, seen: dict[Place, Seen]) -> None:
        topic = self._trimmer.topic
        for partition in range(TOPICS[topic][0]):
            if seen[topic, partition].low > self._trimmer.asked.get(partition, 0):
                size_bytes = sum(path.stat().st_size for path in self._log_dir.glob(f"{topic}-{partition}/*.log"))
                self._counts["looks at what retention left"] += 1
                if size_bytes < RETENTION_BYTES // 2:
                    raise Lost(f"{topic}-{partition} holds {size_bytes} bytes: retention took too much")

    def _contents(self) -> dict[Place, Seen]:
        return read(self._admin, self._address, [place for place in self._places() if place[0] in GROWING], {})

    def _compare(self, before: dict[Place, Seen], after_what: str) -> None:
        for (topic, partition), found in self._contents().items():
            expected = [r for r in before[topic, partition].records if r.offset >= found.low]
            if expected != found.records or (topic != self._trimmer.topic and found.low > 0):
                raise Lost(f"{topic}-{partition} is not what it was, after {after_what}")


def drill(rounds: int, seed: int, directory: Path, tell: Callable[[str], None]) -> Counter[str]:
    """Run the rounds; raises Lost, with the data left in `directory`, when a promise is broken."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    done = 0
    while done < rounds:
        log_dir = directory / f"life-{counts['lives']}"
        life = Life(log_dir, rng, counts)
        try:
            for _ in range(min(ROUNDS_PER_LIFE, rounds - done)):
                done += 1
                life.round()
                kept = sum(actor.verified for actor in life.actors)
                tell(f"round {done}: {kept} promises kept in this life")
            life.finish()
        except BaseException as error:
            error.add_note(f"in round {done} of seed {seed}; the data is in {directory}")
            raise
        finally:
            life.end()
        counts["lives"] += 1
        for actor in life.actors:
            counts[f"{type(actor).__name__}: acknowledged"] += actor.acknowledged
            counts[f"{type(actor).__name__}: promises checked"] += actor.verified
        counts["repeats of the one who only retries"] += sum(writer.repeats for writer in life.writers)
        shutil.rmtree(log_dir)
        life_log = log_dir.with_name(log_dir.name + ".log")
        for line in life_log.read_text(errors="replace").splitlines():
            if any(text in line for text in ("Traceback", "a bug in the broker")):
                raise Lost(f"{life_log}: {line}")
        life_log.unlink()
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="kill9", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--directory", type=Path, help="where the log directories go (default: a temporary one)")
    options = parser.parse_args(arguments)
    directory: Path = options.directory or Path(tempfile.mkdtemp(prefix="kill9-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}, {options.rounds} rounds, in {directory}", flush=True)
    started_s = time.monotonic()
    try:
        counts = drill(options.rounds, options.seed, directory, lambda line: print(line, flush=True))
    except Exception as error:
        traceback.print_exception(error)
        print(f"BROKEN in {time.monotonic() - started_s:.0f} s: {error!r}")
        return 1
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")
    print(f"all promises kept in {options.rounds} rounds ({time.monotonic() - started_s:.0f} s)")
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
