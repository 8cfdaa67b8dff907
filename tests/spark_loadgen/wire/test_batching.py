from __future__ import annotations

import numpy as np
import pytest

from highwater.spark_loadgen.schedule import OpenSchedule
from highwater.spark_loadgen.windows import SECOND_NS
from highwater.spark_loadgen.wire.batching import ClosedLoopBatches, DueRecords, OpenLoopBatches

MS = 1_000_000


def scheduled(records_max: int, linger_ms: int, rate_per_s: float = 1000.0, workers: int = 1) -> OpenLoopBatches:
    schedule = OpenSchedule.constant(rate_per_s).arrivals(workers, 0, SECOND_NS, 0)
    return OpenLoopBatches(schedule, 0, records_max, linger_ms * MS)


def all_of(batches: OpenLoopBatches, step_ns: int) -> list[tuple[int, DueRecords]]:
    """(when, what) of everything that leaves while somebody looks every `step_ns`."""
    taken = []
    for elapsed_ns in range(0, 2 * SECOND_NS, step_ns):
        while (records := batches.take(elapsed_ns)) is not None:
            taken.append((elapsed_ns, records))
    return taken


@pytest.mark.parametrize("step_ms", [1, 7, 300])
@pytest.mark.parametrize(("records_max", "linger_ms"), [(1, 0), (10, 5), (10, 100), (3000, 5), (3000, 5000)])
def test_every_record_leaves_once_in_order_and_never_before_it_is_due(
    records_max: int, linger_ms: int, step_ms: int
) -> None:
    batches = scheduled(records_max, linger_ms)
    following = 0
    for elapsed_ns, records in all_of(batches, step_ms * MS):
        assert records.first == following
        assert 0 < records.count <= records_max
        intended_ns = batches.intended_ns(records)
        assert intended_ns[-1] <= elapsed_ns
        assert records.due_ns <= elapsed_ns < records.due_ns + max(step_ms, 1) * MS or step_ms > 1
        following += records.count
    assert following == 1000
    assert batches.next_ns > 2 * SECOND_NS


def test_a_batch_leaves_when_it_is_full_or_when_it_has_waited_enough() -> None:
    assert scheduled(10, 100).take(9 * MS - 1) is None
    assert scheduled(10, 100).take(9 * MS) == DueRecords(0, 10, 9 * MS)
    assert scheduled(10, 4).take(4 * MS) == DueRecords(0, 5, 4 * MS)
    assert scheduled(10, 4).take(4 * MS - 1) is None


def test_a_late_look_finds_full_batches_and_their_lateness() -> None:
    batches = scheduled(10, 4)
    late = [batches.take(100 * MS), batches.take(100 * MS)]
    assert late == [DueRecords(0, 10, 4 * MS), DueRecords(10, 10, 14 * MS)]


def test_an_earlier_end_cuts_the_schedule() -> None:
    batches = scheduled(10, 5000)
    batches.end_at(25 * MS)
    assert [records.count for _, records in all_of(batches, MS)] == [10, 10, 5]


def test_the_closed_loop_is_always_due_until_its_end() -> None:
    batches = ClosedLoopBatches(SECOND_NS, 10)
    assert batches.take(5) == DueRecords(0, 10, 5)
    second = batches.take(7)
    assert second == DueRecords(10, 10, 7)
    assert np.array_equal(batches.intended_ns(second), np.full(10, 7))
    assert batches.take(SECOND_NS) is None
    assert batches.next_ns > SECOND_NS
