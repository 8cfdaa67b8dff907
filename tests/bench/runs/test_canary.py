from __future__ import annotations

from pathlib import Path

from highwater.bench.runs.canary import reasons, slow_blocks, take
from highwater.results.canary import BlockCanary, CanaryReading

USUAL = CanaryReading(cpu_ns=1000, memory_ns=1000, disk_ns=1000, loopback_ns=1000)


def reading(**changes: int | None) -> CanaryReading:
    return USUAL.model_copy(update=changes)


def test_every_probe_gives_a_time_and_leaves_no_file(tmp_path: Path) -> None:
    taken = take(tmp_path)
    assert taken.disk_ns is not None
    assert min(taken.cpu_ns, taken.memory_ns, taken.disk_ns, taken.loopback_ns) > 0
    assert list(tmp_path.iterdir()) == []
    assert take(None).disk_ns is None


def test_the_first_block_has_nothing_to_be_compared_with() -> None:
    assert reasons([reading(cpu_ns=10**9)], 2.0) == []


def test_a_slower_probe_is_named_with_its_figures() -> None:
    (reason,) = reasons([USUAL, USUAL, reading(disk_ns=2500)], 2.0)
    assert (reason.check, reason.value, reason.limit) == ("canary.disk", 2.5, 2.0)
    assert "2.5 times" in reason.text


def test_a_faster_host_and_one_within_the_limit_pass() -> None:
    assert reasons([USUAL, reading(cpu_ns=10, memory_ns=2000)], 2.0) == []


def test_a_probe_that_does_not_apply_is_not_compared() -> None:
    assert reasons([reading(disk_ns=None), reading(disk_ns=10**9)], 2.0) == []
    assert reasons([USUAL, reading(disk_ns=None)], 2.0) == []


def test_looking_back_finds_a_slow_first_block() -> None:
    limits = {"validity": {"canary_ratio_max": 3.0}}
    slow, usual = reading(cpu_ns=5000), USUAL
    assert slow_blocks(blocks(slow, usual), {}) == []
    (line,) = slow_blocks(blocks(slow, usual, usual), limits)
    assert line.startswith("block 1: the host was slower than in the run's other blocks: hashing 1 MiB took 5 µs")


def blocks(*readings: CanaryReading) -> list[BlockCanary]:
    return [BlockCanary(block=block, at_utc="", reading=taken) for block, taken in enumerate(readings, start=1)]
