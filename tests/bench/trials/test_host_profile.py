"""A host profile around a trial, on trees that are no host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from highwater.bench.trials.host_profile import applied_profile, check_profile, restore_after_a_killed_run
from highwater.bench.workload.host import Host
from highwater.common.errors import TrialError, UsageError
from highwater.tuning.check import sysctl_path
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts
from highwater.tuning.journal import SESSION
from tests.tuning.host_tree import make_host, write

SWAPPINESS = sysctl_path("vm.swappiness")
NOTES = {"vm.dirty_writeback_centisecs": "500", "vm.dirty_expire_centisecs": "3000"}


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    root = make_host(tmp_path, sysctls=NOTES)
    write(root, f"/proc/{os.getpid()}/stat", Path("/proc/self/stat").read_text())
    return collect(root)


def swappiness(facts: Facts) -> str | None:
    return facts.files.read(SWAPPINESS).text


def test_without_a_profile_the_host_is_left_alone(facts: Facts) -> None:
    with applied_profile(Host(), facts) as profile:
        profile.end()
    assert (profile.use, profile.faults, facts.files.exists(SESSION)) == (None, [], False)


def test_a_profile_is_in_force_until_the_load_ends_and_told_with_what_was_before(facts: Facts) -> None:
    with applied_profile(Host(), facts) as plain:
        pass
    with applied_profile(Host(profile="notes"), facts) as profile:
        assert swappiness(facts) == "1"
        profile.end()
        assert swappiness(facts) == "60"
    assert profile.use is not None
    assert (profile.use.verified, profile.use.rolled_back, profile.faults) == (True, True, [])
    assert (profile.use.before["vm.swappiness"], profile.use.applied["vm.swappiness"]) == ("60", "1")
    assert profile.fingerprint != plain.fingerprint


def test_a_trial_that_fails_takes_its_profile_back(facts: Facts) -> None:
    with pytest.raises(TrialError), applied_profile(Host(profile="notes"), facts):
        raise TrialError("the broker ended")
    assert (swappiness(facts), facts.files.exists(SESSION)) == ("60", False)


def test_a_profile_that_did_not_hold_voids_the_trial(facts: Facts) -> None:
    with applied_profile(Host(profile="notes"), facts) as profile:
        facts.files.write_setting(SWAPPINESS, "42")
        profile.end()
    assert profile.use is not None
    assert not profile.use.verified
    (fault,) = profile.faults
    assert fault.text.startswith("host profile notes did not hold until the end of the load: vm.swappiness is '42'; ")
    assert swappiness(facts) == "60"


def test_single_settings_are_laid_over_a_profile_and_reach_the_disk_of_the_log(tmp_path: Path) -> None:
    root = make_host(tmp_path, sysctls=NOTES)
    write(root, f"/proc/{os.getpid()}/stat", Path("/proc/self/stat").read_text())
    facts = collect(root)
    host = Host(profile="notes", settings={"vm.swappiness": 7, "disk.scheduler": "kyber"})
    with applied_profile(host, facts, ["/data"]) as profile:
        scheduler = "/sys/block/sda/queue/scheduler"
        assert (swappiness(facts), facts.files.read(scheduler).text) == ("7", "kyber")
        profile.end()
        assert swappiness(facts) == "60"
    assert profile.use is not None
    assert profile.use.name == "notes+settings"
    assert (profile.use.before[scheduler], profile.use.applied[scheduler]) == ("none", "kyber")


def test_what_a_profile_trades_away_is_told(facts: Facts) -> None:
    with applied_profile(Host(profile="notes"), facts) as profile:
        assert [trade.partition(":")[0] for trade in profile.durability_trades] == ["vm.dirty_expire_centisecs=9000"]
    with applied_profile(Host(), facts) as plain:
        assert plain.durability_trades == []


def test_what_cannot_be_is_one_line_before_anything_runs(tmp_path: Path) -> None:
    locked = collect(make_host(tmp_path / "locked", read_only_proc_sys=True, sysctls=NOTES))
    with pytest.raises(UsageError, match=r"^host profile notes cannot be applied: .*mounted read-only"):
        check_profile(Host(profile="notes"), locked)
    check_profile(Host(), locked)


def test_the_next_run_restores_what_a_killed_one_left(facts: Facts) -> None:
    with applied_profile(Host(profile="notes"), facts):
        kept = facts.files.read_verbatim(SESSION)
        with pytest.raises(UsageError, match="has host profile notes in force"):
            restore_after_a_killed_run(facts)
    assert kept is not None
    # The same journal after the process is gone.
    facts.files.replace_file(SESSION, kept, 0o644)
    facts.files.remove_file(f"/proc/{os.getpid()}/stat")
    facts.files.write_setting(SWAPPINESS, "1")
    assert "vm.swappiness: 1 -> 60" in restore_after_a_killed_run(facts)
    assert swappiness(facts) == "60"
    assert restore_after_a_killed_run(facts) == []
