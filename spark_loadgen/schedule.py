"""The open-loop schedule: the intended send time of each record, independent of the run so far.

The intended time of a record is a pure function of (schedule, sequence, worker). Nothing that happens during a run
changes it: a stalled sender is late for every record of the stall, so coordinated omission cannot happen. A step to
another rate starts where the last step ended.

Rates are integrated first: the *position* x of an instant t is the expected number of records of all workers before t,
a piecewise linear function. With uniform arrivals, record n of all workers together is due at x = n. With Poisson
arrivals, each worker has a Poisson process of its own in x; their sum is one Poisson process. Both then invert the
function to find the instant at which x is reached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.counter_rng import ARRIVAL_PLACES, ARRIVALS_IN_SLICE, uniforms
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.windows import SECOND_NS

Arrival = Literal["uniform", "poisson"]

# A Poisson process is drawn in slices of this many records on average: first the number of records in a slice, then the
# place of each record in it.
_SLICE: Final = 512


@dataclass(frozen=True, slots=True)
class Step:
    """A rate of all producers together for `duration_s`; None (last step only) = until the end of the load."""

    rate_per_s: float
    duration_s: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate_per_s) and self.rate_per_s > 0):
            raise LoadSetupError(f"a rate of {self.rate_per_s:g}/s offers no load; it must be above 0")
        if self.duration_s is not None and not (math.isfinite(self.duration_s) and self.duration_s > 0):
            raise LoadSetupError(f"a step of {self.duration_s:g} s is too short; it must last longer than 0 s")


@dataclass(frozen=True, slots=True)
class OpenSchedule:
    """The planned rates: steps of the measured phase, and how arrivals are spread within the steps."""

    steps: tuple[Step, ...]
    arrival: Arrival = "uniform"

    def __post_init__(self) -> None:
        if not self.steps:
            raise LoadSetupError("a schedule without a step offers no load; name a rate")
        if any(step.duration_s is None for step in self.steps[:-1]):
            raise LoadSetupError("every step of a schedule except the last needs a duration")

    @classmethod
    def constant(cls, rate_per_s: float, arrival: Arrival = "uniform") -> OpenSchedule:
        return cls((Step(rate_per_s),), arrival)

    @property
    def duration_s(self) -> float | None:
        """The duration of all steps; None when the last step has none."""
        durations = [step.duration_s for step in self.steps]
        return None if durations[-1] is None else sum(duration for duration in durations if duration is not None)

    @property
    def rate_max_per_s(self) -> float:
        return max(step.rate_per_s for step in self.steps)

    def arrivals(self, workers: int, warmup_ns: int, duration_ns: int, seed: int) -> Schedule:
        """The schedule of a load: the first step's rate during warm-up, the steps from then on."""
        starts_ns, start_ns = [0], warmup_ns
        for step in self.steps[:-1]:
            assert step.duration_s is not None
            start_ns += round(step.duration_s * SECOND_NS)
            starts_ns.append(start_ns)
        rates = tuple(step.rate_per_s for step in self.steps)
        return Schedule(rates, tuple(starts_ns), workers, duration_ns, self.arrival, seed)


@dataclass(frozen=True)
class Schedule:
    """The due time of every record of every worker, in ns since T0.

    rates_per_s[k] is in force from starts_ns[k] until the next start, the last rate without end; starts_ns[0] is 0.
    The schedule ends at duration_ns; another duration_ns does not change the records before it.
    """

    rates_per_s: tuple[float, ...]
    starts_ns: tuple[int, ...]
    workers: int
    duration_ns: int
    arrival: Arrival = "uniform"
    seed: int = 0
    lead: float = 0.0
    """How far, in records, the first record is from the start: 0.5 puts each in the middle of its share of a step, so
    that no rounding moves a record into another step."""

    def until(self, duration_ns: int) -> Schedule:
        """The same schedule with another end."""
        return replace(self, duration_ns=duration_ns)

    def intended_ns(self, sequences: NDArray[np.int64], worker: int) -> NDArray[np.int64]:
        """Intended send times of `sequences` of one worker; sequences in ascending order without gaps."""
        if self.arrival == "uniform":
            # A float64 is exact to the ns for 104 days.
            positions = (sequences * self.workers + worker).astype(np.float64)
        else:
            positions = self._poisson_positions(sequences, worker)
        return self._instants_ns(positions)

    def count_before(self, instant_ns: int, worker: int) -> int:
        """How many records of `worker` are due before `instant_ns` and before the end of the schedule."""
        position = self._position(min(instant_ns, self.duration_ns))
        first, end = self._bracket(position, worker)
        # The bracket comes from rounded estimates; intended_ns decides.
        before = self.intended_ns(np.arange(first, end, dtype=np.int64), worker) < min(instant_ns, self.duration_ns)
        return first + int(np.count_nonzero(before))

    def total(self, worker: int) -> int:
        """How many records of `worker` the whole schedule has."""
        return self.count_before(self.duration_ns, worker)

    def offered_in_second(self, second: int, worker: int) -> int:
        start_ns = second * SECOND_NS
        return self.count_before(start_ns + SECOND_NS, worker) - self.count_before(start_ns, worker)

    # --- between instants and positions ------------------------------------------------------------------------------

    @cached_property
    def _corners(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Three arrays with one value per step: first instant, first position, ns per record."""
        starts_ns = np.array(self.starts_ns, dtype=np.float64)
        with np.errstate(divide="ignore"):  # a step of a trace may have no record: its gap is infinite
            gaps_ns = SECOND_NS / np.array(self.rates_per_s)
        positions = np.concatenate(([0.0], np.cumsum(np.diff(starts_ns) / gaps_ns[:-1]))) - self.lead
        return starts_ns, positions, gaps_ns

    def _instants_ns(self, positions: NDArray[np.float64]) -> NDArray[np.int64]:
        starts_ns, corners, gaps_ns = self._corners
        if len(corners) == 1:
            first_step_ns: NDArray[np.float64] = (positions + self.lead) * gaps_ns[0]
            return first_step_ns.astype(np.int64)
        step = np.searchsorted(corners, positions, side="right") - 1
        instants_ns: NDArray[np.float64] = starts_ns[step] + (positions - corners[step]) * gaps_ns[step]
        return instants_ns.astype(np.int64)

    def _position(self, instant_ns: int) -> float:
        starts_ns, corners, gaps_ns = self._corners
        step = max(0, int(np.searchsorted(starts_ns, instant_ns, side="right")) - 1)
        return float(corners[step] + (instant_ns - starts_ns[step]) / gaps_ns[step])

    def _bracket(self, position: float, worker: int) -> tuple[int, int]:
        """Two sequences of a worker: one that is certainly before the position, and one that certainly is not."""
        if self.arrival == "uniform":
            estimate = int((position - worker) / self.workers)
            return max(0, estimate - 2), max(0, estimate + 3)
        counts = self._slice_ends(worker)
        at = int(position / self.workers / _SLICE)
        return (int(counts[min(at - 1, len(counts)) - 1]) if at > 1 else 0), int(counts[min(at + 1, len(counts) - 1)])

    # --- Poisson arrivals --------------------------------------------------------------------------------------------

    @cached_property
    def _ends_of_workers(self) -> dict[int, NDArray[np.int64]]:
        return {}

    def _slice_ends(self, worker: int) -> NDArray[np.int64]:
        """How many records of `worker` are before the end of each slice. A longer schedule only adds slices."""
        if worker not in self._ends_of_workers:
            slices = int(self._position(self.duration_ns) / self.workers / _SLICE) + 3
            draws = uniforms(self.seed, ARRIVALS_IN_SLICE, worker, np.arange(slices, dtype=np.int64))
            self._ends_of_workers[worker] = np.cumsum(np.searchsorted(_POISSON_CUMULATED, draws, side="right"))
        return self._ends_of_workers[worker]

    def _poisson_positions(self, sequences: NDArray[np.int64], worker: int) -> NDArray[np.float64]:
        if not len(sequences):
            return np.zeros(0)
        ends = self._slice_ends(worker)
        first_slice, last_slice = np.searchsorted(ends, [sequences[0], sequences[-1]], side="right")
        start = int(ends[first_slice - 1]) if first_slice else 0
        whole = np.arange(start, ends[last_slice], dtype=np.int64)  # all records of the slices concerned
        slices = np.searchsorted(ends, whole, side="right")
        places = np.sort(slices + uniforms(self.seed, ARRIVAL_PLACES, worker, whole))
        return places[sequences - start] * (_SLICE * self.workers)


def _poisson_cumulated(mean: float) -> NDArray[np.float64]:
    """P(count <= k) for k = 0, 1, 2…, until float64 cannot distinguish it from 1."""
    counts = range(int(mean + 12 * math.sqrt(mean)) + 1)
    return np.cumsum([math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in counts])


_POISSON_CUMULATED: Final = _poisson_cumulated(_SLICE)
