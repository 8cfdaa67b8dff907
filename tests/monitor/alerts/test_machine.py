"""Alerts open when a finding lasts, close when it is known to be over, and flap for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.monitor.alerts.machine import AlertChange, AlertState, Notice, began_at_ms, step
from highwater.monitor.alerts.rules import RULES
from highwater.monitor.alerts.saving import loaded, saved
from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.figures.rows import Finding, FindingKind, LagVerdict, Level
from tests.monitor.clusters import HOSTILE_NAMES, TICK_MS, UNIX_START_MS, broker, group, partition, snapshot, topic

BASE = derive(
    [snapshot(topics=[topic("orders", partition("orders", end=10))], groups=[group("billing", {("orders", 0): 10})])]
)
OFFLINE = Finding(FindingKind.PARTITIONS_OFFLINE, Level.ERROR, "", "2 partitions have no leader.", 2)
LAGS = Finding(FindingKind.LAG, Level.WARN, "group billing", "Group billing lags.", 500)
DISK = Finding(FindingKind.DISK_FULL, Level.WARN, "broker 1", "Broker 1 has only 14 % of a disk left.", 14.0)
SILENT = Finding(FindingKind.SOURCE_SILENT, Level.ERROR, "source kafka", "Source kafka does not answer.")


def at(tick: int, *findings: Finding, base: Figures = BASE, unix_ms: int | None = None) -> Figures:
    now = UNIX_START_MS + tick * TICK_MS if unix_ms is None else unix_ms
    return replace(base, findings=findings, at_ms=tick * TICK_MS, taken_at_ms=now, number=tick)


def run(figures: Iterable[Figures], state: AlertState | None = None) -> tuple[AlertState, list[Notice]]:
    state = AlertState() if state is None else state
    notices: list[Notice] = []
    for one in figures:
        state, new = step(state, one)
        notices += new
    return state, notices


def opened(finding: Finding) -> AlertState:
    state, notices = run(at(tick, finding) for tick in range(-100, 1))
    assert [notice.change for notice in notices] == [AlertChange.OPENED]
    return state


def test_every_kind_of_finding_has_a_rule() -> None:
    assert set(RULES) == set(FindingKind)
    assert all(rule.closes_after_ms > 0 for rule in RULES.values())


def test_an_alert_opens_when_the_finding_lasts() -> None:
    state, notices = run(at(tick, OFFLINE) for tick in range(2))
    assert (state.alerts, notices) == ({}, [])
    state, notices = run([at(2, OFFLINE)], state)
    (notice,) = notices
    assert (notice.change, notice.reason, notice.at_ms) == (
        AlertChange.OPENED,
        "2 partitions have no leader.",
        UNIX_START_MS + 2 * TICK_MS,
    )
    assert notice.alert.value == 2
    assert run([at(3, OFFLINE)], state)[1] == []


def test_what_goes_by_itself_opens_nothing() -> None:
    comes_and_goes = [at(tick, *([OFFLINE] if tick % 2 else [])) for tick in range(101)]
    assert run(comes_and_goes) == (AlertState(), [])


def test_what_comes_and_goes_once_open_is_one_alert() -> None:
    flapping = [at(tick, *([OFFLINE] if tick % 5 == 0 else [])) for tick in range(1, 200)]
    state, notices = run(flapping, opened(OFFLINE))
    assert notices == []
    assert len(state.alerts) == 1


def test_an_alert_closes_with_its_reason_when_the_finding_stays_away() -> None:
    _, notices = run((at(tick) for tick in range(1, 20)), opened(OFFLINE))
    (notice,) = notices
    assert (notice.change, notice.reason) == (AlertChange.CLOSED, "All partitions have a leader again.")
    assert notice.at_ms == UNIX_START_MS + 9 * TICK_MS


def test_a_value_near_its_limit_closes_nothing_and_opens_nothing() -> None:
    near = replace(DISK, is_near=True, value=16.0)
    assert run(at(tick, near) for tick in range(200)) == (AlertState(), [])
    state, notices = run((at(tick, near) for tick in range(1, 200)), opened(DISK))
    assert notices == []
    _, notices = run((at(tick) for tick in range(200, 300)), state)
    assert [notice.reason for notice in notices] == ["60 % of its fullest disk is usable."]


def test_a_warning_that_becomes_an_error_is_told_once() -> None:
    worse = replace(LAGS, level=Level.ERROR, sentence="Group billing stopped.")
    _, notices = run([at(1, worse), at(2, worse), at(3, LAGS), at(4, worse)], opened(LAGS))
    assert [(notice.change, notice.reason) for notice in notices] == [(AlertChange.RAISED, "Group billing stopped.")]


def test_nothing_closes_while_kafka_does_not_answer() -> None:
    state, notices = run((at(tick, SILENT) for tick in range(1, 200)), opened(OFFLINE))
    assert [notice.alert.kind for notice in notices] == [FindingKind.SOURCE_SILENT]
    assert len(state.alerts) == 2
    _, notices = run((at(tick) for tick in range(200, 220)), state)
    assert [(notice.change, notice.reason) for notice in notices] == [
        (AlertChange.CLOSED, "It answers again."),
        (AlertChange.CLOSED, "All partitions have a leader again."),
    ]


def test_a_group_that_is_not_known_stays_open_and_one_that_is_gone_closes() -> None:
    unknown = BASE.groups["billing"]._replace(verdict=LagVerdict.UNKNOWN, level=Level.UNKNOWN)
    not_known = replace(BASE, groups={"billing": unknown})
    state, notices = run((at(tick, base=not_known) for tick in range(1, 100)), opened(LAGS))
    assert notices == []
    _, notices = run((at(tick, base=replace(BASE, groups={})) for tick in range(100, 200)), state)
    assert [notice.reason for notice in notices] == ["The group is gone."]


def test_a_group_that_was_abandoned_closes_half_an_hour_after_a_restart() -> None:
    def figures(tick: int) -> Figures:
        """Since tick 0 nobody has read, as the monitor that was started then saw it."""
        idle = BASE.groups["billing"]._replace(verdict=LagVerdict.STOP, level=Level.UNKNOWN)
        base = replace(BASE, groups={"billing": idle}, window_ms=min(tick, 119) * TICK_MS)
        return at(tick, base=base)

    state, notices = run(map(figures, range(90)), loaded(saved(opened(LAGS))))
    assert notices == []
    _, notices = run(map(figures, range(90, 130)), state)
    assert [(notice.change, notice.reason) for notice in notices] == [
        (AlertChange.CLOSED, "No consumer has read since the monitor started: It has read everything.")
    ]


def test_a_group_that_reads_again_closes_with_its_own_sentence() -> None:
    _, notices = run((at(tick) for tick in range(1, 100)), opened(LAGS))
    assert [notice.reason for notice in notices] == ["It has read everything."]


@pytest.mark.parametrize(
    ("kind", "gone"),
    [
        (FindingKind.DISK_FULL, broker(1, alive=False)),
        (FindingKind.LOG_DIRECTORY_OFFLINE, replace(broker(1), directories=(), error="timed out")),
    ],
)
def test_a_broker_that_says_nothing_closes_nothing(kind: FindingKind, gone: object) -> None:
    assert isinstance(gone, type(broker(1)))
    base = derive([snapshot(brokers=[broker(0), gone])])
    finding = Finding(kind, Level.ERROR, "broker 1", "It is broken.")
    _, notices = run((at(tick, base=base) for tick in range(1, 200)), opened(finding))
    assert notices == []
    _, notices = run((at(tick, base=derive([snapshot(brokers=1)])) for tick in range(1, 200)), opened(finding))
    assert [notice.reason for notice in notices] == ["The broker is no longer part of the cluster."]


def test_a_clock_that_is_set_opens_and_closes_nothing() -> None:
    jumping = [at(tick, OFFLINE, unix_ms=UNIX_START_MS + tick % 2 * 10**9) for tick in range(2)]
    state, notices = run(jumping)
    assert notices == []
    assert len(state.waiting) == 1
    back = [at(tick, unix_ms=UNIX_START_MS - 10**9) for tick in range(1, 5)]
    assert run(back, opened(OFFLINE))[1] == []


def test_a_finding_began_with_its_first_snapshot_and_anew_after_a_break() -> None:
    key = (OFFLINE.kind, OFFLINE.subject)
    state, _ = run(at(tick, OFFLINE) for tick in range(2))
    assert state.alerts == {}
    assert began_at_ms(state, key, at(1, OFFLINE)) == UNIX_START_MS
    state, _ = run((at(tick, OFFLINE) for tick in range(2, 20)), state)
    assert state.alerts[key].opened_at_ms > state.alerts[key].began_at_ms == UNIX_START_MS
    state, _ = run([at(20), at(21, OFFLINE)], loaded(saved(state)))
    assert began_at_ms(state, key, at(21, OFFLINE)) == UNIX_START_MS + 21 * TICK_MS
    assert began_at_ms(state, (DISK.kind, DISK.subject), at(21)) is None


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_open_alerts_survive_a_restart(name: str) -> None:
    finding = replace(LAGS, subject=f"group {name}", sentence=f"Group {name} lags.")
    before = opened(finding)
    after = loaded(saved(before))
    assert after == before
    # The new process' monotonic clock begins elsewhere, and the finding is not told again.
    state, notices = run((at(tick, finding) for tick in range(5_000, 5_020)), after)
    assert notices == []
    assert [alert.opened_at_ms for alert in state.alerts.values()] == [UNIX_START_MS - 92 * TICK_MS]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("[]", "not a file of open alerts"),
        ("7", "not a file of open alerts"),
        ('{"version": 2, "alerts": []}', "its version is 2"),
        ('{"version": 1}', "not a file of open alerts"),
        ('{"version": 1, "alerts": [{"kind": "lag"}]}', "not a file of open alerts"),
    ],
)
def test_a_file_that_is_none_of_alerts_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        loaded(text)


SCRIPTS = st.lists(st.sets(st.sampled_from([OFFLINE, LAGS, DISK, SILENT, replace(DISK, is_near=True)])), max_size=80)


@given(SCRIPTS)
def test_notices_are_those_of_the_alerts_that_are_open(script: list[set[Finding]]) -> None:
    state = AlertState()
    heard: set[object] = set()
    for tick, findings in enumerate(script):
        ordered = sorted(findings, key=lambda finding: finding.is_near)
        state, notices = step(state, at(tick, *ordered))
        for notice in notices:
            if notice.change is AlertChange.OPENED:
                assert notice.alert.key not in heard
                heard.add(notice.alert.key)
            else:
                assert notice.alert.key in heard
                heard -= {notice.alert.key} if notice.change is AlertChange.CLOSED else set()
        assert heard == state.alerts.keys()
