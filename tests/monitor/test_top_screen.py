"""The screen of `highwater top`: it fits, the worst comes first, and names cannot steer the terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from highwater.kafka.client.host_processes import HostProcesses
from highwater.monitor.events import Event, EventKind
from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.model import Broker, ConfigValue, Snapshot
from highwater.monitor.state import Cost, MonitorState
from highwater.monitor.top_screen import screen
from tests.monitor import clusters

STATE = MonitorState(started_ms=0, tick_s=5.0, cost=Cost(requests=12))


def shown(
    view: tuple[Snapshot, Figures],
    height: int | None,
    width: int = 80,
    state: MonitorState = STATE,
    events: Sequence[Event] = (),
) -> list[str]:
    output = io.StringIO()
    console = Console(file=output, width=width, color_system=None, legacy_windows=False)
    console.print(screen(*view, state, width, height, events))
    return output.getvalue().splitlines()


def view_of(shape: clusters.Shape) -> tuple[Snapshot, Figures]:
    window = clusters.window(shape)
    return window[-1], derive(window)


@pytest.mark.parametrize("height", [24, 30, 50])
@pytest.mark.parametrize("hostile", [False, True])
def test_it_fits_and_says_what_is_left_out(height: int, hostile: bool) -> None:
    view = view_of(clusters.Shape(topics=60, partitions=300, groups=60, brokers=9, hostile=hostile))
    lines = shown(view, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(view[1].sentence[:40])
    assert "topics more" in lines[-1] or "…" in lines[-1]
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("height", [24, 50, None])
def test_what_changed_is_at_the_end_and_a_cause_is_one_line(height: int | None) -> None:
    view = view_of(clusters.Shape(topics=60, partitions=300, groups=60, brokers=9))
    gone = Event(5_000, EventKind.BROKER_GONE, "broker", "3", "broker 3 is gone")
    moved = [Event(5_000, EventKind.LEADER_CHANGE, "partition", f"t-{number}", "…", "3", "1") for number in range(17)]
    older = [Event(at_ms, EventKind.GROUP_GONE, "group", "\x1b[2J", f"group {at_ms} \x1b[2J") for at_ms in (4, 3, 2)]
    lines = shown(view, height, events=[*moved, gone, *older])
    assert len(lines) == height or height is None
    assert lines[-4] == "00:00:05 broker 3 is gone: 17 partitions have new leaders"
    assert [line[:16] for line in lines[-3:-1]] == ["00:00:00 group 4", "00:00:00 group 3"]
    assert "\x1b" not in "".join(lines)


def test_a_small_cluster_is_shown_whole() -> None:
    view = view_of(clusters.SMALL)
    lines = shown(view, None, width=200)
    text = "\n".join(lines)
    assert all(name in text for name in view[0].groups)
    assert all(name in text for name, topic in view[1].topics.items() if not topic.is_internal)
    assert "more" not in lines[-1]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_screen_leaves_out_columns_and_cuts_no_figure(width: int) -> None:
    view = view_of(clusters.Shape(topics=6, partitions=30, groups=6, brokers=3))
    lines = shown(view, 40, width)
    assert max(map(len, lines)) <= width
    begin = next(number for number, line in enumerate(lines) if line.startswith("TOPIC"))
    rows = lines[begin + 1 : -1]
    lags = {f"{topic.worst_lag:,}" for topic in view[1].topics.values() if topic.worst_lag is not None}
    assert {row.split()[-1] for row in rows} == lags
    assert not any("…" in row.partition(" ")[2] for row in rows)


def test_the_processes_of_one_host_are_shown_as_such() -> None:
    def process(number: int) -> Broker:
        told = {"highwater.processes": "3", "highwater.process": str(number), "broker.rack": "host-a"}
        config = {name: ConfigValue(value, "STATIC_BROKER_CONFIG") for name, value in told.items()}
        return replace(clusters.broker(7 + number), config=config)

    snapshot = replace(clusters.snapshot(), brokers={7 + number: process(number) for number in range(3)}, controller=7)
    figures = derive([snapshot])
    assert figures.totals.processes == HostProcesses("host-a", 3, 7)
    assert "3 processes of one host, " in figures.sentence
    assert any(line.startswith("3/3 processes, 1 host · ") for line in shown((snapshot, figures), None))
    others = {**snapshot.brokers, 3: clusters.broker(3)}
    assert derive([replace(snapshot, brokers=others)]).totals.processes == HostProcesses("host-a", 3, 7), "not told yet"


def test_a_name_cannot_steer_the_terminal() -> None:
    name = "\x1b[2J\u202eevil\n[bold]"
    snapshot = clusters.snapshot(
        topics=[clusters.topic("t", clusters.partition("t", end=5))], groups=[clusters.group(name, {("t", 0): 1})]
    )
    text = "\n".join(shown((snapshot, derive([snapshot])), None, width=200))
    assert "\x1b" not in text
    assert "\\x1b[2J\\u202eevil\\n[bold]" in text


def test_a_cluster_that_does_not_answer_is_told() -> None:
    lines = shown(view_of(clusters.SMALL), 24, state=replace(STATE, error="connection refused"))
    assert lines[-1].startswith("no answer: connection refused")
