"""The rule that makes a sink exactly once: write this batch, skip it as a replay, or refuse it. Pure.

Whoever holds the progress holds this promise: the rows of the sink are the records up to the stored end offsets, each
of them once. A batch may be written only if it begins where the progress ends.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from highwater.common.topic_partition import partition_name
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import SCHEMA_VERSION, BatchOf, Progress, ProgressError

_WAYS_OUT: Final = "begin there with resumeFrom at the source, or give the sink another name"


class Decision(Enum):
    """What to do with the batch in hand."""

    WRITE = "write"
    """Write the rows and `Progress.after(batch)` in one transaction."""
    SKIP = "skip"
    """The rows of this batch are stored already: write nothing."""


def decide(name: str, stored: Progress | None, batch: BatchOf, target: str = "", *, first_batch: int = 0) -> Decision:
    """Return what the sink `name` does with a batch. Raises ProgressError if nothing may be written.

    stored: the progress under this name, read after the sink has made sure that nobody else writes (a lock on the
    row, or an epoch that fences others); None if there is none.
    first_batch: where a sink begins that was added to a running query.
    """
    who = f"sink {name}"
    if stored is None:
        if batch.batch_id != first_batch:
            raise ProgressError(
                f"{who}: nothing is stored under this name, and the query is at its batch {batch.batch_id}: what came "
                f"before is missing here; first_batch={batch.batch_id} says that the sink was added to the query now"
            )
        return Decision.WRITE
    if stored.schema_version != SCHEMA_VERSION:
        raise ProgressError(
            f"{who}: its progress has schema version {stored.schema_version}, and this Highwater writes "
            f"{SCHEMA_VERSION}: use the Highwater that wrote it, or another name"
        )
    if stored.target != target:
        raise ProgressError(
            f"{who}: the name belongs to a sink that writes to {stored.target}, and this one writes to {target}: "
            "give each sink its own name"
        )
    if stored.query_id != batch.query_id:
        _check_that_it_goes_on(who, stored, batch)
        return Decision.WRITE
    if batch.batch_id <= stored.batch_id:
        beyond = _difference(batch.end_offsets, stored.end_offsets, operator.le)
        if (beyond := beyond or _not_stored(batch.end_offsets, stored.end_offsets)) is not None:
            raise ProgressError(
                f"{who}: batch {batch.batch_id} was stored, and now ends with {beyond}: the checkpoint is older than "
                f"the sink; {_WAYS_OUT}, both with a new checkpoint"
            )
        return Decision.SKIP
    _check_that_it_connects(who, stored, batch)
    return Decision.WRITE


def _check_that_it_goes_on(who: str, stored: Progress, batch: BatchOf) -> None:
    """A new query may take over where the one before it ended, and nowhere else."""
    what = f"{who}: query {stored.query_id} writes here and has stored its batch {stored.batch_id}; this is another"
    if not any(each.next for each in stored.end_offsets):
        raise ProgressError(f"{what}, and neither offsets nor a topic say where to go on: give the sink another name")
    if batch.start_offsets is None:
        raise ProgressError(f"{what}, and where it begins is not known: give the sink another name")
    if (gap := _difference(batch.start_offsets, stored.end_offsets, operator.eq, all_of_it=True)) is not None:
        raise ProgressError(f"{what}, which begins with {gap}: {_WAYS_OUT}")


def _check_that_it_connects(who: str, stored: Progress, batch: BatchOf) -> None:
    if batch.batch_id != stored.batch_id + 1:
        raise ProgressError(
            f"{who}: it has stored batch {stored.batch_id}, and this is batch {batch.batch_id}: the sink is older than "
            f"the checkpoint, or write was not called for a batch, be it empty; {_WAYS_OUT}, both with a new checkpoint"
        )
    if batch.start_offsets is None:
        return
    gap = _difference(batch.start_offsets, stored.end_offsets, operator.eq)
    if (gap := gap or _not_stored(batch.start_offsets, stored.end_offsets)) is not None:
        raise ProgressError(
            f"{who}: batch {batch.batch_id} begins with {gap}: the checkpoint was changed or is older than the sink; "
            f"{_WAYS_OUT}, both with a new checkpoint"
        )


def _difference(
    mine: Sequence[Offsets], stored: Sequence[Offsets], fits: Callable[[int, int], bool], *, all_of_it: bool = False
) -> str | None:
    """The first partition whose offsets do not fit, in words; None if all do.

    all_of_it: also a partition that is gone, or that is of a new topic with the same name, does not fit. Within one
    query, the source has reported it already, or is set to go on.
    """
    if len(mine) != len(stored):
        return f"{len(mine)} sources and not {len(stored)}"
    for my_source, its_source in zip(mine, stored, strict=True):
        for of, offset in sorted(its_source.next.items()):
            ids = my_source.id_of(of[0]), its_source.id_of(of[0])
            if of not in my_source.next or (None not in ids and ids[0] != ids[1]):
                if all_of_it:
                    gone = "without it" if of not in my_source.next else "with a new topic of this name"
                    return f"{partition_name(*of)} {gone} and not at offset {offset}"
            elif not fits(my_source.next[of], offset):
                return f"{partition_name(*of)} at offset {my_source.next[of]} and not {offset}"
    return None


def _not_stored(mine: Sequence[Offsets], stored: Sequence[Offsets]) -> str | None:
    """The first partition with records of which the stored offsets know nothing, in words; None if there is none.

    A checkpoint that is older than the sink plans its batches anew, perhaps with partitions that came in between.
    """
    for my_source, its_source in zip(mine, stored, strict=True):
        for of, offset in sorted(my_source.next.items() if its_source.next else ()):
            ids = my_source.id_of(of[0]), its_source.id_of(of[0])
            if offset and (of not in its_source.next or (None not in ids and ids[0] != ids[1])):
                return f"{partition_name(*of)} at offset {offset}, of which nothing is stored"
    return None
