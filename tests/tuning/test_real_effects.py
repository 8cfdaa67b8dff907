"""The whole way on this very machine: planned, applied, verified by its effect, rolled back; seen by other programs."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from highwater.tuning import engine, probes
from highwater.tuning.catalogue import find_knob
from highwater.tuning.effects import Effect, verify
from highwater.tuning.facts import collect
from highwater.tuning.facts.units import Instance, parse_limits
from highwater.tuning.formulas.common import constant
from highwater.tuning.journal import Owner
from highwater.tuning.model import Knob
from highwater.tuning.planning import make_plan
from highwater.tuning.runner import SystemRunner
from highwater.tuning.steps import TuningPlan
from highwater.tuning.workload import Workload
from tests.this_machine import settings_alone
from tests.tuning.test_real_host import RealHost, needs_this_host, options_of, run, seen, small_ext4

PAIRS = ("vm.dirty_bytes", "vm.dirty_ratio", "vm.dirty_background_bytes", "vm.dirty_background_ratio")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RealHost]:
    needs_this_host()
    (tmp_path / "var/lib").mkdir(parents=True)
    with settings_alone():
        yield RealHost(tmp_path)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[str]:
    """On a path that fstab and mountinfo have to escape."""
    with small_ext4(tmp_path / "ext4.img", tmp_path / "data directory", "nosuid,relatime") as place:
        yield place


def plan_of(host: RealHost, knobs: Sequence[Knob], workload: Workload) -> TuningPlan:
    return make_plan(dataclasses.replace(collect(), files=host), workload, knobs)


def apply(host: RealHost, knobs: Sequence[Knob], workload: Workload) -> None:
    engine.apply(host, SystemRunner(), plan_of(host, knobs, workload), Owner.this_process(host, "round trip"))


def effects_of(host: RealHost, knobs: Sequence[Knob], workload: Workload) -> dict[str, Effect]:
    facts = dataclasses.replace(collect(), files=host)
    return {effect.parameter: effect for effect in verify(facts, workload, knobs, SystemRunner())}


def roll_back(host: RealHost) -> None:
    back = engine.rollback(host, SystemRunner())
    assert (back.kept, back.problems) == ((), ())


@pytest.mark.slow
def test_a_mount_from_its_plan_to_its_effect_and_back(host: RealHost, mounted: str) -> None:
    before, workload, knobs = options_of(mounted), Workload(data_dirs=(mounted,)), [find_knob("mount.noatime")]
    text = f"# local\nUUID=1\t{mounted.replace(' ', chr(92) + '040')}\text4  defaults,nosuid 0 2\n"
    host.replace_file("/etc/fstab", text, 0o644)
    assert effects_of(host, knobs, workload)["mount.noatime"].state == "failed"
    apply(host, knobs, workload)
    assert options_of(mounted) == before - {"relatime"} | {"noatime"}
    assert host.read_verbatim("/etc/fstab") == text.replace("defaults,nosuid", "defaults,nosuid,noatime")
    table = str(host.locate("/etc/fstab"))
    shown = run("findmnt", "--fstab", "--tab-file", table, "-n", "-o", "OPTIONS", "--target", mounted)
    assert shown.strip() == "defaults,nosuid,noatime"
    effect = effects_of(host, knobs, workload)["mount.noatime"]
    assert (effect.state, effect.at_boot) == ("effective", "/etc/fstab mounts with defaults,nosuid,noatime")
    assert plan_of(host, knobs, workload).steps == ()
    roll_back(host)
    assert options_of(mounted) == before
    assert host.read_verbatim("/etc/fstab") == text


def test_the_kernel_goes_by_the_dirty_limits_that_it_was_given(host: RealHost) -> None:
    before = [seen(key) for key in PAIRS]
    wanted = {"vm.dirty_background_bytes": 256 * 2**20, "vm.dirty_bytes": 1024 * 2**20}
    knobs = [
        dataclasses.replace(find_knob(key), recommend=constant(size, "for a test")) for key, size in wanted.items()
    ]
    try:
        apply(host, knobs, Workload())
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        assert int(counters["nr_dirty_threshold"]) * os.sysconf("SC_PAGE_SIZE") == wanted["vm.dirty_bytes"]
        found = effects_of(host, knobs, Workload())
        assert [effect for effect in found.values() if effect.state != "effective"] == []
        assert found["vm.dirty_bytes"].seen_by == "/proc/vmstat nr_dirty_threshold"
        assert found["vm.dirty_bytes"].at_boot.startswith("/etc/sysctl.d/90-highwater.conf:")
        assert plan_of(host, knobs, Workload()).steps == ()
    finally:
        roll_back(host)
    assert [seen(key) for key in PAIRS] == before
    assert not (host.elsewhere / "etc").exists()


def test_what_a_process_has_is_what_prlimit_and_taskset_say() -> None:
    command = "echo 500 > /proc/self/oom_score_adj; exec sleep 60"
    process = subprocess.Popen(["prlimit", "--nofile=300:400", "taskset", "-c", "0", "sh", "-c", command])
    try:
        pid = process.pid
        while Path(f"/proc/{pid}/comm").read_text() != "sleep\n":
            assert process.poll() is None
        facts = collect()
        limits = parse_limits(Path(f"/proc/{pid}/limits").read_text())
        instance = Instance("x.service", pid, limits, oom_score_adjust=500)
        nofile, affinity, score = (
            probes.probe_instance(facts, name, instance) for name in ("LimitNOFILE", "CPUAffinity", "OOMScoreAdjust")
        )
        assert nofile is not None
        assert affinity is not None
        assert score is not None
        columns = ("--nofile", "--noheadings", "--raw", "--output", "SOFT,HARD")
        assert run("prlimit", f"--pid={pid}", *columns).split() == ["300", "400"]
        assert (nofile.value, nofile.text) == (300, "300:400 in x.service")
        assert run("taskset", "-cp", str(pid)).strip().endswith(f": {affinity.value}")
        assert score.value == int(Path(f"/proc/{pid}/oom_score_adj").read_text())
        assert not probes.older_than_files(facts, pid, ["/etc/passwd"])
        assert probes.older_than_files(facts, 1, [f"/proc/{pid}/limits"])
    finally:
        process.kill()
        process.wait()
