"""A matrix from its first run to its last: what is run, what is kept, what is gone on with, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.bench.matrix.answers import Key
from highwater.bench.matrix.disks import require_place
from highwater.bench.matrix.running import answers_with_dummies, run_matrix
from highwater.bench.matrix.stored import MATRIX_FILE, read_matrix
from highwater.bench.matrix.table import csv_of, grid, legend
from highwater.common.errors import UsageError
from highwater.results.files import ResultDirectoryError
from tests.bench.matrix.sample import STUDY, FakeDisks, begun, fake_facts, here
from tests.bench.prove.test_proving import Runner

SWAPPINESS, EXPIRE, COMMIT, FILE_SYSTEM, GOVERNOR = (
    "vm.swappiness=60:1",
    "vm.dirty_expire_centisecs=3000:500",
    "mount.commit=commit=5:commit=30",
    "filesystem.type=ext4:xfs",
    "cpu.governor=powersave:performance",
)


def folders(runner: Runner, out: Path) -> list[str]:
    return [str(directory.relative_to(out)) for directory in runner.directories]


def test_every_cell_gets_a_first_look_and_what_differs_a_second(tmp_path: Path) -> None:
    out, runner, made = tmp_path / "out", Runner(slow="vm.swappiness"), FakeDisks()
    done, ended = run_matrix(out, begun(out, tmp_path / "host"), here(tmp_path / "host", runner, made))
    assert ended == "done"
    assert folders(runner, out) == [
        f"{disk}/{load}/{stage}-1"
        for disk in ("host", "hdd")
        for stage in ("first", "confirming")
        for load in ("prove-cpu", "prove-writes")
    ]
    assert made.opened == made.closed == ["host", "hdd"]
    found = answers_with_dummies(out, done)[0]
    assert {k for k, answer in found.items() if answer.state == "worse"} == {
        Key(SWAPPINESS, load, disk) for load in STUDY.loads for disk in STUDY.disks
    }
    assert found[Key(EXPIRE, "prove-cpu", "host")].state == "none"
    assert found[Key(SWAPPINESS, "prove-cpu", "host")].trials == f"{STUDY.confirming_pairs} pairs"
    assert found[Key(GOVERNOR, "prove-cpu", "hdd")].state == "cannot"
    # An emulated disk has nobody's data on it, and may have another file system.
    assert found[Key(FILE_SYSTEM, "prove-cpu", "host")].text == (
        "cannot be set here: a new file system takes a disk of its own; emulated disks show it"
    )
    assert found[Key(COMMIT, "prove-cpu", "host")].text == (
        "cannot be set here: durability: a crash may cost 30 s of unsynced metadata instead of 5"
    )
    assert {found[Key(setting, "prove-cpu", "hdd")].state for setting in (FILE_SYSTEM, COMMIT)} == {"none"}


def test_the_other_file_system_is_a_disk_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "out"
    plans = []
    runner = Runner()

    def execute(plan: object, directory: Path, finished_cells: object) -> object:
        plans.append(plan)
        return runner(plan, directory, None)  # type: ignore[arg-type]

    place = here(tmp_path / "host", runner)
    run_matrix(out, begun(out, tmp_path / "host", quick=True), type(place)(execute, place.open_disk, place.facts))  # type: ignore[arg-type]
    (item,) = [each for each in read_matrix(out).rounds if each.place[:2] == ("hdd", "prove-writes")]
    cells = {cell.factors["variant"]: cell.workload for cell in plans[-1].specification.cells}  # type: ignore[attr-defined]
    assert len(cells) == 24
    for name, on in item.rows.items():
        assert cells[name].storage.target == ("other-file-system" if FILE_SYSTEM in on else "proved")
        wanted = {knob for knob in (SWAPPINESS, EXPIRE, COMMIT) if knob in on}
        assert set(cells[name].host.settings) == {knob.partition("=")[0] for knob in wanted}


def test_it_goes_on_where_it_was_interrupted_and_does_nothing_twice(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    stopped = Runner(status="interrupted")
    _, ended = run_matrix(out, begun(out, host), here(host, stopped, made := FakeDisks()))
    assert (ended, folders(stopped, out)) == ("interrupted", ["host/prove-cpu/first-1"])
    assert made.closed == ["host"], "also then"
    # As the real one does: what was begun there is gone on with.
    (out / "host/prove-cpu/first-1/manifest.json").unlink()
    again = Runner()
    kept = begun(out, host)
    assert kept.rounds == read_matrix(out).rounds
    done, ended = run_matrix(out, kept, here(host, again))
    assert ended == "done"
    assert len(folders(again, out)) == len(set(folders(again, out))) == 4
    third = Runner()
    assert run_matrix(out, begun(out, host), here(host, third, made := FakeDisks())) == (done, "done")
    assert (third.directories, made.opened) == ([], []), "not even a disk is made"


def test_a_time_limit_ends_it_before_a_run_that_would_take_longer(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    with pytest.raises(UsageError, match=r"^--for: the next run alone takes about .*; give it more$"):
        run_matrix(out, begun(out, host), here(host, Runner()), for_s=10)
    clock = iter(range(0, 100_000, 100))
    place = here(host, runner := Runner())
    timed = type(place)(place.execute, place.open_disk, place.facts, lambda: float(next(clock)))
    kept, ended = run_matrix(out, begun(out, host), timed, for_s=600)
    assert ended == "time over"
    assert 0 < len(runner.directories) < 4
    assert "missing" in {answer.state for answer in answers_with_dummies(out, kept)[0].values()}


def test_what_is_left_of_the_time_goes_to_a_shorter_run(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    study = STUDY.model_copy(update={"loads": {load: STUDY.loads[load] for load in ("prove-writes", "prove-cpu")}})
    kept, ended = run_matrix(out, begun(out, host, study=study, quick=True), here(host, runner := Runner()), for_s=200)
    assert (ended, folders(runner, out)) == ("time over", ["host/prove-cpu/first-1"])
    assert not kept.disks["host"].complete
    run_matrix(out, kept, here(host, again := Runner()))
    assert folders(again, out)[0] == "host/prove-writes/first-1"


def test_quick_measures_nothing_alone(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    done, _ = run_matrix(out, begun(out, host, quick=True), here(host, runner := Runner(slow="vm.swappiness")))
    assert all(name.endswith("first-1") for name in folders(runner, out))
    found, dummies = answers_with_dummies(out, done)
    slow = found[Key(SWAPPINESS, "prove-cpu", "hdd")]
    assert (slow.state, slow.confirmed, slow.trials) == ("worse", False, "24 trials")
    assert slow.text.endswith("; first look")
    assert slow.item is not None
    assert slow.item.interval[0] < 1.5 < slow.item.interval[1]
    assert {found[Key(setting, "prove-cpu", "hdd")].state for setting in (EXPIRE, COMMIT, FILE_SYSTEM)} == {"none"}
    assert len(dummies) == 2 * (9 + 7), "of two loads, on each disk as many as there are columns left"


def test_settings_that_exclude_each_other_take_turns_and_are_confirmed_a_few_at_a_time(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    settings = [f"vm.swappiness+{knob}" for knob in ("vm.dirty_bytes", "vm.vfs_cache_pressure", "vm.max_map_count")]
    settings += ["vm.dirty_writeback_centisecs=500:100", "thp.enabled=madvise:always", EXPIRE, "vm.swappiness=60:5"]
    study = STUDY.model_copy(update={"settings": settings, "disks": {"host": None}})
    done, _ = run_matrix(out, begun(out, host, study=study), here(host, Runner(slow="vm.swappiness")))
    swappiness = {setting for setting in settings if "swappiness" in setting}
    first = next(item for item in done.rounds if item.stage == "first")
    assert max(len(swappiness & set(on)) for on in first.rows.values()) == 1
    again = [[each.setting for each in item.settings] for item in done.rounds if item.stage == "confirming"]
    measured = {setting for names in again for setting in names}
    assert measured >= {each.setting for each in first.settings} & swappiness
    assert max(map(len, again)) <= 5
    assert answers_with_dummies(out, done)[0][Key("vm.swappiness=60:5", "prove-cpu", "host")].state == "worse"


def test_another_matrix_is_left_alone(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    begun(out, host)
    before = (out / MATRIX_FILE).read_text()
    for study, quick, what in (
        (STUDY.narrowed(["swappiness"], [], []), False, "settings"),
        (STUDY.narrowed([], ["cpu"], ["hdd"]), False, "loads, disks"),
        (STUDY, True, "quick"),
    ):
        with pytest.raises(UsageError, match=rf"holds another matrix \(other {what}\); repeat the command"):
            begun(out, host, quick=quick, study=study)
    assert (out / MATRIX_FILE).read_text() == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ResultDirectoryError, match="is not empty"):
        begun(tmp_path / "full", host)
    (out / MATRIX_FILE).write_text("{}")
    with pytest.raises(UsageError, match=r"matrix\.json cannot be read"):
        begun(out, host)


def test_an_unknown_knob_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    study = STUDY.model_copy(update={"settings": ["vm.swapiness=60:1"]})
    with pytest.raises(UsageError, match=r"did you mean vm\.swappiness"):
        run_matrix(out, begun(out, host, study=study), here(host, runner := Runner()))
    assert runner.directories == []


def test_a_directory_with_files_of_others_is_no_place_for_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    with pytest.raises(UsageError, match="is not a directory"):
        require_place(STUDY, data, out)
    data.mkdir()
    (data / "mx-hdd.hdd.img").touch()
    (data / "highwater-abc").mkdir()
    require_place(STUDY, data, out)
    with pytest.raises(UsageError, match=r"^--out: .* is inside --data-dir"):
        require_place(STUDY, data, data / "out")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    with pytest.raises(UsageError, match=r" has 1 GiB free, and emulated disks take 8\.25 GiB; .*: --disk host$"):
        require_place(STUDY, data, out)
    require_place(STUDY.narrowed([], [], ["host"]), data, out)
    (data / "letters").touch()
    with pytest.raises(UsageError, match=r"is not empty \(letters\); name an empty directory on the disk"):
        require_place(STUDY, data, out)


def test_it_is_told_as_a_grid_and_as_csv(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    done, _ = run_matrix(out, begun(out, host), here(host, Runner(slow="vm.swappiness")))
    found = answers_with_dummies(out, done)[0]
    header, rows = grid(done, found)
    assert header == ["setting", "host", "hdd"]
    assert rows[0] == ["vm.swappiness", "✕ ✕", "✕ ✕"]
    assert rows[-1] == ["cpu.governor", "– –", "– –"]
    assert legend(found) == "✕ worse, = no difference above a stated size, – cannot be set here"
    lines = csv_of(done, *answers_with_dummies(out, done)).splitlines()
    assert len(found) == 20
    assert len(lines) == 1 + 20 + 2 * (9 + 7), "dummies come last"
    assert lines[1].startswith("vm.swappiness,60,1,cpu,host,worse,produce.p99,1.")
    assert lines[1].split(",")[11:13] == ["8 pairs", "yes"]
    assert lines[-1].startswith("nothing ")
    assert f"kernel {fake_facts(host).kernel_release}" in done.host
