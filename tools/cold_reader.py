"""What a consumer of records outside the page cache reads a second, and what producers beside it wait.

    python -m tools.cold_reader --folder DISK [--gib 1.5] [--rounds 5] [--before CHECKOUT]
        [--group FOLDER] [--reader-nice 19]

Each version, this one and that of the checkout `--before`, runs a broker with a topic of one partition. Both take turns
in each round:

- dd reads the files of the topic, which are not in the page cache, 16 MiB at a time: as far as the broker reads ahead.
- A consumer, confluent-kafka, reads the same and looks at each record. Meanwhile the state of the broker's main thread,
  its event loop, is sampled: D (proc(5)) is a wait for the disk, whatever else the machine does. The broker's processor
  time for each GiB is taken, and once more where the same is in the page cache.
- A producer in a process of its own sends 1 KiB at a steady rate with acks=1: without a reader, beside that consumer on
  a cold topic, and beside it on a topic in the page cache, which shows what reading costs without a disk. Its times are
  from the intended time of each request to its answer. The topic leaves the page cache before the producer begins, and
  must be large enough for all its time: to evict half a GiB stops everybody for 25 ms and more in a virtual machine
  whose host takes free memory back.
- A loop fetches from the page cache, 1 MiB and 16 KiB at a time, and the broker's processor time is taken.
- This program copies what the kernel has just read, twice. A first copy that takes much longer tells of a virtual
  machine whose host takes free memory back (free page reporting): then every reader of a disk pays for that.

A disk that is faster than the consumer proves little. `--group` names a control group, made before, with a limit of
what is read from the disk, for example of version 1:

    mkdir /sys/fs/cgroup/blkio/slow && echo "$(cat /sys/block/vda/dev) 200000000" \
        > /sys/fs/cgroup/blkio/slow/blkio.throttle.read_bps_device

The brokers and dd run in it. On a host with few processors the consumer itself takes them from the producer and the
broker: `--reader-nice 19` lets it have what they leave. Exit status 1: an aim is not reached.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode
from rich.console import Console
from rich.table import Table

from highwater.bench.storage.page_cache import evict, warm
from highwater.bench.systems.highwater import is_checkout
from highwater.broker.log.files import FilePiece, RealFiles
from highwater.broker.log.read_ahead import MAX_BYTES
from highwater.common.errors import TrialError, UsageError
from highwater.common.units import plural, ratio_text, significant
from highwater.kafka.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    decode_consumer_response,
    encode_consumer_request,
)
from highwater.kafka.protocol.primitives import Decoder
from highwater.kafka.records.batch import headers
from highwater.kafka.records.record import Record, encode_batch
from highwater.tuning.facts import collect
from tools.versions import in_turns, running

READ_AIM: Final = 0.9
WAIT_AIM: Final = 1.5
CPU_AIM_S_PER_GIB: Final = 0.9
_MIB: Final = 1 << 20
_VALUE_BYTES: Final = 1024
_BATCH_BYTES: Final = 16 * 1024
_SAMPLE_S: Final = 0.002
_COLD: Final = "cold"
_STEADY: Final = "steady"
_FETCH_VERSION: Final = 12
_DEADLINE_S: Final = 120.0
_THIS: Final = "this version"
RATES: Final = ("dd", "cold consumer")
CONSUMERS: Final = ("cold consumer", "hot consumer")
_READERS: Final = ("no reader", *CONSUMERS)
FETCHES: Final = {"1 MiB": (_MIB, 1_500), "16 KiB": (_BATCH_BYTES, 10_000)}
"""How much a loop fetches at a time from the page cache, and how often."""
_COPIED_BYTES: Final = 64 * _MIB
_TAKEN_BACK_S: Final = 3.0
"""After this time a host has taken back what was freed (page_reporting.c waits for 2 s)."""
COPIES: Final = ("first", "second")


class Waits(NamedTuple):
    """Of a producer, in ms."""

    p50: float
    p99: float
    most: float


class MeasuredReads:
    """Of one version, a figure for each round."""

    def __init__(self) -> None:
        self.mb_per_s: dict[str, list[float]] = {name: [] for name in RATES}
        self.waits: dict[str, list[Waits]] = {name: [] for name in _READERS}
        self.cpu_s_per_gib: dict[str, list[float]] = {name: [] for name in CONSUMERS}
        """The broker's processor time for what the consumer reads."""
        self.cpu_us: dict[str, list[float]] = {name: [] for name in FETCHES}
        """The broker's processor time for each fetch."""
        self.copies_us: dict[str, list[float]] = {name: [] for name in COPIES}
        """Processor time of a copy of 1 MiB that the kernel had just read from the disk."""
        self.disk_waits: list[float] = []
        """The part of the time in which the event loop waited for the disk, beside the cold consumer."""

    def rate(self, name: str) -> float:
        return statistics.median(self.mb_per_s[name])

    def of_dd(self, name: str) -> float:
        """The median of the ratios of the rounds."""
        pairs = zip(self.mb_per_s[name], self.mb_per_s["dd"], strict=True)
        return statistics.median(rate / dd for rate, dd in pairs)

    def wait(self, reader: str) -> Waits:
        return Waits(*(statistics.median(each) for each in zip(*self.waits[reader], strict=True)))

    def more_p99(self, reader: str) -> float:
        """The median of the ratios of the rounds: p99 beside a reader to p99 without."""
        pairs = zip(self.waits[reader], self.waits["no reader"], strict=True)
        return statistics.median(beside.p99 / alone.p99 for beside, alone in pairs)


class Served(NamedTuple):
    """A running broker with its topic."""

    port: int
    process_id: int
    files: list[Path]
    records: int

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, metavar="DISK", help="where the brokers keep their logs")
    parser.add_argument("--gib", type=float, default=1.5, help="the size of the topic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=500, help="requests of the producer per second")
    parser.add_argument("--seconds", type=float, default=4, help="how long the producer sends in each part")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another version of this repository")
    parser.add_argument("--reader-nice", type=int, default=0, metavar="N", help="added to the consumer's nice value")
    parser.add_argument("--group", type=Path, metavar="FOLDER", help="a control group for the brokers and dd")
    options = parser.parse_args()
    problem = _problem(options.folder, options.gib, options.rounds, options.before, options.group)
    if problem is not None:
        parser.error(problem)
    versions: dict[str, Path | None] = {_THIS: None}
    if options.before is not None:
        versions["before"] = options.before.resolve()
    try:
        measured = _measured(versions, options)
    except (TrialError, UsageError) as error:
        parser.error(str(error))
    raise SystemExit(_print(measured, options))


def _measured(versions: Mapping[str, Path | None], options: argparse.Namespace) -> dict[str, MeasuredReads]:
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        served: dict[str, Served] = {}
        for name, source in versions.items():
            broker = stack.enter_context(running(source, options.folder))
            if options.group is not None:
                (options.group / "cgroup.procs").write_text(str(broker.process_id))
            records = _write(broker.port, int(options.gib * (1 << 30)))
            files = sorted((broker.data / f"{_COLD}-0").glob("*.log"))
            served[name] = Served(broker.port, broker.process_id, files, records)
        measured = {name: MeasuredReads() for name in served}
        produce = _producer_of(pool, options.rate, options.seconds)
        pool.submit(os.getpid).result(_DEADLINE_S)  # it runs before this process becomes nicer
        os.nice(options.reader_nice)
        for number, name in in_turns(served, options.rounds):
            sys.stderr.write(f"round {number + 1} of {options.rounds}: {name}\n")
            _measure(served[name], measured[name], produce, options.group)
        return measured


def _problem(folder: Path, gib: float, rounds: int, before: Path | None, group: Path | None) -> str | None:
    """Why these options cannot be."""
    if not folder.is_dir():
        return f"--folder {folder} is no folder; name one on the disk to measure"
    if rounds < 1:
        return f"--rounds {rounds}: at least one is needed"
    versions = 1 if before is None else 2
    needed_bytes, free_bytes = int(gib * (1 << 30) * 1.1) * versions, shutil.disk_usage(folder).free
    if not 0 < needed_bytes < free_bytes:
        return f"--gib {gib:g}: {plural(versions, 'topic')} of this size do not fit in {free_bytes / (1 << 30):.1f} GiB"
    if before is not None and not is_checkout(before):
        return f"--before {before} is no checkout of Highwater: it has no folder highwater"
    if group is not None and not (group / "cgroup.procs").is_file():
        return f"--group {group} is no control group: it has no file cgroup.procs"
    return None


def _write(port: int, size_bytes: int) -> int:
    """Fill the topic; how many records that are."""
    servers = f"127.0.0.1:{port}"
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": _BATCH_BYTES})
    count = max(1, size_bytes // _VALUE_BYTES)
    padding = os.urandom(_VALUE_BYTES - 8)
    for number in range(count):
        while True:
            try:
                producer.produce(_COLD, number.to_bytes(8, "big") + padding, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.list_topics(_STEADY, _DEADLINE_S)  # which makes it
    if producer.flush(_DEADLINE_S):
        raise SystemExit("the topic could not be written in time")
    return count


# Parts


Produce = Callable[[int, Callable[[], object] | None], Waits]
"""Of a port, and of what reads meanwhile."""


def _measure(served: Served, measured: MeasuredReads, produce: Produce, group: Path | None) -> None:
    with _consumer(served) as consume:
        passes = 0

        def consume_cold() -> None:
            nonlocal passes
            passes += 1
            if passes > 1:
                raise UsageError("the consumer read the whole topic before the producer ended; give more --gib")
            consume()

        readers: tuple[Callable[[], None], ...] = (partial(_dd, served, group), consume)
        for name, read in zip(RATES, readers, strict=True):
            evict(served.files)
            began_s = time.perf_counter()
            before_us = _cpu_us(served)
            with _sampling(served) as states:
                read()
            measured.mb_per_s[name].append(served.size_bytes / 1e6 / (time.perf_counter() - began_s))
        measured.cpu_s_per_gib["cold consumer"].append(_cpu_s_per_gib(served, before_us))
        before_us = _cpu_us(served)
        consume()
        measured.cpu_s_per_gib["hot consumer"].append(_cpu_s_per_gib(served, before_us))
        measured.disk_waits.append(states.count("D") / max(1, len(states)))
        measured.waits["no reader"].append(produce(served.port, None))
        evict(served.files)
        measured.waits["cold consumer"].append(produce(served.port, consume_cold))
        warm(served.files)
        measured.waits["hot consumer"].append(produce(served.port, consume))
    for name, each_us in zip(COPIES, _copies_us(served.files[0]), strict=True):
        measured.copies_us[name].append(each_us)
    for name, (size_bytes, count) in FETCHES.items():
        before_us = _cpu_us(served)
        _fetch(served, size_bytes, count)
        measured.cpu_us[name].append((_cpu_us(served) - before_us) / count)


@contextmanager
def _sampling(served: Served) -> Iterator[list[str]]:
    """The states of the broker's main thread, one each 2 ms."""
    states: list[str] = []
    stat, is_over = Path(f"/proc/{served.process_id}/task/{served.process_id}/stat"), threading.Event()

    def sample() -> None:
        while not is_over.wait(_SAMPLE_S):
            states.append(stat.read_text().rpartition(")")[2].split()[0])

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield states
    finally:
        is_over.set()
        thread.join()


def _cpu_us(served: Served) -> float:
    """The broker's processor time so far, of all threads."""
    threads = Path(f"/proc/{served.process_id}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1000


def _cpu_s_per_gib(served: Served, before_us: float) -> float:
    """The broker's processor time since `before_us`, in which the whole topic was read once."""
    return (_cpu_us(served) - before_us) / 1e6 / (served.size_bytes / (1 << 30))


def _copies_us(file: Path) -> Iterator[float]:
    """Processor time of this program for each MiB of what the kernel has just read, copied once and then again."""
    evict([file])
    time.sleep(_TAKEN_BACK_S)
    size_bytes = min(_COPIED_BYTES, file.stat().st_size)
    RealFiles().bring_into_cache(FilePiece(file, 0, size_bytes))
    buffer = bytearray(_MIB)
    with file.open("rb", buffering=0) as opened:
        for _ in COPIES:
            began_s = time.thread_time()
            for position in range(0, size_bytes, _MIB):
                os.preadv(opened.fileno(), [buffer], position)
            yield (time.thread_time() - began_s) * 1e6 / (size_bytes / _MIB)


def _producer_of(pool: ProcessPoolExecutor, rate: int, seconds: float) -> Produce:
    def produce(port: int, read: Callable[[], object] | None) -> Waits:
        future = pool.submit(produce_steadily, port, rate, seconds)
        while read is not None and not future.done():
            read()
        return future.result(_DEADLINE_S + seconds)

    return produce


def _dd(served: Served, group: Path | None) -> None:
    join = "" if group is None else f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}; "
    for path in served.files:
        command = f"{join}exec dd if={shlex.quote(str(path))} of=/dev/null bs={MAX_BYTES} status=none"
        subprocess.run(["sh", "-c", command], check=True)


def _fetch(served: Served, size_bytes: int, count: int) -> None:
    """Fetch so much at a time, so often, from the start of the topic on and again from there."""
    with socket.create_connection(("127.0.0.1", served.port), _DEADLINE_S) as connection:
        offset = 0
        for _ in range(count):
            offset %= served.records
            partition = FetchPartition(0, -1, offset, -1, size_bytes)
            request = FetchRequest(-1, 500, 1, 50 * _MIB, 0, 0, -1, [(_COLD, [partition])], [], "")
            body = encode_consumer_request(request, _FETCH_VERSION)
            head = struct.pack(">hhih4sB", 1, _FETCH_VERSION, 1, 4, b"cold", 0)
            connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
            answer = _receive(connection)
            error_code, (fetched,) = decode_consumer_response(Decoder(answer, 5, flexible=True), _FETCH_VERSION)
            if error_code or fetched.error_code or not fetched.records:
                raise SystemExit(f"fetch at offset {offset}: {ErrorCode(error_code or fetched.error_code).name}")
            for _, header in headers(fetched.records):
                offset = header.next_offset


def _receive(connection: socket.socket) -> memoryview:
    size = int.from_bytes(_receive_bytes(connection, 4), "big")
    return _receive_bytes(connection, size)


def _receive_bytes(connection: socket.socket, size: int) -> memoryview:
    view = memoryview(bytearray(size))
    done = 0
    while done < size:
        got = connection.recv_into(view[done:])
        if not got:
            raise SystemExit("the broker closed the connection")
        done += got
    return view


@contextmanager
def _consumer(served: Served) -> Iterator[Callable[[], None]]:
    """A connected consumer, and what has it read all records."""
    consumer = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{served.port}", "group.id": "cold-reader", "enable.auto.commit": False}
    )

    def read() -> None:
        consumer.assign([TopicPartition(_COLD, 0, 0)])
        number = 0
        while number < served.records:
            for message in consumer.consume(min(10_000, served.records - number), _DEADLINE_S):
                value = message.value()
                if value is None or int.from_bytes(value[:8], "big") != number:
                    raise SystemExit(f"record {number} is not what was written: {message.error()}")
                number += 1

    try:
        consumer.assign([TopicPartition(_COLD, 0, served.records - 1)])
        if not consumer.consume(1, _DEADLINE_S):
            raise SystemExit("the last record did not come in time")
        yield read
    finally:
        consumer.close()


def produce_steadily(port: int, rate: int, seconds: float) -> Waits:
    """Send at a steady rate, each request after the answer to the one before; runs in a process of its own."""
    batch = bytes(encode_batch([Record(os.urandom(_VALUE_BYTES), timestamp_ms=1_700_000_000_000)]))
    name = _STEADY.encode()
    body = struct.pack(f">hhiih{len(name)}siii", -1, 1, 30_000, 1, len(name), name, 1, 0, len(batch)) + batch
    frame = struct.pack(">hhih4s", 0, 3, 1, 4, b"cold") + body
    frame = struct.pack(">i", len(frame)) + frame
    waits_ms: list[float] = []
    with socket.create_connection(("127.0.0.1", port), _DEADLINE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(int(rate * seconds) + rate):
            if number == rate:
                # The first second makes the topic and warms up.
                began_s, first = time.perf_counter(), number
            elif number == 0:
                began_s, first = time.perf_counter(), 0
            intended_s = began_s + (number - first) / rate
            while (wait_s := intended_s - time.perf_counter()) > 0:
                time.sleep(wait_s)
            connection.sendall(frame)
            answer = _receive(connection)
            if number < rate:
                continue
            waits_ms.append((time.perf_counter() - intended_s) * 1000)
            error = int.from_bytes(answer[4 + 4 + 2 + len(name) + 4 + 4 :][:2], "big")
            if error:
                raise SystemExit(f"produce: {ErrorCode(error).name}")
    waits_ms.sort()
    return Waits(statistics.median(waits_ms), waits_ms[int(len(waits_ms) * 0.99)], waits_ms[-1])


# What came out


def _print(measured: dict[str, MeasuredReads], options: argparse.Namespace) -> int:
    console = Console()
    own = measured[_THIS]
    ratio, more = own.of_dd("cold consumer"), own.more_p99("cold consumer")
    cpu_s = statistics.median(own.cpu_s_per_gib["cold consumer"])
    reads, waits, is_cheap = ratio >= READ_AIM, more <= WAIT_AIM, cpu_s <= CPU_AIM_S_PER_GIB
    console.print(
        f"A cold consumer reads {ratio_text(ratio)} of dd (aim {READ_AIM}: {_reached(reads)}). Beside it a producer's "
        f"p99 is {ratio_text(more)} of that without (aim {WAIT_AIM}: {_reached(waits)}), beside a hot one "
        f"{ratio_text(own.more_p99('hot consumer'))}. A GiB costs the broker {significant(cpu_s)} s of processor time "
        f"(aim {CPU_AIM_S_PER_GIB}: {_reached(is_cheap)}).",
        soft_wrap=True,
    )
    table = Table("reads, MB/s", *measured)
    for name in RATES:
        table.add_row(
            name, *(f"{significant(each.rate(name))} ({ratio_text(each.of_dd(name))})" for each in measured.values())
        )
    console.print(table)
    table = Table("producer, ms: p50 / p99 / most", *measured)
    for reader in _READERS:
        table.add_row(
            reader,
            *(
                f"{' / '.join(map(significant, each.wait(reader)))} ({ratio_text(each.more_p99(reader))})"
                for each in measured.values()
            ),
        )
    console.print(table)
    table = Table("broker's processor time, s for each GiB", *measured)
    for name in CONSUMERS:
        table.add_row(name, *(significant(statistics.median(each.cpu_s_per_gib[name])) for each in measured.values()))
    console.print(table)
    table = Table("broker's processor time, µs for each fetch from the page cache", *measured)
    for name in FETCHES:
        table.add_row(name, *(significant(statistics.median(each.cpu_us[name])) for each in measured.values()))
    console.print(table)
    first_us, second_us = (statistics.median(own.copies_us[name]) for name in COPIES)
    console.print(
        f"A copy of 1 MiB that was just read from the disk takes {significant(first_us)} µs, and a second one "
        f"{significant(second_us)} µs.",
        soft_wrap=True,
    )
    for name, each in measured.items():
        share = significant(100 * statistics.median(each.disk_waits))
        console.print(f"Beside the cold consumer the event loop waited for the disk in {share} % of the time: {name}.")
    model = collect().cpu_model or "an unknown processor"
    console.print(
        f"Medians of {plural(options.rounds, 'round')} in turns, {options.gib:g} GiB in {options.folder}, "
        f"{options.rate} requests of a producer per second for {options.seconds:g} s; in parentheses the median of the "
        f"rounds' ratios to dd, or to p99 without a reader. {model} ({plural(os.cpu_count() or 1, 'processor')}, load "
        f"average {os.getloadavg()[0]:.1f}).",
        soft_wrap=True,
    )
    return 0 if reads and waits and is_cheap else 1


def _reached(is_reached: bool) -> str:
    return "reached" if is_reached else "not reached"


if __name__ == "__main__":
    main()
