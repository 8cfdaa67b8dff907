"""The log directories of a broker: each partition is in one, and each can fail without the others.

A broker that runs alone needs all of them at the start: without one, it would take its partitions for new, empty ones.
In a cluster the controller says which partitions are new, so a member starts without the directories that fail, and
their partitions wait until the directory is repaired and the broker restarted.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import LogDirectoryError, LogDirectoryFailed, SegmentsGone
from highwater.broker.log.log_directory import ConfigOf, Loading, LogDirectory, Progress
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.slices import Steps, run
from highwater.common.topic_partition import TopicPartition, partition_name

_logger = logging.getLogger(__name__)


class LogDirectories:
    def __init__(
        self, directories: Sequence[LogDirectory], lacking: Sequence[Path] = (), *, may_lack_some: bool = False
    ) -> None:
        """`lacking` could not be opened. With `may_lack_some` others may fail in `load`, but not all."""
        self.all = tuple(directories)
        self.lacking = list(lacking)
        """The directories that could not be used at the start."""
        self._may_lack_some = may_lack_some
        self._failed: set[LogDirectory] = set()
        self.is_closed = False
        self.interrupted_moves: list[tuple[TopicPartition, LogDirectory]] = []
        """(partition, destination) of the moves that the end of the last run interrupted; they begin again."""

    @property
    def live(self) -> list[LogDirectory]:
        return [directory for directory in self.all if directory not in self._failed]

    @property
    def is_complete(self) -> bool:
        """Whether all logs are within reach."""
        return not (self._failed or self.lacking)

    @property
    def home(self) -> Path:
        """The first directory that can be used: it has the files of the broker that belong to no partition."""
        return self.all[0].path

    def set_defaults(self, defaults: LogConfig) -> None:
        for directory in self.all:
            directory.defaults = defaults

    def load(self, config_of: ConfigOf, progress: Progress, threads: int = 1) -> None:
        """Load every partition of every directory. If one directory fails that must be there, all are closed again.

        Several `threads` recover logs that take long, of all directories side by side.
        """
        aside = ThreadPoolExecutor(threads, thread_name_prefix="recovery") if threads > 1 else None
        loading = {directory: directory.loading(config_of, progress, aside) for directory in self.all}
        try:
            try:
                for _ in range(2):
                    for directory, load in loading.items():
                        self._go_on(directory, load)
            finally:
                for load in loading.values():
                    load.close()
                if aside is not None:
                    aside.shutdown()
            if len(self.all) > 1:
                self._finish_moves()
        except LogDirectoryError:
            self.close(clean=False)
            raise
        except OSError as error:
            self.close(clean=False)
            raise LogDirectoryError(f"{error.filename} cannot be used: {error.strerror}") from error

    def _go_on(self, directory: LogDirectory, load: Loading) -> None:
        try:
            next(load, None)
        except LogDirectoryFailed as error:
            if not self._may_lack_some or len(self.all) == 1:
                raise
            self.all = tuple(other for other in self.all if other is not directory)
            self.lacking.append(directory.path)
            tell_of_lacking(directory.path, error)

    def _finish_moves(self) -> None:
        """Finish or undo the moves between directories that a crash interrupted."""
        places: dict[TopicPartition, LogDirectory] = {}
        for directory in self.all:
            for key in tuple(directory.logs):
                other = places.setdefault(key, directory)
                if other is directory:
                    continue
                if directory.has_moved_here(key) == other.has_moved_here(key):
                    raise LogDirectoryError(
                        f"{other.path} and {directory.path} both hold {partition_name(*key)}; "
                        "move one of the folders away"
                    )
                old, places[key] = (other, directory) if directory.has_moved_here(key) else (directory, other)
                old.delete_partition(*key)
        for key, directory in places.items():
            # The former folder may be in a directory that is lacking now, and is there again at the next start.
            if self.is_complete and directory.has_moved_here(key):
                directory.forget_move(directory.logs[key].directory)
        for directory in self.all:
            for key, future in directory.futures:
                if key in places:
                    directory.give_up_future(future, *key)
                    self.interrupted_moves.append((key, directory))
                else:
                    _logger.warning("%s is left as it is: the log is nowhere else", future)

    def get(self, key: TopicPartition) -> PartitionLog | None:
        return next((directory.logs[key] for directory in self.live if key in directory.logs), None)

    def gone(self, key: TopicPartition) -> SegmentsGone | None:
        """What to say of a partition that is in no directory, although one of them had its records on the disk."""
        for directory in self.live:
            if key in directory.gone and self.get(key) is None:
                place, last_offset = directory.path / partition_name(*key), directory.gone[key] - 1
                return SegmentsGone(
                    f"the segments of {place} are gone, and with them the records up to offset {last_offset}: "
                    f"put them back. To go on without these records, leave the folder there, empty (mkdir {place})"
                )
        return None

    def forget_gone(self, is_forgotten: Callable[[TopicPartition], bool]) -> None:
        """Forget partitions without segments: they are not of this broker any more."""
        for directory in self.live:
            directory.gone = {key: offset for key, offset in directory.gone.items() if not is_forgotten(key)}

    def keys(self) -> Iterator[TopicPartition]:
        return (key for directory in self.live for key in directory.logs)

    def is_out_of_reach(self, topic: str) -> bool:
        """Whether a failed directory has partitions of the topic: the next start will find them again."""
        return any(name == topic for directory in self._failed for name, _ in directory.logs)

    @property
    def latest_leader_epoch(self) -> int:
        """The latest leader epoch in any log, or −1."""
        return max((log.leader_epochs.latest for directory in self.live for log in directory.logs.values()), default=-1)

    def of(self, log: PartitionLog) -> LogDirectory:
        return next(directory for directory in self.all if directory.path == log.directory.parent)

    def create_partition(self, topic: str, partition: int, topic_id: uuid.UUID, config: LogConfig) -> PartitionLog:
        """Make a new log in the live directory that has the fewest logs."""
        directory = min(self.live, key=lambda directory: len(directory.logs))
        return directory.create_partition(topic, partition, topic_id, config)

    def begin_to_delete(self, topic: str, partition: int) -> None:
        for directory in self.live:
            if (topic, partition) in directory.logs:
                directory.begin_to_delete(topic, partition)

    def set_aside_unfinished(self, topic: str) -> None:
        run(self.setting_aside(topic))

    def setting_aside(self, topic: str) -> Steps[None]:
        for directory in self.live:
            yield from directory.setting_aside(topic)

    def expire_producers(self) -> None:
        for directory in self.live:
            directory.expire_producers()

    def fail(self, directory: LogDirectory) -> None:
        """Use a directory no more; its lock stays."""
        self._failed.add(directory)

    def close(self, *, clean: bool = True, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Close all. A directory that failed, or fails now, gets no mark of a clean stop and will be recovered."""
        self.is_closed = True
        failure: OSError | None = None
        for directory in self.all:
            try:
                directory.close(clean=clean and directory not in self._failed, high_watermarks=high_watermarks)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure


def tell_of_lacking(path: Path, error: LogDirectoryFailed) -> None:
    _logger.critical(
        "%s. The broker starts without %s: partitions there are offline on this broker until you repair the directory "
        "and restart the broker",
        error,
        path,
    )
