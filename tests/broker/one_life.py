"""The life of a broker on a disk that fails at one operation, and what the next start makes of it.

The life of a broker without its sockets runs over a simulated disk: start, topics made, grown and deleted, appends
with rolls, transactions, flushes, checkpoints, DeleteRecords, retention, compaction, a clean stop and another start.
The same life is lived again and again, and each time another file operation fails, is where the process is killed, or
where the power goes. (The way SQLite is tested: sqlite.org/testing.html, on I/O error and crash testing.)
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.alone.assembly import LoneNode
from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.log.compaction import compact
from highwater.broker.log.compaction_job import CleanedGroup
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import DISK_IS_FULL
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.partition_log import Appended, PartitionLog
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.settings.config import BrokerConfig, Setting, TopicConfig
from highwater.broker.settings.store import MetadataError
from highwater.broker.topics.administration import MorePartitions, NewTopic
from highwater.broker.topics.log_settings import log_config_of, log_configs_of
from highwater.broker.topics.storage import Storage
from highwater.broker.turns import Turns
from highwater.kafka.protocol.problem import Problem
from highwater.kafka.records.batch import headers
from highwater.kafka.records.record import Record, TransactionMarker, encode_batch
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.log.building import batch, read_all
from tests.broker.log.compacting import MAP_BYTES, keyed_batch, last_values, records_of
from tests.broker.log.reading import visible_to_committed
from tests.broker.log.simulated_files import Killed, SimulatedFiles
from tests.broker.manual_clock import ManualClock

ROOT = Path("/logs")
CONFIG = BrokerConfig(
    [Setting("test", "log.segment.bytes", "1000"), Setting("test", "log.index.interval.bytes", "200")]
)
DEFAULTS = log_config_of(TopicConfig(CONFIG, {}))
DAY_MS = 86_400_000
KEYS = 4
COMMIT: Final = b"commit"
ABORT: Final = b"abort"


FAILURES: Final = ("full once", "full a while", "broken once", "broken a while", "broken for good")
CRASHES: Final = ("kill", "power cut")


class Stopped(Exception):  # noqa: N818 - as Killed
    """The broker gave up, as it does when its only log directory fails."""


class Excused(Stopped):
    """So it does on a full disk only where it cannot go on without writing: at a start, a stop, or amid renaming."""


class Broker:
    """What `highwater.broker.server` makes of a node, in one thread."""

    def __init__(self, files: SimulatedFiles, clock: ManualClock) -> None:
        self.files = files
        self.clock = clock
        self.directory = LogDirectory(files, ROOT, DEFAULTS, broker_id=0, clock=clock)
        try:
            store = EmbeddedMetadataStore(files, ROOT, self.directory.cluster_id)
            configs = log_configs_of(CONFIG, store.topics())
            directories = LogDirectories([self.directory])
            directories.load(lambda topic: configs.get(topic, DEFAULTS), lambda done, total: None)
            store.begin_epoch()
            scheduler = ManualScheduler()
            turns = Turns(clock, scheduler)
            alone = LoneNode(
                Runtime(broker_id=0, config=CONFIG, clock=clock, scheduler=scheduler, turns=turns),
                store,
                Storage(
                    log_directories=directories,
                    request_flush=lambda partition: None,
                    storage_failed=self._storage_failed,
                    request_checkpoint=lambda done: None,
                ),
            )
            self.node, self.topics = alone.node, alone.topics
        except BaseException:
            self.directory.close(clean=False)
            raise

    def _storage_failed(self, error: OSError, partition: Partition) -> None:
        raise Stopped from error

    def partition(self, topic: str, index: int = 0) -> Partition | None:
        return self.node.partitions.find(topic, index)

    def checkpoint(self) -> bool:
        try:
            self.directory.checkpoint()
        except OSError as error:
            self._unless_full(error)
            return False
        return True

    def flush(self, log: PartitionLog) -> bool:
        ticket = log.begin_flush()
        if ticket is None:
            return True
        try:
            ticket.sync()
        except OSError as error:
            raise Stopped from error
        finally:
            log.complete_flush(ticket)
        return ticket.is_synced

    def delete_expired(self, partition: Partition) -> None:
        try:
            partition.log.delete_expired(partition.high_watermark, self.clock.now_ms())
            self.checkpoint()
        except OSError as error:
            self._unless_full(error)

    def remove_deleted(self) -> None:
        try:
            for partition in self.node.partitions.live():
                for path in partition.log.take_removable(self.clock.now_ms()):
                    self.files.remove(path)
            self.directory.purge_deleted()
        except OSError as error:
            self._unless_full(error)

    def compact(self, partition: Partition) -> None:
        log = partition.log
        now_ms = self.clock.now_ms()
        key = partition.topic, partition.index
        dirt = log.dirtiness(self.directory.clean_offsets.get(key, 0), partition.last_stable_offset, now_ms)
        if not dirt.dirty_bytes:
            return
        job = log.compaction_job(dirt, now_ms, MAP_BYTES, 0.9, ".1.cleaned")
        steps = compact(self.files, job, lambda _: None)
        while True:
            try:
                step = next(steps)
            except OSError:
                return  # the cleaner's process tells of it, and the pass counts for nothing
            try:
                if isinstance(step, CleanedGroup):
                    log.replace_segments(step, now_ms)
                    continue
                log.sync_names()
            except OSError as error:
                raise Excused from error
            self.directory.clean_offsets[key] = step.clean_up_to
            try:
                self.directory.begin_cleaner_checkpoint().write()
            except OSError as error:
                self._unless_full(error)
            return

    def _unless_full(self, error: OSError) -> None:
        if error.errno not in DISK_IS_FULL:
            raise Stopped from error


class Life:
    """The life of a broker, and the promises it made in it."""

    def __init__(self, files: SimulatedFiles) -> None:
        self.clock = ManualClock()
        self.files = files
        self.values: list[bytes] = []
        """Acknowledged in topic t, in order; the index is the offset."""
        self.unanswered: bytes | None = None
        self.flushed = 0
        self.start_promised = self.start_asked = 0
        self.state: dict[bytes | None, bytes] = {}
        """What a reader of the compacted topic must come to."""
        self.flushed_state: dict[bytes | None, bytes] = {}
        self.keyed_count = 0
        self.transactional: list[bytes] = []
        """Acknowledged in topic x: values of one producer's transactions, and their ends; the index is the offset."""
        self.transactional_unanswered: bytes | None = None
        self.transactional_flushed = 0
        self.sequence = 0
        self.exists: dict[str, bool | None] = {}

    def live(self) -> None:
        """All of it; what cannot be done for want of space is not promised, and the next thing is tried."""
        broker = self.start()
        self.create(broker, "t")
        self.create(broker, "c", {"cleanup.policy": "compact", "delete.retention.ms": "0"})
        self.create(broker, "x", {"preallocate": "true"})
        self.create(broker, "gone", partitions=2)
        for _ in range(8):
            self.append(broker)
            self.put(broker)
            self.write_in_transaction(broker)
        self.end_transaction(broker, is_commit=False)
        self.write_in_transaction(broker)
        self.flush(broker)
        broker.checkpoint()
        self.grow(broker, "gone", 3)
        for _ in range(7):
            self.append(broker)
            self.put(broker)
        self.end_transaction(broker, is_commit=True)
        self.write_in_transaction(broker)
        self.delete_records(broker, 5)
        self.flush(broker)
        self.compact(broker)
        self.expire(broker)
        self.append(broker)
        self.delete(broker, "gone")
        self.create(broker, "gone")
        self.clock.advance_ms(DAY_MS)
        broker.remove_deleted()
        self.append(broker)
        self.stop(broker)
        broker = self.start()
        self.append(broker)
        self.put(broker)
        self.end_transaction(broker, is_commit=False)
        self.compact(broker)
        self.flush(broker)
        broker.checkpoint()
        broker.directory.close(clean=False)

    def start(self) -> Broker:
        try:
            return Broker(self.files, self.clock)
        except (LogDirectoryError, MetadataError) as error:
            assert self.files.open_descriptors == 0, "a start that failed holds on to files"
            raise Excused from error

    def stop(self, broker: Broker) -> None:
        try:
            broker.directory.close()
        except OSError as error:
            raise Excused from error

    def create(
        self, broker: Broker, topic: str, config: dict[str, str | None] | None = None, partitions: int = 1
    ) -> None:
        self.exists[topic] = None
        for _ in range(40):
            created = broker.topics.create(NewTopic(topic, partitions, 1, config=config or {}))
            if not isinstance(created, Problem):
                self.exists[topic] = True
                return

    def grow(self, broker: Broker, topic: str, partitions: int) -> None:
        if self.exists[topic]:
            broker.topics.grow(MorePartitions(topic, partitions))

    def delete(self, broker: Broker, topic: str) -> None:
        if self.exists[topic]:
            self.exists[topic] = None
            self.exists[topic] = None if broker.topics.delete(topic) else False

    def append(self, broker: Broker) -> None:
        partition = broker.partition("t")
        if partition is None:
            return
        value = b"%d " % len(self.values) * 30
        records = batch(
            value,
            timestamp_ms=self.clock.now_ms() + len(self.values),
            producer_id=7,
            producer_epoch=0,
            base_sequence=len(self.values),
        )
        self.unanswered = value
        try:
            appended = partition.append(memoryview(records), -1, self.clock.now_ms())
        except OSError:
            self.unanswered = None  # the producer is told that it failed
            return
        assert isinstance(appended, Appended), appended
        assert appended.base_offset == len(self.values)
        assert not appended.duplicate
        self.values.append(value)
        self.unanswered = None

    def put(self, broker: Broker) -> None:
        partition = broker.partition("c")
        if partition is None:
            return
        self.keyed_count += 1
        key, value = b"key %d" % (self.keyed_count % KEYS), b"%d " % self.keyed_count * 40
        try:
            appended = partition.append(memoryview(keyed_batch([(key, value)])), 1, self.clock.now_ms())
        except OSError:
            return
        assert isinstance(appended, Appended), appended
        self.state[key] = value

    def write_in_transaction(self, broker: Broker) -> None:
        partition = broker.partition("x")
        if partition is None:
            return
        value = b"%d " % len(self.transactional) * 60
        state = partition.log.producer_states.get(9)
        records = encode_batch(
            [Record(value, timestamp_ms=self.clock.now_ms())],
            producer_id=9,
            producer_epoch=0,
            base_sequence=0 if state is None else state.last_sequence + 1,
            is_transactional=True,
        )
        self._in_transaction(
            value,
            lambda: partition.append(
                memoryview(records), -1, self.clock.now_ms(), verify=lambda producer_id, epoch: ErrorCode.none
            ),
        )

    def end_transaction(self, broker: Broker, *, is_commit: bool) -> None:
        partition = broker.partition("x")
        if partition is not None:
            marker = TransactionMarker(9, 0, 0, is_commit)
            self._in_transaction(
                COMMIT if is_commit else ABORT, lambda: partition.append_marker(marker, self.clock.now_ms())
            )

    def _in_transaction(self, written: bytes, append: Callable[[], object]) -> None:
        self.transactional_unanswered = written
        try:
            appended = append()
        except OSError:
            self.transactional_unanswered = None
            return
        assert isinstance(appended, Appended), appended
        assert appended.base_offset == len(self.transactional)
        self.transactional.append(written)
        self.transactional_unanswered = None

    def flush(self, broker: Broker) -> None:
        if (partition := broker.partition("x")) is not None and broker.flush(partition.log):
            self.transactional_flushed = len(self.transactional)
        if (partition := broker.partition("t")) is not None and broker.flush(partition.log):
            self.flushed = len(self.values)
        if (partition := broker.partition("c")) is not None and broker.flush(partition.log):
            self.flushed_state = dict(self.state)

    def delete_records(self, broker: Broker, offset: int) -> None:
        partition = broker.partition("t")
        if partition is None or partition.high_watermark < offset:
            return
        self.start_asked = offset
        assert partition.delete_records(offset) == offset
        if broker.checkpoint():
            self.start_promised = offset

    def expire(self, broker: Broker) -> None:
        if (partition := broker.partition("t")) is not None:
            partition.log.config = replace(partition.log.config, retention_bytes=1500)
            self.start_asked = len(self.values)
            broker.delete_expired(partition)
            partition.log.config = replace(partition.log.config, retention_bytes=-1)

    def compact(self, broker: Broker) -> None:
        if (partition := broker.partition("c")) is not None:
            broker.compact(partition)

    # Afterwards

    def check(self, files: SimulatedFiles, *, has_page_cache: bool) -> None:
        """Start once more, on a disk that works: every promise holds, and the broker is as good as new."""
        broker = Broker(files, self.clock)
        for topic, exists in self.exists.items():
            assert exists is None or exists == (broker.node.partitions.topic(topic) is not None), topic
        if (partition := broker.partition("t")) is not None:
            self._check_records(partition, has_page_cache)
        if (partition := broker.partition("x")) is not None:
            self._check_transactions(partition, has_page_cache)
        if (partition := broker.partition("c")) is not None:
            found = last_values(records_of(partition.log, is_whole=has_page_cache))
            expected = self.state if has_page_cache else self.flushed_state
            for key, value in expected.items():
                assert number_of(found.get(key)) >= number_of(value), f"{key!r} lost its value"
        for name in ("t", "c", "gone"):
            if broker.node.partitions.topic(name) is None:
                assert not isinstance(broker.topics.create(NewTopic(name, 1, 1)), Problem), name
            partition = broker.node.partitions.topic(name).partitions[0]  # type: ignore[union-attr]
            assert isinstance(partition.append(memoryview(keyed_batch([(b"k", b"v")])), 1, 0), Appended)
            names = {entry.name.rpartition(".")[2] for entry in files.list(partition.log.directory)}
            assert not names & {"swap", "cleaned", "deleted", "tmp"}
        broker.directory.close()
        assert files.open_descriptors == 0

    def _check_records(self, partition: Partition, has_page_cache: bool) -> None:
        log = partition.log
        end = log.log_end_offset
        written = [*self.values, *([] if self.unanswered is None else [self.unanswered])]
        least = len(self.values) if has_page_cache else self.flushed
        assert max(least, self.start_promised) <= end or log.log_start_offset == end >= self.start_promised
        assert least <= end <= len(written)
        assert self.start_promised <= log.log_start_offset <= self.start_asked
        expected = list(enumerate(written[:end]))[log.log_start_offset :]
        assert read_all(log) == expected
        data = log.read(log.log_start_offset, 1 << 20, end_offset=end)
        assert isinstance(data, bytes)
        for _, header in headers(data):
            assert log.leader_epochs.epoch_at(header.base_offset) == header.leader_epoch
        if end and expected:
            again = batch(written[end - 1], producer_id=7, producer_epoch=0, base_sequence=end - 1)
            retried = partition.append(memoryview(again), -1, 0)
            assert isinstance(retried, Appended), f"the last batch sent again: {retried}"
            assert (retried.base_offset, retried.duplicate) == (end - 1, True)

    def _check_transactions(self, partition: Partition, has_page_cache: bool) -> None:
        log = partition.log
        unanswered = self.transactional_unanswered
        written = [*self.transactional, *([] if unanswered is None else [unanswered])]
        end = log.log_end_offset
        least = len(self.transactional) if has_page_cache else self.transactional_flushed
        assert least <= end <= len(written)
        committed: dict[int, bytes | None] = {}
        open_: dict[int, bytes | None] = {}
        for offset, value in enumerate(written[:end]):
            if value not in (COMMIT, ABORT):
                open_[offset] = value
                continue
            committed |= open_ if value == COMMIT else {}
            open_ = {}
        stable = min(open_, default=end)
        assert partition.last_stable_offset == stable
        data = log.read(0, 1 << 20, end_offset=stable, at_least_one_batch=True)
        offset = 0
        while data:
            assert isinstance(data, bytes)
            aborted = log.aborted_transactions(offset, len(data), stable)
            assert not isinstance(aborted, ErrorCode)
            visible, next_offset = visible_to_committed(data, aborted, offset)
            assert visible == {at: value for at, value in committed.items() if offset <= at < next_offset}
            offset = next_offset
            data = log.read(offset, 1 << 20, end_offset=stable, at_least_one_batch=True)
        assert offset == stable


def number_of(value: bytes | None) -> int:
    return int((value or b"0 ").split(b" ")[0])


def fail(at: int, how: str) -> bool:
    """Live with a disk that is full or broken from operation `at` on, for once or longer; whether it came to that."""
    files = SimulatedFiles()
    failing = range(at, at + {"once": 1, "a while": 15, "for good": 10_000}[how.partition(" ")[2]])
    if how.startswith("full"):
        files.full_during = failing
    else:
        files.fail_at = dict.fromkeys(failing, errno.EIO)
    life = Life(files)
    may_stop = Stopped if how.startswith("broken") else Excused
    with suppress(may_stop):
        life.live()
    life.check(files.restarted(), has_page_cache=True)
    return files.changes_made > at


def crash(at: int, how: str) -> bool:
    """Live up to operation `at`, crash there, crash in the next start as well; whether it came to that."""
    files = SimulatedFiles()
    files.kill_at = at
    life = Life(files)
    with suppress(Killed):
        life.live()
    rng = random.Random(at)
    for kill_in_start in (None, rng.randrange(3), rng.randrange(60)):
        survivor = files
        if kill_in_start is not None:
            survivor = after(files, how, rng)
            survivor.kill_at = kill_in_start
            with suppress(Killed):
                Broker(survivor, life.clock).directory.close(clean=False)
        life.check(after(survivor, how, rng), has_page_cache=how == "kill")
    return files.changes_made > at


def after(files: SimulatedFiles, how: str, rng: random.Random) -> SimulatedFiles:
    return deepcopy(files.restarted()) if how == "kill" else files.after_power_cut(rng.randrange(2**32))
