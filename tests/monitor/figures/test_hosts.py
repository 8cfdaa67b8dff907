"""Figures of hosts: golden values of rates, what the page cache served, and verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.monitor.figures.cluster import derive
from highwater.monitor.figures.hosts import HostFigures, served_ratio, verdict
from highwater.monitor.figures.rows import Level
from highwater.monitor.model import Host
from tests.monitor.agents import DRIFT, GIB, TUNING, with_hosts
from tests.monitor.clusters import window


def rows(*names: str, ticks: int = 4) -> dict[str, HostFigures]:
    return dict(derive(with_hosts(window(ticks=ticks), *names)).hosts)


def test_golden_rates() -> None:
    row = rows("h1")["h1"]
    assert row.cpu_ratio == pytest.approx(0.5)
    assert row.steal_ratio == pytest.approx(0.01)
    assert row.io_wait_ratio == pytest.approx(0.25)
    assert row.read_bytes_per_s == pytest.approx(10e6)
    assert row.written_bytes_per_s == pytest.approx(50e6)
    assert row.busiest_disk_ratio == pytest.approx(0.4)
    assert row.page_cache_bytes == 5 * GIB
    assert (row.unwritten_bytes, row.unwritten_ratio) == (GIB // 2, 0.25)
    (broker,) = row.processes
    assert broker.cpu_cores == pytest.approx(0.5)
    assert broker.sent_bytes_per_s == pytest.approx(100e6)
    assert broker.cache_served_ratio == pytest.approx(0.9)
    assert broker.request_bytes == pytest.approx(50_000)
    assert (row.level, row.sentence) == (Level.OK, "Tuning in place: 25 settings in effect, 2 of them after a restart.")
    assert row.brokers == (0,)


def test_before_the_second_answer_there_are_no_rates() -> None:
    row = rows("h1", ticks=1)["h1"]
    assert (row.cpu_ratio, row.read_bytes_per_s, row.processes[0].cache_served_ratio) == (None, None, None)
    assert row.page_cache_bytes == 5 * GIB


def test_after_a_reboot_rates_begin_anew() -> None:
    snapshots = with_hosts(window(ticks=4), "h1")
    host = snapshots[-1].hosts["h1"]
    assert host.answer is not None
    booted = replace(host, answer=replace(host.answer, boot_id="boot-2", monotonic_ms=1000))
    row = derive([*snapshots[:-1], replace(snapshots[-1], hosts={"h1": booted})]).hosts["h1"]
    assert (row.cpu_ratio, row.written_bytes_per_s) == (None, None)


def test_of_a_broker_that_was_started_again_nothing_is_compared() -> None:
    snapshots = with_hosts(window(ticks=4), "h1")
    host = snapshots[-1].hosts["h1"]
    assert host.answer is not None
    process = replace(host.answer.brokers[0], process_id=78, cpu_s=0.0, read_bytes=0)
    other = replace(host, answer=replace(host.answer, brokers=(process,)))
    row = derive([*snapshots[:-1], replace(snapshots[-1], hosts={"h1": other})]).hosts["h1"]
    assert row.processes[0].cache_served_ratio is None
    assert row.cpu_ratio == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("read", "sent", "served"),
    [(10.0, 100.0, 0.9), (0.0, 5.0, 1.0), (200.0, 100.0, 0.0), (None, 1.0, None), (1.0, None, None), (0.0, 0.0, None)],
)
def test_what_the_page_cache_served(read: float | None, sent: float | None, served: float | None) -> None:
    assert served_ratio(read, sent) == served


def test_verdicts() -> None:
    good = rows("h1", "h2", "h3")
    assert verdict(list(good.values())) == (Level.OK, "The tuning of all 3 hosts is in place.")
    drifted = with_hosts(window(), "h3", tuning=replace(TUNING, drift=(DRIFT,)))
    row = derive(drifted).hosts["h3"]
    assert row.sentence == "vm.dirty_ratio is 20, applied was 10."
    told = verdict([good["h1"], good["h2"], row])
    assert told == (Level.WARN, "The tuning of 2 of 3 hosts is in place; h3: vm.dirty_ratio is 20, applied was 10.")
    assert verdict([good["h1"]]) == (Level.OK, "The host's tuning is in place.")


@pytest.mark.parametrize(
    ("tuning", "level", "sentence"),
    [
        (None, Level.UNKNOWN, "Its tuning is not known."),
        (
            replace(TUNING, profile="", differs_from_recommended=14),
            Level.OK,
            "No tuning is applied; highwater tune would change 14 settings.",
        ),
        (
            replace(TUNING, drift=(DRIFT, replace(DRIFT, target="sda"))),
            Level.WARN,
            "vm.dirty_ratio is 20, applied was 10; 1 more setting is not as applied.",
        ),
        (replace(TUNING, interrupted="undo it"), Level.WARN, "A change of its tuning was interrupted: undo it."),
    ],
)
def test_what_is_said_of_a_host(tuning: object, level: Level, sentence: str) -> None:
    row = derive(with_hosts(window(), "h", tuning=tuning)).hosts["h"]  # type: ignore[arg-type]
    assert (row.level, row.sentence) == (level, sentence)


def test_a_host_that_is_silent() -> None:
    snapshots = with_hosts(window(), "h")
    never = Host("h", "a", error="its agent cannot be reached: Connection refused")
    row = derive([replace(snapshots[-1], hosts={"h": never})]).hosts["h"]
    assert (row.level, row.cpu_ratio) == (Level.UNKNOWN, None)
    assert row.sentence == "Nothing is known about it: its agent cannot be reached: Connection refused."
    old = replace(snapshots[-1].hosts["h"], as_of_ms=snapshots[-1].taken_at_ms - 120_000, error="no answer within 10 s")
    row = derive([*snapshots[:-1], replace(snapshots[-1], hosts={"h": old})]).hosts["h"]
    assert (row.level, row.sentence) == (Level.UNKNOWN, "This data is 2 min old: no answer within 10 s.")


def test_writers_that_wait_for_the_disk() -> None:
    snapshots = with_hosts(window(), "h")
    host = snapshots[-1].hosts["h"]
    assert host.answer is not None
    full = replace(host.answer, memory=replace(host.answer.memory, dirty_bytes=GIB, writeback_bytes=GIB))
    row = derive([replace(snapshots[-1], hosts={"h": replace(host, answer=full)})]).hosts["h"]
    assert row.level is Level.WARN
    assert "100 % of the unwritten bytes that the kernel allows" in row.sentence
