from __future__ import annotations

import numpy as np
import pytest

from highwater.spark_loadgen.schedule import OpenSchedule
from highwater.spark_loadgen.windows import SECOND_NS
from highwater.spark_loadgen.wire.departures import ClosedDepartures, Departure, ScheduledDepartures

MS = 1_000_000


def scheduled(records_max: int, linger_ms: int, rate_per_s: float = 1000.0, workers: int = 1) -> ScheduledDepartures:
    schedule = OpenSchedule.constant(rate_per_s).arrivals(workers, 0, SECOND_NS, 0)
    return ScheduledDepartures(schedule, 0, records_max, linger_ms * MS)


def all_of(departures: ScheduledDepartures, step_ns: int) -> list[tuple[int, Departure]]:
    """(when, what) of everything that leaves while somebody looks every `step_ns`."""
    taken = []
    for elapsed_ns in range(0, 2 * SECOND_NS, step_ns):
        while (departure := departures.take(elapsed_ns)) is not None:
            taken.append((elapsed_ns, departure))
    return taken


@pytest.mark.parametrize("step_ms", [1, 7, 300])
@pytest.mark.parametrize(("records_max", "linger_ms"), [(1, 0), (10, 5), (10, 100), (3000, 5), (3000, 5000)])
def test_every_record_leaves_once_in_order_and_never_before_it_is_due(
    records_max: int, linger_ms: int, step_ms: int
) -> None:
    departures = scheduled(records_max, linger_ms)
    following = 0
    for elapsed_ns, departure in all_of(departures, step_ms * MS):
        assert departure.first == following
        assert 0 < departure.count <= records_max
        intended_ns = departures.intended_ns(departure)
        assert intended_ns[-1] <= elapsed_ns
        assert departure.due_ns <= elapsed_ns < departure.due_ns + max(step_ms, 1) * MS or step_ms > 1
        following += departure.count
    assert following == 1000
    assert departures.next_ns > 2 * SECOND_NS


def test_a_batch_leaves_when_it_is_full_or_when_it_has_waited_enough() -> None:
    assert scheduled(10, 100).take(9 * MS - 1) is None
    assert scheduled(10, 100).take(9 * MS) == Departure(0, 10, 9 * MS)
    assert scheduled(10, 4).take(4 * MS) == Departure(0, 5, 4 * MS)
    assert scheduled(10, 4).take(4 * MS - 1) is None


def test_a_late_look_finds_full_batches_and_their_lateness() -> None:
    departures = scheduled(10, 4)
    late = [departures.take(100 * MS), departures.take(100 * MS)]
    assert late == [Departure(0, 10, 4 * MS), Departure(10, 10, 14 * MS)]


def test_an_earlier_end_cuts_the_schedule() -> None:
    departures = scheduled(10, 5000)
    departures.end_at(25 * MS)
    assert [departure.count for _, departure in all_of(departures, MS)] == [10, 10, 5]


def test_the_closed_loop_is_always_due_until_its_end() -> None:
    departures = ClosedDepartures(SECOND_NS, 10)
    assert departures.take(5) == Departure(0, 10, 5)
    second = departures.take(7)
    assert second == Departure(10, 10, 7)
    assert np.array_equal(departures.intended_ns(second), np.full(10, 7))
    assert departures.take(SECOND_NS) is None
    assert departures.next_ns > SECOND_NS
