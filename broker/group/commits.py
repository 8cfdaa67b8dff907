"""The offsets that clients commit, fetch and delete: in the groups of this broker and in their log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.group.events import Committer
from highwater.broker.group.groups import STORE_ERRORS, Group, Groups
from highwater.broker.group.members import CONSUMER
from highwater.broker.group.offsets import CommittedOffset, End, GroupOffsets
from highwater.broker.group.schemas import OffsetKey, encode_offset, encode_offset_key
from highwater.broker.replica.partition import Verify
from highwater.broker.topics.internal_topic import KeyValue, fits
from highwater.common.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, CommittedOffset]
Outcomes = Mapping[TopicPartition, ErrorCode]


class Commits:
    def __init__(self, groups: Groups, max_metadata_length: int, group_version: Callable[[], int]) -> None:
        """`group_version`: the level of that feature."""
        self._groups = groups
        self._group_version = group_version
        self._max_metadata_length = max_metadata_length

    def commit(self, group_id: str, committer: Committer, offsets: Offsets, answer: Callable[[Outcomes], None]) -> None:
        error = self._groups.refusal(group_id, may_be_empty=True)
        group = None if error else self._group_of(group_id, committer)
        if group is not None:
            error = group.members.check_commit(committer, offsets, self._groups.now())
            self._groups.schedule(group)
        if group is None or error is not None:
            answer(dict.fromkeys(offsets, error or ErrorCode.group_id_not_found))
        else:
            self._append(group_id, offsets, group.offsets.begin_commit, answer)

    def commit_in_transaction(
        self,
        group_id: str,
        committer: Committer,
        producer: tuple[int, int],
        verify: Verify | None,
        offsets: Offsets,
        answer: Callable[[Outcomes], None],
        *,
        by_version_2: bool = False,
    ) -> None:
        """Add offsets to the transaction of the producer (id, epoch), if `verify` allows it.

        `verify` is None if this broker did not coordinate the group when the transaction was verified.
        """
        partition = self._groups.topic.partition(group_id)
        error = self._groups.refusal(group_id)
        if error is None and partition is not None and partition.would_begin(*producer, by_version_2=by_version_2):
            refusal = ErrorCode.not_coordinator if verify is None else verify(*producer)
            error = COMMIT_ERRORS.get(refusal, refusal) or None
        group = None if error else self._group_of(group_id, committer)
        if group is not None:
            error = group.members.check_transactional_commit(committer, offsets)
        if group is None or error is not None:
            answer(dict.fromkeys(offsets, error or ErrorCode.group_id_not_found))
            return
        undecided, producer_id = group.offsets, producer[0]

        def begin(accepted: Offsets) -> End:
            self._groups.undecided.setdefault(producer_id, set()).add(group_id)
            return undecided.begin_in_transaction(producer_id, accepted)

        self._append(group_id, offsets, begin, answer, producer, by_version_2=by_version_2)

    def _group_of(self, group_id: str, committer: Committer) -> Group | None:
        """The group to commit in. One that is not there is made for whoever is no member; None for others."""
        group = self._groups.by_id.get(group_id)
        return self._groups.add(group_id) if group is None and committer.generation_id < 0 else group

    def _append(
        self,
        group_id: str,
        offsets: Offsets,
        begin: Callable[[Offsets], End],
        answer: Callable[[Outcomes], None],
        producer: tuple[int, int] | None = None,
        *,
        by_version_2: bool = False,
    ) -> None:
        """Append the offsets whose metadata are not too long; `begin` notes them in the group."""
        accepted = {key: offset for key, offset in offsets.items() if self._is_short(offset.metadata)}
        outcomes = dict.fromkeys(offsets, ErrorCode.offset_metadata_too_large)
        if not accepted:
            answer(outcomes)
            return
        end = begin(accepted)

        def written(error: ErrorCode) -> None:
            end(not error)
            self._groups.counters.offsets_committed += 0 if error else len(accepted)

        def answer_commit(error: ErrorCode) -> None:
            answer(outcomes | dict.fromkeys(accepted, COMMIT_ERRORS.get(error, error)))

        self._groups.append(
            group_id,
            self._records(group_id, accepted),
            answer_commit,
            producer,
            by_version_2=by_version_2,
            # What the log takes late counts too: so it does for whoever reads it back.
            however_late=written,
        )

    def transaction_ended(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """Commit or drop the offsets of a transaction whose marker is durable in that partition of the topic.

        A partition that is still being read needs no call: the reading finds the marker.
        """
        groups = self._groups.undecided.get(producer_id, set())
        for group_id in tuple(groups):
            group = self._groups.by_id.get(group_id)
            if group is not None and group.partition_index != partition:
                continue
            groups.discard(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, is_commit=is_commit)
                self._groups.bury(group_id, group, [])
        if not groups:
            self._groups.undecided.pop(producer_id, None)

    def _records(self, group_id: str, offsets: Offsets) -> list[KeyValue]:
        # From that level on no broker is in the cluster that may not understand the newest format.
        with_topic_id = self._group_version() >= 1
        return [
            (
                encode_offset_key(OffsetKey(group_id, topic, partition)),
                encode_offset(offset, with_topic_id=with_topic_id),
            )
            for (topic, partition), offset in offsets.items()
        ]

    def _is_short(self, metadata: str) -> bool:
        return len(metadata) <= self._max_metadata_length and fits(metadata)

    def of_group(self, group_id: str, member_id: str | None = None, member_epoch: int = -1) -> ErrorCode | GroupOffsets:
        """Return the committed offsets of a group; none for an unknown group."""
        if (error := self._groups.refusal(group_id, may_be_empty=True)) is not None:
            return error
        group = self._groups.by_id.get(group_id)
        if group is None:
            return GroupOffsets()
        return group.members.check_fetch(member_id, member_epoch) or group.offsets

    def delete(
        self, group_id: str, partitions: Iterable[TopicPartition], answer: Callable[[ErrorCode | Outcomes], None]
    ) -> None:
        """Delete committed offsets. Answers an error code for each of `partitions`, or one for all."""
        group = self._groups.by_id.get(group_id)
        error = self._groups.refusal(group_id)
        if error is None and group is None:
            error = ErrorCode.group_id_not_found
        if error is not None or group is None:
            answer(error or ErrorCode.group_id_not_found)
            return
        members = group.members
        if not members.is_empty and members.protocol_type != CONSUMER:
            answer(ErrorCode.non_empty_group)
            return
        is_read = {key: members.reads_topic(key[0]) for key in partitions}
        outcomes = {
            key: ErrorCode.group_subscribed_to_topic if reads else ErrorCode.none for key, reads in is_read.items()
        }
        removed = group.offsets.remove([key for key, reads in is_read.items() if not reads])

        def written(error: ErrorCode) -> None:
            answer(COMMIT_ERRORS.get(error, error) if error else outcomes)

        self._groups.bury(group_id, group, removed, written)


COMMIT_ERRORS: Final = STORE_ERRORS | {
    # The transaction coordinator on another broker could not be reached; clients retry after this error.
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
    ErrorCode.request_timed_out: ErrorCode.request_timed_out,
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.record_list_too_large: ErrorCode.invalid_commit_offset_size,
}
"""The errors of a commit that the log refuses (GroupMetadataManager.maybeConvertOffsetCommitError)."""
