"""The log directories of a host's processes: their lock, their number, the journal of the metadata.

DIR/.lock             held by the parent
DIR/processes.json    how many processes there were, and the broker id of the first
DIR/metadata/         the journal, in one of the directories
DIR/process-N/        the log directory of a process, with its own lock
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from highwater.broker.cluster import znodes
from highwater.broker.log.checkpoint import META_PROPERTIES
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import FileOperations
from highwater.broker.server.process_marker import read_marker, write_marker
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.quota_entities import Entity
from highwater.broker.settings.store import MetadataError
from highwater.broker.tree.journal import Journal
from highwater.broker.tree.tree import Tree
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.login.scram import ScramMechanism

JOURNAL_DIRECTORY: Final = "metadata"
_LOCK: Final = ".lock"
_MOST_NAMES: Final = 3


class ProcessHome:
    journal: Journal
    """Set by `open_journal`."""

    def __init__(self, files: FileOperations, paths: Sequence[Path], base_id: int) -> None:
        """Lock the directories, and make those that are missing. Raises LogDirectoryError.

        It refuses directories of another kind of broker, and of processes with other broker ids.
        """
        self._files = files
        self._paths = [path.absolute() for path in paths]
        self._base_id = base_id
        self._locks: list[int] = []
        self.count_before = 0
        """How many processes there were in the last run; 0 if there was none."""
        try:
            for path in self._paths:
                self._take(path)
        except BaseException:
            self.close()
            raise

    def _take(self, path: Path) -> None:
        try:
            if not self._files.exists(path):
                self._files.make_directory(path)
                self._files.sync_directory(path.parent)
            if self._files.exists(path / META_PROPERTIES):
                raise LogDirectoryError(
                    f"{path} was used by a broker that is one process ({META_PROPERTIES}), and cannot be divided: "
                    "choose an empty directory, and copy the topics with `highwater broker mirror`"
                )
            lock = self._files.lock(path / _LOCK)
            if lock is None:
                raise LogDirectoryError(f"log directory {path} is in use by another broker; stop it or choose another")
            self._locks.append(lock)
            count, base_id = read_marker(self._files, path)
        except OSError as error:
            raise LogDirectoryError(f"log directory {path} cannot be used: {error.strerror}") from error
        if count and base_id != self._base_id:
            raise LogDirectoryError(
                f"{path} belongs to processes whose first broker.id is {base_id}, not {self._base_id}: set "
                f"broker.id={base_id}, or choose another directory"
            )
        self.count_before = max(self.count_before, count)

    def open_journal(self, count: int, scram_login: tuple[ScramMechanism, str] | None = None) -> Journal:
        """Recover the tree of the processes, of which there will be so many, and note that.

        Raises MetadataError, also when the user is missing as whom the processes log in to each other (`scram_login`),
        and LogDirectoryError when fewer processes would leave replicas behind.
        """
        if scram_login is not None and not self.count_before:
            raise MetadataError(_missing_user(*scram_login))
        at = [path for path in self._paths if self._files.exists(path / JOURNAL_DIRECTORY)]
        if not at and self.count_before:
            raise MetadataError(
                f"none of the log directories has {JOURNAL_DIRECTORY}/, the metadata of the {self.count_before} "
                "processes: name all of them in log.dirs, or restore it from a copy"
            )
        directory = (at or self._paths)[0] / JOURNAL_DIRECTORY
        try:
            self.journal = Journal(self._files, directory)
            self._refuse_to_leave_replicas(self.journal.tree, count)
            if scram_login is not None:
                self._refuse_without_user(self.journal.tree, *scram_login)
            for path in self._paths:
                write_marker(self._files, path, count, self._base_id)
        except OSError as error:
            raise MetadataError(f"{directory} cannot be used: {error.strerror}") from None
        return self.journal

    def _refuse_to_leave_replicas(self, tree: Tree, count: int) -> None:
        """Replicas that a partition has, and those that it is to get."""
        staying = range(self._base_id, self._base_id + count)
        left: list[str] = []
        ids: set[int] = set()
        moving = self._asked_to_move(tree)
        for path, node in tree.nodes.items():
            parent, _, topic = path.rpartition("/")
            if parent != metadata_tree.TOPICS:
                continue
            try:
                _, assignment = metadata_tree.parse_topic(json.loads(node.data))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise MetadataError(f"the metadata of topic {topic} cannot be understood: {error}") from None
            for partition, replicas in assignment.items():
                concerned = [*replicas, *moving.get((topic, int(partition)), ())]
                if leaving := [replica for replica in concerned if replica not in staying]:
                    ids.update(leaving)
                    left.append(f"{topic}-{partition}")
        if left:
            self.journal.close()
            more = f", … ({len(left)} in all)" if len(left) > _MOST_NAMES else ""
            options = " ".join(f"--without-broker {broker_id}" for broker_id in sorted(ids))
            raise LogDirectoryError(
                f"{count} processes are too few: those that would go have, or are to get, replicas of "
                f"{', '.join(left[:_MOST_NAMES])}{more}; start {self.count_before} again and move them with "
                f"`highwater broker reassign --balance {options}`"
            )

    def _asked_to_move(self, tree: Tree) -> Mapping[TopicPartition, tuple[int, ...]]:
        """What tools of old asked for: the controller takes it up whenever there is one, and adds these replicas."""
        node = tree.nodes.get(znodes.REASSIGN_PARTITIONS)
        try:
            return {} if node is None else znodes.read(node.data, znodes.parse_reassignment)
        except ValueError:
            return {}  # the controller ignores it too

    def _refuse_without_user(self, tree: Tree, mechanism: ScramMechanism, user: str) -> None:
        """Processes that cannot log in to each other would wait for each other, and never be ready."""
        node = tree.nodes.get(metadata_tree.quota_path(Entity(user, None)))
        try:
            known = {} if node is None else metadata_tree.parse_scram_credentials(json.loads(node.data))
        except (ValueError, KeyError, TypeError, AttributeError):
            known = {}
        if mechanism not in known:
            self.journal.close()
            raise MetadataError(_missing_user(mechanism, user))

    def close(self) -> None:
        """Release the locks."""
        for lock in self._locks:
            self._files.close(lock)
        self._locks.clear()


def _missing_user(mechanism: ScramMechanism, user: str) -> str:
    return (
        f"the processes log in to each other as User:{user} with {mechanism.text}, and there is no such user yet: "
        "start with sasl.mechanism.inter.broker.protocol=PLAIN or another inter.broker.listener.name, and create it "
        f"with `highwater broker users --create --user {user} --mechanism {mechanism.text}`"
    )
