"""One log directory: its owner, its partitions, and the checkpoints from which it loads them.

The constructor takes the lock and checks the owner; `load` loads the logs. The files are Kafka's: `meta.properties` has
the identity, three checkpoints have offsets. A clean stop writes `.kafka_cleanshutdown` last; the next start removes it
first.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from highwater.broker.clock import Clock
from highwater.broker.log import partition_folder
from highwater.broker.log.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    MalformedFile,
    NewerVersion,
    decode_offsets,
    decode_partition_metadata,
    decode_properties,
    decode_topic_id,
    encode_lines,
    encode_properties,
    encode_topic_id,
    offset_line,
)
from highwater.broker.log.clean_stop import WholeLog, decode_mark, encode_mark
from highwater.broker.log.closing import close_logs
from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import LogDirectoryError, LogDirectoryFailed, SegmentsGone
from highwater.broker.log.files import FileOperations, write_durably
from highwater.broker.log.open_segments import DEFAULT_MAX_OPEN_SEGMENTS, OpenSegments
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.log.recovery import LogLoader, LogState, make_log
from highwater.broker.slices import Steps, run
from highwater.common.topic_partition import TopicPartition, parse_partition_name, partition_name

_logger = logging.getLogger(__name__)

DEFAULT_PRODUCER_EXPIRATION_MS: Final = 86_400_000

_LOCK: Final = ".lock"
MOVED: Final = ".moved"
"""A file in the folder of a log that moved here; the folder in the other directory may still be there."""
_FOREIGN_BUT_HARMLESS: Final = ("lost+found",)
_LOG_DIRS: Final = "log.dirs"
"""The key of meta.properties that names all directories of a broker with several. Kafka ignores this key."""


ConfigOf: TypeAlias = Callable[[str], LogConfig]
Progress: TypeAlias = Callable[[int, int], None]
Loading: TypeAlias = Generator[None, None, None]


class _Found(NamedTuple):
    """A partition that is to be loaded."""

    key: TopicPartition
    topic_id: uuid.UUID | None


class Checkpoint(NamedTuple):
    """The lines of the checkpoint files, by name; `write` blocks and may run in any thread."""

    files: FileOperations
    path: Path
    lines: Mapping[str, Sequence[str]]
    number: int
    sequence: CheckpointSequence

    def write(self) -> None:
        with self.sequence.lock:
            if self.number < self.sequence.last_written:
                return
            for name, lines in self.lines.items():
                write_durably(self.files, self.path / name, encode_lines(lines))
            self.sequence.last_written = self.number


@dataclass(slots=True)
class CheckpointSequence:
    """Writes one checkpoint at a time, and none over a later one, which would bring back offsets of deleted logs."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    last_begun: int = 0
    last_written: int = 0

    def next(self) -> int:
        self.last_begun += 1
        return self.last_begun


def known_directories(files: FileOperations, paths: Sequence[Path]) -> dict[Path, Path]:
    """Return those of `paths` that this broker has used, each with another one that says so."""
    known: dict[str, Path] = {}
    for path in paths:
        try:
            names = _known_names(decode_properties(files.read(path / META_PROPERTIES)))
        except (OSError, MalformedFile):
            continue  # it is new, or says itself what is wrong
        known |= dict.fromkeys(names, path)
    return {path: known[name] for path, name in zip(paths, _names(paths), strict=True) if name in known}


def _known_names(properties: Mapping[str, str]) -> list[str]:
    return [name for name in properties.get(_LOG_DIRS, "").split(",") if name]


def _names(paths: Sequence[Path]) -> list[str]:
    return [str(path).encode(errors="replace").decode() for path in paths]


class LogDirectory:
    def __init__(
        self,
        files: FileOperations,
        path: Path,
        defaults: LogConfig,
        *,
        broker_id: int,
        clock: Clock,
        cluster_id: str | None = None,
        known_by: Path | None = None,
        max_open_segments: int = DEFAULT_MAX_OPEN_SEGMENTS,
        producer_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS,
    ) -> None:
        """Lock the directory and check that it belongs to this broker; a new directory becomes this broker's.

        Without a `cluster_id` the directory's own counts, or a new one is made. `known_by` is another directory of
        this broker that says that this one is not new.
        """
        self.path = path.absolute()
        self.defaults = defaults
        self.broker_id = broker_id
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The high watermarks of the last checkpoint, from `load` on."""
        self.clean_offsets: dict[TopicPartition, int] = {}
        """The offset up to which each log is compacted; this counts only records that are on the disk."""
        self.gone: dict[TopicPartition, int] = {}
        """Partitions without segments here, and the end of the records that were on the disk by the last checkpoint.

        Some were deleted since then.
        """
        self.futures: list[tuple[TopicPartition, Path]] = []
        """Folders of logs that were being moved here when the last run ended."""
        self._files = files
        self._clock = clock
        self._open_segments = OpenSegments(max_open_segments)
        self._producer_expiration_ms = producer_expiration_ms
        self._checkpoints, self._cleaner_checkpoints = CheckpointSequence(), CheckpointSequence()
        self._checkpointed: set[TopicPartition] = set()
        """The partitions that may have lines in the checkpoint files."""
        self._unfinished: set[TopicPartition] = set()
        """Partitions that may have a folder here and have no log: it is to be renamed, or that failed."""
        self._renamed: set[TopicPartition] = set()
        """Partitions whose folder was renamed, which a power cut may undo."""
        try:
            if not files.exists(self.path):
                files.make_directory(self.path)
                files.sync_directory(self.path.parent)
            lock = files.lock(self.path / _LOCK)
        except OSError as error:
            raise LogDirectoryFailed(f"log directory {self.path} cannot be used: {error.strerror}") from error
        if lock is None:
            raise LogDirectoryError(f"log directory {self.path} is in use by another broker; stop it or choose another")
        self._lock: int | None = lock
        try:
            self.cluster_id = self._identify(cluster_id, known_by)
        except OSError as error:
            self._unlock()
            raise LogDirectoryFailed(f"log directory {self.path} cannot be used: {error.strerror}") from error
        except LogDirectoryError:
            self._unlock()
            raise

    # Loading

    def load(self, config_of: ConfigOf | None = None, progress: Progress | None = None) -> None:
        """Load every partition; after an unclean stop this reads and checks what was not flushed.

        `config_of` returns the configuration of a topic; `progress` gets (partitions loaded, partitions in all). If
        this fails, the directory is closed again.
        """
        for _ in self.loading(config_of, progress):
            continue

    def loading(
        self, config_of: ConfigOf | None = None, progress: Progress | None = None, aside: Executor | None = None
    ) -> Loading:
        """The same. Rests once, when all is loaded but the logs that take long, which `aside` recovers meanwhile."""
        try:
            yield from self._load(config_of, progress, aside)
        except LogDirectoryError:
            self.close(clean=False)
            raise
        except OSError as error:
            self.close(clean=False)
            raise LogDirectoryFailed(
                f"{error.filename or self.path} cannot be used: {error.strerror}; mend that and start again"
            ) from error

    def _load(self, config_of: ConfigOf | None, progress: Progress | None, aside: Executor | None) -> Loading:
        keys = self._find_partitions()
        recovery_points = self._read_checkpoint(RECOVERY_POINT_CHECKPOINT)
        log_start_offsets = self._read_checkpoint(LOG_START_OFFSET_CHECKPOINT)
        self.high_watermarks = self._read_checkpoint(REPLICATION_OFFSET_CHECKPOINT)
        self.clean_offsets = self._read_checkpoint(CLEANER_OFFSET_CHECKPOINT)
        self._checkpointed = {*recovery_points, *log_start_offsets, *self.high_watermarks}
        gone = recovery_points.keys() - set(keys)
        self.gone = {key: offset for key in gone if (offset := recovery_points[key]) > 0}
        # The mark is removed before any file changes, so that a crash from here on counts as an unclean stop.
        is_clean = self._files.exists(self.path / CLEAN_SHUTDOWN)
        whole_logs: Mapping[str, WholeLog] = {}
        if is_clean:
            whole_logs = decode_mark(self._files.read(self.path / CLEAN_SHUTDOWN))
            self._files.remove(self.path / CLEAN_SHUTDOWN)
            self._files.sync_directory(self.path)
        done = 0
        later: deque[tuple[LogLoader, _Found, Future[LogState]]] = deque()
        try:
            for key in keys:
                if progress is not None:
                    progress(done, len(keys))
                name = partition_name(*key)
                directory = self.path / name
                recovery_point = recovery_points.get(key, 0)
                loader = LogLoader(
                    files=self._files,
                    directory=directory,
                    config=config_of(key[0]) if config_of is not None else self.defaults,
                    open_segments=self._open_segments,
                    now_ms=self._clock.now_ms(),
                    is_clean=is_clean,
                    recovery_point=recovery_point,
                    log_start_offset=log_start_offsets.get(key, 0),
                    clean_offset=self.clean_offsets.get(key, 0),
                )
                whole = whole_logs.get(name)
                state = None if whole is None else loader.take_over(whole)
                if whole is None or state is None or recovery_point == 0:
                    # Nothing of it was flushed yet, so that a power cut may have torn the file.
                    topic_id = self._read_topic_id(directory, was_flushed=recovery_point > 0)
                else:
                    topic_id = decode_topic_id(whole.topic_id)
                found = _Found(key, topic_id)
                if state is not None:
                    self._take_up(loader, found, state)
                    done += 1
                    continue
                entries = self._files.list(directory)
                if aside is not None and loader.takes_long(entries):
                    # Segments of its own, as a thread must not close what another one reads.
                    loader.open_segments = OpenSegments(1)
                    later.append((loader, found, aside.submit(loader.load_and_close, entries)))
                    continue
                self._load_log(loader, found, partial(loader.load, entries))
                done += 1
            yield
            while later:
                if progress is not None:
                    progress(done, len(keys))
                loader, found, future = later.popleft()
                self._load_log(loader, found, future.result)
                done += 1
        finally:
            for _, _, future in later:
                if not future.cancel():
                    future.exception()  # when it has ended
        if progress is not None:
            progress(len(keys), len(keys))

    def _load_log(self, loader: LogLoader, found: _Found, load: Callable[[], LogState]) -> None:
        try:
            self._take_up(loader, found, load())
        except SegmentsGone:
            self.gone[found.key] = loader.recovery_point

    def _take_up(self, loader: LogLoader, found: _Found, state: LogState) -> None:
        (topic, partition), directory = found.key, loader.directory
        if loader.open_segments is not self._open_segments:
            for segment in state.segments:
                segment.go_on_in(directory, self._open_segments)
        state.producer_states.expire(self._clock.now_ms(), self._producer_expiration_ms)
        self.logs[found.key] = PartitionLog(
            self._files, directory, topic, partition, found.topic_id, loader.config, self._open_segments, state
        )

    # Partitions

    def create_partition(
        self, topic: str, partition: int, topic_id: uuid.UUID, config: LogConfig | None = None
    ) -> PartitionLog:
        """Make a new, empty log. After an OSError no folder of its name is left.

        Nothing is synced before the first flush: after a power cut the log may be there, or not, or in part.
        """
        directory = self.path / partition_name(topic, partition)
        if (topic, partition) in self.logs:
            raise ValueError(f"{directory} is there already")
        self.gone.pop((topic, partition), None)
        if (topic, partition) in self._checkpointed:
            # A log of this name was deleted. After a crash the new log would begin where the old one began.
            self.checkpoint(self.high_watermarks)
            self._checkpointed = set(self.logs)
        self.set_aside_unfinished(topic)
        if self._files.exists(directory):
            self._set_aside(directory, topic, partition)  # It lacks its segments.
        self._files.make_directory(directory)
        log = None
        config = config or self.defaults
        try:
            state = make_log(self._files, directory, config, self._open_segments, self._clock.now_ms())
            log = PartitionLog(self._files, directory, topic, partition, topic_id, config, self._open_segments, state)
            log.write_metadata()
        except OSError as error:
            if log is not None:
                log.close(clean=False)
            self._unfinished.add((topic, partition))
            try:
                self.set_aside_unfinished(topic)
            except OSError as second:
                error.add_note(f"and {directory} could not be taken away again: {second}")
            raise
        self.logs[topic, partition] = log
        return log

    def delete_partition(self, topic: str, partition: int) -> None:
        """Rename the folder of the log; the next `purge_deleted`, or the next start, removes its files."""
        self.begin_to_delete(topic, partition)
        self.set_aside_unfinished(topic)

    def begin_to_delete(self, topic: str, partition: int) -> None:
        """Close the log of a partition and rename its folder, which lasts after the next `set_aside_unfinished`."""
        key = topic, partition
        log = self.logs.pop(key)
        self.high_watermarks.pop(key, None)
        self.clean_offsets.pop(key, None)
        log.close(clean=False)
        self._unfinished.add(key)
        self._rename_unfinished(key)

    def set_aside_unfinished(self, topic: str) -> None:
        """Rename the folders of those partitions of a topic that are deleted or could not be made, durably."""
        run(self.setting_aside(topic))

    def setting_aside(self, topic: str) -> Steps[None]:
        """The same in steps, of which one waits for the disk."""
        for key in [key for key in self._unfinished if key[0] == topic]:
            self._rename_unfinished(key)
        if renamed := [key for key in self._renamed if key[0] == topic]:
            yield partial(self._files.sync_directory, self.path)
            self._renamed.difference_update(renamed)

    def _rename_unfinished(self, key: TopicPartition) -> None:
        directory = self.path / partition_name(*key)
        if self._files.exists(directory):
            self._files.rename(directory, self.path / partition_folder.deleted_name(*key))
        self._unfinished.discard(key)
        self._renamed.add(key)

    def _set_aside(self, directory: Path, topic: str, partition: int) -> None:
        self._files.rename(directory, self.path / partition_folder.deleted_name(topic, partition))
        self._files.sync_directory(self.path)

    def purge_deleted(self) -> None:
        """Remove the files of deleted partitions; blocks, and may run in any thread."""
        for entry in self._files.list(self.path):
            if entry.is_directory and partition_folder.is_deleted(entry.name):
                directory = self.path / entry.name
                for file in self._files.list(directory):
                    self._files.remove(directory / file.name)
                self._files.remove_directory(directory)

    # Moves between log directories (broker.log.moving)

    @property
    def files(self) -> FileOperations:
        return self._files

    @property
    def open_segments(self) -> OpenSegments:
        return self._open_segments

    def take_in(
        self, key: TopicPartition, log: PartitionLog, future: Path, high_watermarks: Mapping[TopicPartition, int]
    ) -> Path:
        """Write the offsets of a log into the checkpoints here, give its future folder its name, and return the folder.

        The folder has the mark MOVED until `forget_move`, and is durable after `sync_names`. After an OSError all is
        as before.
        """
        place = self.path / partition_name(*key)
        self.logs[key] = log
        try:
            self.checkpoint(high_watermarks)
            self._files.rename(future, place)
        except OSError:
            del self.logs[key]
            raise
        return place

    def sync_names(self) -> None:
        self._files.sync_directory(self.path)

    def let_go(self, key: TopicPartition) -> dict[TopicPartition, int]:
        """The log continues elsewhere: set its folder aside; return its entry of `clean_offsets`, if it has one."""
        del self.logs[key]
        self.high_watermarks.pop(key, None)
        clean_offset = self.clean_offsets.pop(key, None)
        self._set_aside(self.path / partition_name(*key), *key)
        return {} if clean_offset is None else {key: clean_offset}

    def has_moved_here(self, key: TopicPartition) -> bool:
        return self._files.exists(self.logs[key].directory / MOVED)

    def forget_move(self, place: Path) -> None:
        self._files.remove(place / MOVED)
        self._files.sync_directory(place)

    def give_up_future(self, future: Path, topic: str, partition: int) -> None:
        """Have the next `purge_deleted` remove a future folder."""
        if self._files.exists(future):
            self._set_aside(future, topic, partition)

    # Checkpoints and the end

    def begin_checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> Checkpoint:
        """The offsets as they are now. Without `high_watermarks` all records of each log count as replicated.

        A log that `high_watermarks` does not name keeps that of the last checkpoint: nobody has taken it up yet.
        """
        return run(self.checkpoint_steps(None if high_watermarks is None else high_watermarks.get))

    def checkpoint_steps(
        self, high_watermark_of: Callable[[TopicPartition], int | None] | None
    ) -> Generator[None, None, Checkpoint]:
        """The same with a step for each log: its offsets are as they are in its step, and no earlier."""
        number = self._checkpoints.next()
        recovery_points: list[str] = []
        start_offsets: list[str] = []
        high_watermarks: list[str] = []
        self._checkpointed.update(self.logs)
        recovery_points += [offset_line(key, offset) for key, offset in sorted(self.gone.items())]
        for key in [key for key in self.high_watermarks if key not in self.logs]:
            del self.high_watermarks[key]
        for key in sorted(self.logs):
            log = self.logs.get(key)
            if log is None:
                continue  # deleted since the first step
            recovery_points.append(offset_line(key, log.recovery_point))
            if log.log_start_offset > log.segment_base_offsets[0]:
                start_offsets.append(offset_line(key, log.log_start_offset))
            high_watermark = log.log_end_offset if high_watermark_of is None else high_watermark_of(key)
            if high_watermark is not None:
                self.high_watermarks[key] = high_watermark
            if (high_watermark := self.high_watermarks.get(key)) is not None:
                high_watermarks.append(offset_line(key, high_watermark))
            yield
        lines = {
            RECOVERY_POINT_CHECKPOINT: recovery_points,
            LOG_START_OFFSET_CHECKPOINT: start_offsets,
            REPLICATION_OFFSET_CHECKPOINT: high_watermarks,
        }
        return Checkpoint(self._files, self.path, lines, number, self._checkpoints)

    def begin_cleaner_checkpoint(self) -> Checkpoint:
        lines = [offset_line(key, offset) for key, offset in sorted(self.clean_offsets.items()) if key in self.logs]
        content = {CLEANER_OFFSET_CHECKPOINT: lines}
        return Checkpoint(self._files, self.path, content, self._cleaner_checkpoints.next(), self._cleaner_checkpoints)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        for log in self.logs.values():
            log.write_indexes()
        self.begin_checkpoint(high_watermarks).write()

    def expire_producers(self) -> None:
        now_ms = self._clock.now_ms()
        for log in self.logs.values():
            log.expire_producers(now_ms, self._producer_expiration_ms)

    def close(self, *, clean: bool = True, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Close the directory. A clean close first blocks until all is on the disk, and then writes the mark of it."""
        try:
            close_logs(self.logs.values(), clean=clean)
            if clean:
                self.checkpoint(high_watermarks)
                found = ((partition_name(*key), log.whole()) for key, log in self.logs.items())
                mark = encode_mark({name: whole for name, whole in found if whole is not None})
                write_durably(self._files, self.path / CLEAN_SHUTDOWN, mark)
        finally:
            self._unlock()

    # Inside

    def _identify(self, cluster_id: str | None, known_by: Path | None) -> str:
        path = self.path / META_PROPERTIES
        if not self._files.exists(path):
            foreign = [
                e.name for e in self._files.list(self.path) if e.is_directory and e.name not in _FOREIGN_BUT_HARMLESS
            ]
            if foreign:
                raise LogDirectoryError(
                    f"{self.path} holds the folder {min(foreign)!r} but no {META_PROPERTIES}, so it is "
                    "not the log directory of a broker; choose an empty one"
                )
            if known_by is not None:
                source = known_by / META_PROPERTIES
                raise LogDirectoryFailed(
                    f"log directory {self.path} is empty, although {source} says that this broker has used it: is its "
                    "disk mounted? If the disk is a new one, and what was on the old one may be lost: cp "
                    f"{source} {self.path}"
                )
            cluster_id = cluster_id or encode_topic_id(uuid.uuid4())
            properties = {"version": "0", "broker.id": str(self.broker_id), "cluster.id": cluster_id}
            write_durably(self._files, path, encode_properties(properties))
            return cluster_id
        try:
            properties = decode_properties(self._files.read(path))
        except MalformedFile as error:
            raise LogDirectoryError(f"{path}: {error}; restore the file or choose another log directory") from error
        expected = {"version": "0", "broker.id": str(self.broker_id), "cluster.id": cluster_id}
        for key, value in expected.items():
            found = properties.get(key)
            if found is None:
                raise LogDirectoryError(f"{path}: it lacks {key}; restore the file or choose another log directory")
            if value is not None and found != value:
                raise LogDirectoryError(
                    f"{path}: {key} is {found}, but this broker's is {value}; choose the directory or the {key} that "
                    "belongs to it"
                )
        return properties["cluster.id"]

    def remember(self, paths: Sequence[Path]) -> None:
        """Note the log directories of this broker. Raises LogDirectoryFailed."""
        path = self.path / META_PROPERTIES
        try:
            properties = decode_properties(self._files.read(path))
            names = _names(paths) if len(paths) > 1 else []
            if names != _known_names(properties):
                properties[_LOG_DIRS] = ",".join(names)
                write_durably(self._files, path, encode_properties(properties))
        except OSError as error:
            raise LogDirectoryFailed(f"log directory {self.path} cannot be used: {error.strerror}") from error

    def _find_partitions(self) -> list[TopicPartition]:
        self.purge_deleted()
        keys = []
        for entry in sorted(self._files.list(self.path)):
            if not entry.is_directory or entry.name in _FOREIGN_BUT_HARMLESS:
                continue
            if (key := parse_partition_name(entry.name)) is not None:
                keys.append(key)
            elif (moving := partition_folder.partition_of_future(entry.name)) is not None:
                self.futures.append((moving, self.path / entry.name))
            elif partition_folder.is_stray(entry.name):
                _logger.warning("%s is left as it is", self.path / entry.name)
            else:
                raise LogDirectoryError(
                    f"{self.path / entry.name} is not a partition's folder (topic-number); move it out of the log "
                    "directory"
                )
        return keys

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """A damaged checkpoint counts as none: the load then reads and checks all segments, and nothing is lost."""
        path = self.path / name
        if not self._files.exists(path):
            return {}
        try:
            return decode_offsets(self._files.read(path))
        except NewerVersion as error:
            raise LogDirectoryError(f"{path}: {error}; start the newer broker that wrote it") from error
        except MalformedFile as error:
            _logger.warning("%s: %s; going on without it", path, error)
            return {}

    def _read_topic_id(self, directory: Path, *, was_flushed: bool) -> uuid.UUID | None:
        path = directory / PARTITION_METADATA
        try:
            return decode_partition_metadata(self._files.read(path))
        except FileNotFoundError:
            return None
        except MalformedFile as error:
            if not was_flushed and not isinstance(error, NewerVersion):
                _logger.warning("%s: %s; the log was new when the broker stopped, so it is written anew", path, error)
                self._files.remove(path)
                return None
            raise LogDirectoryError(
                f"{path}: {error}; restore the file, or remove it if the topic id is lost"
            ) from error

    def _unlock(self) -> None:
        if self._lock is not None:
            self._files.close(self._lock)
            self._lock = None
