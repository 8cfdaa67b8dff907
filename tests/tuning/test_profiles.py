"""What profiles want, how they build on each other, and what they come to on trees that are no host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.tuning.catalogue import KNOBS
from highwater.tuning.check import KnobReport, evaluate
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect
from highwater.tuning.profiles import ad_hoc, find_profile, knobs_of, temporary_knobs, wishes_of
from highwater.tuning.profiles.model import Profile
from highwater.tuning.profiles.shipped import PROFILES
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import make_host

MIB = 2**20
FLUSHING = {"vm.dirty_writeback_centisecs": "500", "vm.dirty_expire_centisecs": "3000"}


def _reports(tmp_path: Path, profile: Profile, **host: Any) -> dict[str, KnobReport]:
    facts = collect(make_host(tmp_path, sysctls={**FLUSHING, **host}))
    return {report.id: report for report in evaluate(facts, Workload(data_dirs=("/data",)), knobs_of(profile))}


def test_every_wish_is_about_a_knob_that_there_is_and_trades_no_data() -> None:
    known = {knob.id: knob for knob in KNOBS}
    wishes = {knob_id for profile in PROFILES for knob_id in profile.wishes}
    assert wishes <= set(known)
    assert not [knob_id for knob_id in wishes if known[knob_id].mechanism in ("advice", "mount", "swap")]
    assert not [knob_id for knob_id in wishes if known[knob_id].risk in ("high", "critical")]
    for profile in PROFILES:
        for knob_id, wish in profile.wishes.items():
            assert wish.reason
            assert isinstance(wish.value, int) == bool(known[knob_id].unit), knob_id


def test_names_are_unique_and_what_is_extended_is_there() -> None:
    names = [name for profile in PROFILES for name in (profile.name, *profile.aliases)]
    assert len(names) == len(set(names))
    for profile in PROFILES:
        assert wishes_of(profile) or profile.everything
    assert find_profile("as-the-notes-say") is find_profile("notes")


def test_the_notes_figure_is_set_exactly(tmp_path: Path) -> None:
    reports = _reports(tmp_path, find_profile("notes"), **{"net.core.rmem_max": "600000000"})
    rmem = reports["net.core.rmem_max"]
    assert (rmem.recommended, rmem.state) == (524_288_000, "differs")
    assert rmem.formula == "500 MiB (profile notes)"
    assert set(reports) == set(find_profile("notes").wishes)


def test_a_profile_takes_the_rest_from_the_one_it_extends(tmp_path: Path) -> None:
    durable, recommended = knobs_of(find_profile("durable")), knobs_of(find_profile("recommended"))
    assert [knob.id for knob in durable] == [knob.id for knob in recommended] == [knob.id for knob in KNOBS]
    reports = _reports(tmp_path, find_profile("durable"))
    assert reports["vm.dirty_bytes"].recommended == 512 * MIB
    assert reports["vm.swappiness"].recommended == 1


def test_only_raising_and_only_lowering(tmp_path: Path) -> None:
    huge = str(64 * MIB)
    reports = _reports(tmp_path, find_profile("throughput"), **{"net.core.rmem_max": huge})
    assert (reports["net.core.rmem_max"].state, reports["net.core.rmem_max"].recommended) == ("ok", 64 * MIB)
    assert reports["net.core.wmem_max"].recommended == 16 * MIB
    tight = {"vm.dirty_bytes": str(100 * MIB), "vm.dirty_ratio": "0"}
    reports = _reports(tmp_path / "tight", find_profile("durable"), **tight)
    assert (reports["vm.dirty_bytes"].state, reports["vm.dirty_bytes"].recommended) == ("ok", 100 * MIB)
    assert reports["vm.dirty_bytes"].formula == "min(current 100 MiB, 512 MiB (profile durable))"


@pytest.mark.parametrize("name", ["durable", "latency"])
def test_write_back_that_never_happens_is_not_taken_for_frequent(tmp_path: Path, name: str) -> None:
    report = _reports(tmp_path, find_profile(name), **{"vm.dirty_writeback_centisecs": "0"})[
        "vm.dirty_writeback_centisecs"
    ]
    assert (report.state, report.recommended) == ("differs", 100)


def test_a_single_setting_is_a_profile_of_its_own_or_laid_over_another(tmp_path: Path) -> None:
    alone = ad_hoc({"vm.dirty_bytes": "256MiB", "vm.swappiness": "recommended", "thp.enabled": "never"})
    assert alone.name == "settings"
    reports = _reports(tmp_path / "alone", alone)
    assert [reports[knob_id].recommended for knob_id in alone.wishes] == [256 * MIB, 1, "never"]
    over = ad_hoc({"vm.swappiness": "7"}, over="notes")
    assert over.name == "notes+settings"
    reports = _reports(tmp_path / "over", over)
    assert (reports["vm.swappiness"].recommended, reports["net.core.rmem_max"].recommended) == (7, 524_288_000)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vm.swapiness": "1"}, r"unknown knob 'vm\.swapiness'; did you mean vm\.swappiness\?"),
        ({"swap.devices": "none"}, r"swap\.devices cannot be set temporarily: "),
        ({"unit.limit_nofile": "5"}, r"unit\.limit_nofile cannot be set temporarily: a service unit takes the value"),
        ({"vm.dirty_bytes": "lots"}, r"vm\.dirty_bytes: 'lots' is not a size"),
        ({"vm.dirty_bytes": "5 MB/s"}, r"vm\.dirty_bytes: '5 MB/s' is not a size"),
    ],
)
def test_single_settings_that_cannot_be(settings: dict[str, str], message: str) -> None:
    with pytest.raises(TuningError, match=f"^{message}"):
        ad_hoc(settings)


def test_what_needs_a_restart_is_not_for_a_moment() -> None:
    ids = {knob.id for knob in temporary_knobs(KNOBS)}
    assert {"vm.swappiness", "disk.scheduler", "mount.noatime"} <= ids
    assert not {"swap.devices", "unit.limit_nofile"} & ids


def test_what_a_profile_wants_by_itself_is_named_and_nothing_else_is(tmp_path: Path) -> None:
    trades = {knob.id for knob in KNOBS if knob.only_if_named}
    recommended = {knob.id for knob in knobs_of(find_profile("recommended")) if knob.only_if_named}
    assert recommended == trades
    latency = {knob.id for knob in knobs_of(find_profile("latency")) if knob.only_if_named}
    assert trades - latency == {"kernel.nmi_watchdog", "kernel.timer_migration"}
    alone = ad_hoc({"mount.commit": "recommended"})
    assert [knob.only_if_named for knob in knobs_of(alone)] == [""]


def test_a_misspelt_profile() -> None:
    with pytest.raises(TuningError, match=r"^no host profile is called 'note'; did you mean notes\? \(known: recomm"):
        find_profile("note")
    with pytest.raises(TuningError, match=r"^no host profile is called 'duarble'; did you mean durable\?"):
        ad_hoc({}, over="duarble")
