"""Hosts with clocks of their own, played by processes whose monotonic clock is set hours off."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import pytest

from highwater.common import child_process
from highwater.results.histogram import Histogram
from highwater.spark_loadgen import process_launcher
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.model import LoadResult
from highwater.spark_loadgen.process_launcher import ProcessLauncher
from highwater.spark_loadgen.windows import SECOND_NS
from tests.spark_loadgen.conftest import PlanMaker

HOURS_OFF_NS = 5 * 3600 * SECOND_NS
ELSEWHERE = f"""\
import sys, time
here = time.monotonic_ns
time.monotonic_ns = lambda: here() + {HOURS_OFF_NS}
import highwater.spark_loadgen.channel
highwater.spark_loadgen.channel.clock_name = lambda: "the clock of another host"
from highwater.spark_loadgen.process_worker import main
main()
"""


@pytest.fixture
def two_hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessLauncher]:
    """Every other process, from the second, is on the other host."""
    numbers = itertools.count()
    here = child_process.program

    def program(module: str) -> list[str]:
        return here(module) if next(numbers) % 2 == 0 else [sys.executable, "-c", ELSEWHERE]

    monkeypatch.setattr(process_launcher, "program", program)
    with ProcessLauncher() as launcher:
        yield launcher


def end_to_end(result: LoadResult) -> Histogram:
    return Histogram.merged(result.histograms["e2e_response"].values())


def test_latency_between_hosts_is_measured_by_the_offset_of_their_clocks(
    two_hosts: ProcessLauncher, make_plan: PlanMaker
) -> None:
    result = two_hosts.run(make_plan(measure_s=1))
    assert (result.delivery.received, result.delivery.lost) == (2000, 0)
    assert result.e2e_clock == "measured_offset"
    assert 0 < result.generator.clock_error_ns < SECOND_NS
    assert result.generator.clock_drift_ns < SECOND_NS
    # Hours would be in it, or nothing but negative samples.
    assert end_to_end(result).count + result.negative_samples == 2000
    assert 0 < end_to_end(result).max < 60 * SECOND_NS


def test_pairs_need_no_comparison_of_clocks(two_hosts: ProcessLauncher, make_plan: PlanMaker) -> None:
    result = two_hosts.run(make_plan(producers=2, consumers_per_group=2, pairs=True, measure_s=1))
    assert (result.delivery.received, result.delivery.lost, result.negative_samples) == (2000, 0, 0)
    assert (result.e2e_clock, result.generator.clock_error_ns) == ("same_host_monotonic", 0)
    assert end_to_end(result).count == 2000


def test_a_pair_is_not_parted(two_hosts: ProcessLauncher, make_plan: PlanMaker) -> None:
    with pytest.raises(LoadSetupError, match=r"pairs need a producer and its consumer on one host, .* 1 of 2 tasks"):
        two_hosts.run(make_plan(pairs=True))
