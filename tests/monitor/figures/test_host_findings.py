"""What is wrong with hosts and headroom, when it opens an alert, and what closes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from highwater.common.ceilings import PRODUCE
from highwater.common.host_answer import Drift
from highwater.monitor.alerts.machine import AlertChange, AlertState, Notice, step
from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.figures.headroom import CPU, DISK_SPACE, Headroom
from highwater.monitor.figures.host_findings import findings_of_headroom
from highwater.monitor.figures.rows import Finding, FindingKind, Level
from highwater.monitor.model import Host, Snapshot, SourceState
from tests.monitor.agents import DRIFT, TUNING, answer, with_hosts
from tests.monitor.clusters import TICK_MS, window
from tests.monitor.figures.test_headroom import MEASURED

OTHER = Drift("read_ahead_kb", "sda", "128", "4096")
DRIFTED = replace(TUNING, drift=(DRIFT,))


def kinds(figures: Figures) -> list[FindingKind]:
    return [finding.kind for finding in figures.findings]


def changed(snapshots: list[Snapshot], name: str, change: Callable[[Host], Host]) -> list[Snapshot]:
    return [replace(each, hosts={**each.hosts, name: change(each.hosts[name])}) for each in snapshots]


def silenced(snapshots: list[Snapshot], name: str, age_ms: int) -> list[Snapshot]:
    """Its agent has not answered for so long."""
    made = []
    for each in snapshots:
        host = replace(each.hosts[name], error="Connection refused", as_of_ms=each.taken_at_ms - age_ms)
        source = f"host {name}"
        sources = {**each.sources, source: SourceState(source, host.as_of_ms, host.error)}
        made.append(replace(each, hosts={**each.hosts, name: host}, sources=sources))
    return made


def test_hosts_that_are_as_tuned_are_no_finding() -> None:
    figures = derive(with_hosts(window(), "h1", "h2"))
    assert kinds(figures) == kinds(derive(window()))
    assert {row.drifted for row in figures.hosts.values()} == {0}


def test_a_host_that_drifted_is_part_of_the_verdict() -> None:
    hosts = with_hosts(window(), "h1", "h2", tuning=DRIFTED)
    both = replace(TUNING, drift=(DRIFT, OTHER))
    hosts = changed(hosts, "h2", lambda host: replace(host, answer=replace(host.answer or answer(), tuning=both)))
    found = [each for each in derive(hosts).findings if each.kind is FindingKind.TUNING_DRIFT]
    assert [(each.subject, each.level, each.value) for each in found] == [
        ("host h1", Level.WARN, 1),
        ("host h2", Level.WARN, 2),
    ]
    assert found[0].sentence == "The tuning of host h1 has changed: vm.dirty_ratio is 20, applied was 10."
    assert found[1].sentence.endswith("applied was 10; 1 more setting is not as applied.")
    assert "has changed" in derive(hosts).sentence


def test_an_interrupted_change_is_drift_too() -> None:
    hosts = with_hosts(window(), "h1", tuning=replace(TUNING, interrupted="run highwater tune apply again"))
    (found,) = [each for each in derive(hosts).findings if each.kind is FindingKind.TUNING_DRIFT]
    assert (
        found.sentence
        == "The tuning of host h1 has changed: a change of its tuning was interrupted: run highwater tune apply again."
    )


def test_a_host_without_a_profile_or_without_an_answer_cannot_drift() -> None:
    hosts = with_hosts(window(), "h1", "h2", tuning=None)
    hosts = changed(
        hosts, "h2", lambda host: replace(host, answer=None, as_of_ms=None, error="it has not answered yet")
    )
    figures = derive(hosts)
    assert FindingKind.TUNING_DRIFT not in kinds(figures)
    assert figures.hosts["h1"].drifted is None
    assert figures.hosts["h2"].drifted is None


def test_a_silent_agent_is_one_finding_and_hides_what_it_said_before() -> None:
    hosts = silenced(with_hosts(window(), "h1", "h2", tuning=DRIFTED), "h1", 300_000)
    figures = derive(hosts)
    of_h1 = [each for each in figures.findings if "h1" in each.subject]
    assert [(each.kind, each.subject, each.level) for each in of_h1] == [
        (FindingKind.HOST_SILENT, "host h1", Level.WARN)
    ]
    assert of_h1[0].sentence == "Host h1 does not answer: Connection refused. The data shown for it is 5 min old."
    assert figures.hosts["h1"].drifted is None
    assert FindingKind.SOURCE_SILENT not in kinds(figures)


def test_an_agent_that_misses_one_tick_is_no_finding() -> None:
    figures = derive(silenced(with_hosts(window(), "h1"), "h1", 20_000))
    assert FindingKind.HOST_SILENT not in kinds(figures)


def test_of_a_silent_host_no_headroom_is_known_but_the_brokers_own() -> None:
    headroom = derive(silenced(with_hosts(window(), "h1"), "h1", 300_000), [MEASURED]).headroom
    known = {each.resource for each in headroom if each.broker_id == 0 and each.ratio is not None}
    assert known == {DISK_SPACE}
    assert {each.unknown for each in headroom if each.resource == CPU and each.broker_id == 0} == {
        "its host does not answer: Connection refused"
    }


def row(ratio: float | None, resource: str = PRODUCE, **more: Any) -> Headroom:
    return replace(Headroom(1, resource, ratio, 1.0, 2.0), **more)


@pytest.mark.parametrize(
    ("headroom", "is_near"),
    [
        (row(0.6), None),
        (row(0.25), None),
        (row(0.24), True),
        (row(0.2), True),
        (row(0.19), False),
        (row(0.01, CPU), False),
        (row(0.0, CPU), False),
        (row(-0.5), False),
        (row(-0.5, is_at_least=True), False),
        (row(0.1, DISK_SPACE), None),
        (row(0.1, stale=("the kernel is another one",)), None),
        (row(None, unknown="no ceiling"), None),
    ],
)
def test_little_headroom_is_a_finding_unless_it_is_grey(headroom: Headroom, is_near: bool | None) -> None:
    found = list(findings_of_headroom([headroom]))
    assert [(each.level, each.is_near) for each in found] == ([] if is_near is None else [(Level.WARN, is_near)])
    assert {each.subject for each in found} <= {f"broker 1 {headroom.resource}"}


def test_its_sentence_says_how_much() -> None:
    assert [each.sentence for each in findings_of_headroom([row(0.12), row(-1.0, CPU)])] == [
        "Broker 1 has little headroom: 12 % of produce is left.",
        "Broker 1 has no headroom: the demand for CPU is more than was ever measured.",
    ]


def test_what_brokers_of_one_host_lack_together_is_one_finding_and_one_alert() -> None:
    hosts = {
        "h 1": Host("h 1", "h1", answer(), 1, brokers=(1, 2, 3)),
        "h2": Host("h2", "h2", answer(), 1, brokers=(4,)),
    }
    low = [replace(row(0.1, CPU), broker_id=number) for number in (1, 2, 3, 4)]
    low += [replace(row(0.1 / number), broker_id=number) for number in (1, 2)]
    found = list(findings_of_headroom(low, hosts))
    assert [(each.subject, each.sentence) for each in found] == [
        (f"host h 1 {CPU}", "Host h 1 of brokers 1, 2 and 3 has little headroom: 10 % of CPU is left."),
        (f"broker 4 {CPU}", "Broker 4 has little headroom: 10 % of CPU is left."),
        (f"broker 1 {PRODUCE}", "Broker 1 has little headroom: 10 % of produce is left."),
        (f"broker 2 {PRODUCE}", "Broker 2 has little headroom: 5 % of produce is left."),
    ]
    base = derive(with_hosts(window(), "h 1"))
    state, opened = run(ticks(base, found[0]))
    assert [each.change for each in opened] == [AlertChange.OPENED]
    well = replace(base, headroom=(replace(row(0.6, CPU), broker_id=base.hosts["h 1"].brokers[0]),))
    assert [each.reason for each in run(ticks(well, first=200), state)[1]] == ["60 % of CPU is left."]
    gone = replace(base, hosts={})
    assert [each.reason for each in run(ticks(gone, first=200), state)[1]] == [
        "The host is no longer in the configuration."
    ]


def run(ticks: list[Figures], state: AlertState | None = None) -> tuple[AlertState, list[Notice]]:
    state = state or AlertState()
    notices: list[Notice] = []
    for one in ticks:
        state, new = step(state, one)
        notices += new
    return state, notices


def ticks(base: Figures, *findings: Finding, first: int = 0, number: int = 60) -> list[Figures]:
    return [replace(base, at_ms=tick * TICK_MS, findings=findings) for tick in range(first, first + number)]


def of_kind(figures: Figures, kind: FindingKind) -> list[Finding]:
    return [each for each in figures.findings if each.kind is kind]


def test_drift_opens_and_closes_an_alert_with_its_reason() -> None:
    bad, good = derive(with_hosts(window(), "h1", tuning=DRIFTED)), derive(with_hosts(window(), "h1"))
    state, opened = run(ticks(bad, *of_kind(bad, FindingKind.TUNING_DRIFT)))
    assert [(each.change, each.reason) for each in opened] == [
        (AlertChange.OPENED, "The tuning of host h1 has changed: vm.dirty_ratio is 20, applied was 10.")
    ]
    silent = derive(silenced(with_hosts(window(), "h1", tuning=DRIFTED), "h1", 300_000))
    state, told = run(ticks(silent, first=100), state)
    assert told == [], "while the host says nothing, nobody knows whether it is over"
    assert [each.reason for each in run(ticks(good, first=200), state)[1]] == ["All settings are as applied again."]
    bare = derive(with_hosts(window(), "h1", tuning=replace(TUNING, profile="")))
    assert [each.reason for each in run(ticks(bare, first=200), state)[1]] == ["No profile is applied on it any more."]
    gone = derive(with_hosts(window(), "h2"))
    reasons = [each.reason for each in run(ticks(gone, first=200), state)[1]]
    assert reasons == ["The host is no longer in the configuration."]


def test_a_silent_agent_opens_and_closes_an_alert() -> None:
    silent = derive(silenced(with_hosts(window(), "h1"), "h1", 300_000))
    state, opened = run(ticks(silent, *of_kind(silent, FindingKind.HOST_SILENT)))
    assert [each.change for each in opened] == [AlertChange.OPENED]
    back = derive(with_hosts(window(), "h1"))
    assert [each.reason for each in run(ticks(back, first=200), state)[1]] == ["It answers again."]
    reasons = [each.reason for each in run(ticks(derive(window()), first=200), state)[1]]
    assert reasons == ["The host is no longer in the configuration."]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ((row(0.4),), "40 % of produce is left."),
        (
            (row(0.1, stale=("the kernel is 7, measured was on 6",)),),
            "The figure is grey now: the kernel is 7, measured was on 6.",
        ),
        (
            (row(None, demand=5.0, unknown="no ceiling was measured"),),
            "There is no figure any more: no ceiling was measured.",
        ),
        ((), "Neither hosts nor ceilings are in the configuration."),
        ((row(None, demand=None, unknown="known after the second answer of the host's agent"),), None),
        ((row(0.9, CPU),), None),
    ],
)
def test_headroom_closes_when_it_is_known_to_be_over(rows: tuple[Headroom, ...], reason: str | None) -> None:
    base = derive(window())
    state, opened = run(ticks(base, *findings_of_headroom([row(0.1)])))
    assert [each.change for each in opened] == [AlertChange.OPENED]
    now = replace(base, headroom=rows)
    found = tuple(findings_of_headroom(rows))
    assert [each.reason for each in run(ticks(now, *found, first=200), state)[1]] == (
        [] if reason is None else [reason]
    )
