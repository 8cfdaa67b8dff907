"""Runs come into a lake once and whole; what is damaged stays outside and is named."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from highwater.common.errors import UsageError
from highwater.results.reader import RunResult
from highwater.studies.lake import adding, compacting, storage, tables
from highwater.studies.lake.manifest import Manifest
from tests.studies.lake.small_lake import write_run
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs in two months."""
    folder = tmp_path_factory.mktemp("runs")
    detailed = write_run(folder / "third", 3, detailed=True, analysed=True)
    return [write_run(folder / "first", 1), write_run(folder / "second", 2, month=4), detailed]


def added(lake: Path, *directories: Path, processes: int = 1) -> dict[str, list[adding.Addition]]:
    found: dict[str, list[adding.Addition]] = {}
    for addition in adding.add(Manifest(lake), directories, processes=processes):
        found.setdefault(addition.outcome, []).append(addition)
    return found


def rows(lake: Path, table: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = storage.dataset_of(lake, table, Manifest(lake).groups()).to_table().to_pylist()
    return found


def everything(lake: Path) -> dict[str, list[dict[str, object]]]:
    return {name: sorted(rows(lake, name), key=str) for name in tables.SCHEMAS}


def test_a_run_is_added_once(runs: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (first,) = added(lake, runs[0])["added"]
    before = {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()}
    (again,) = added(lake, runs[0])["there already"]
    assert again.text == first.text == "20260301T090000Z-quickstart-" + first.text[-8:]
    assert {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()} == before
    (group,) = Manifest(lake).groups()
    folder = lake / "trials" / f"env={group.environment}" / "month=2026-03"
    assert [path.name for path in folder.iterdir()] == [f"{first.text}.parquet"]


def test_every_table_holds_what_the_directory_holds(runs: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(lake, *runs)
    result = RunResult(runs[2])
    (run,) = (run.run for run, _ in Manifest(lake).runs().values() if run.source == str(runs[2]))
    found = {name: [row for row in rows(lake, name) if row["run"] == run] for name in tables.SCHEMAS}
    assert all(found.values()), [name for name, items in found.items() if not items]
    trial = result.trials[0]
    of_trial = {
        name: [row for row in items if row.get("trial_id") == trial.summary.trial_id] for name, items in found.items()
    }
    assert [row["summary_json"] for row in of_trial["trials"]] == [trial.summary.model_dump_json(by_alias=True)]
    for name, lines in (
        ("windows", trial.windows()),
        ("host", trial.host_samples()),
        ("partitions", trial.partitions()),
        ("events", trial.events()),
    ):
        place = {"run", "trial_id"} | ({"host"} if name == "host" else set())
        kept = [{key: value for key, value in row.items() if key not in place} for row in of_trial[name]]
        assert kept == [line.model_dump() for line in lines], name
    histogram = next(row for row in of_trial["histograms"] if row["metric"] == "produce_response")
    assert histogram["count"] == trial.summary.produce.response_ns.count
    of_seconds = [row for row in of_trial["seconds"] if row["metric"] == "produce_response"]
    assert [row["second"] for row in of_seconds] == [window.second for window in trial.windows()]


def test_several_processes_add_the_same_as_one(runs: list[Path], tmp_path: Path) -> None:
    added(tmp_path / "one", *runs)
    added(tmp_path / "two", *runs, processes=2)
    assert everything(tmp_path / "one") == everything(tmp_path / "two")


def test_several_adders_at_once_add_each_run_once(runs: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    outcomes: list[str] = []

    def work() -> None:
        outcomes.extend(addition.outcome for addition in adding.add(Manifest(lake), runs, processes=1))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["added"] * 3 + ["there already"] * 6
    assert len(rows(lake, "runs")) == 3
    assert not any((lake / "incoming").glob("*"))


@pytest.mark.parametrize("moment", ["before the lock", "before the folder"])
def test_an_adder_that_clears_up_takes_no_folder_of_another(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    Manifest(lake).create()
    others = 1

    def other_adder() -> None:
        nonlocal others
        if others:
            others = 0
            with storage.incoming(lake):
                pass

    if moment == "before the lock":
        flock = fcntl.flock

        def lock_late(descriptor: int, operation: int) -> None:
            if operation == fcntl.LOCK_EX:
                other_adder()
            flock(descriptor, operation)

        monkeypatch.setattr(fcntl, "flock", lock_late)
    else:
        uuid4 = uuid.uuid4

        def name_late() -> uuid.UUID:
            other_adder()
            return uuid4()

        monkeypatch.setattr(uuid, "uuid4", name_late)
    with storage.incoming(lake) as folder:
        assert not others
        assert (folder / "alive").is_file()
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert not folder.parent.exists()


def test_what_is_damaged_is_named_and_left_out(runs: list[Path], tmp_path: Path) -> None:
    def spoiled(name: str, file: str, text: str | None) -> Path:
        directory = tmp_path / name
        shutil.copytree(runs[0], directory)
        if text is None:
            (directory / file).unlink()
        else:
            (directory / file).write_text(text)
        return directory

    trial = "trials/c1-t1"
    faults = {
        spoiled("a", "manifest.json", "{"): "manifest.json: ",
        spoiled("b", f"{trial}/summary.json", "{}"): f"{trial}/summary.json: ",
        spoiled("c", f"{trial}/windows.jsonl", "not a line\n"): f"{trial}/windows.jsonl: ",
        spoiled("d", f"{trial}/hist/produce_response.hlog", "1,1,1,HISTxx\n"): f"{trial}/hist/produce_response.hlog",
        spoiled("e", f"{trial}/hist/send_delay.hlog", None): f"{trial}/hist/send_delay.hlog: is missing",
        spoiled("f", "env.json", "{}"): "env.json: facts is missing",
    }
    found = added(tmp_path / "lake", *faults, *runs)
    assert len(found["added"]) == 3
    assert [item.directory for item in found["left out"]] == list(faults)
    for item in found["left out"]:
        assert faults[item.directory] in item.text
        assert "\n" not in item.text


def test_a_log_that_is_not_that_of_its_summary_is_left_out(runs: list[Path], tmp_path: Path) -> None:
    """Without digests, as of a killed run."""
    directory = tmp_path / "run"
    shutil.copytree(runs[0], directory)
    (directory / "checksums.sha256").unlink()
    manifest = json.loads((directory / "manifest.json").read_text())
    (directory / "manifest.json").write_text(json.dumps(manifest | {"status": "interrupted"}))
    log = directory / "trials/c1-t1/hist/send_delay.hlog"
    log.write_text("\n".join(log.read_text().splitlines()[:-1]) + "\n")
    (item,) = added(tmp_path / "lake", directory)["left out"]
    assert "send_delay.hlog: has " in item.text
    assert "of summary.json" in item.text


def test_a_run_that_was_resumed_after_it_was_added_takes_the_place_of_the_old_one(
    runs: list[Path], tmp_path: Path
) -> None:
    lake, directory = tmp_path / "lake", tmp_path / "run"
    shutil.copytree(runs[0], directory)
    (first,) = added(lake, directory, runs[1])["added"][:1]
    (directory / "checksums.sha256").unlink()
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest |= {"status": "interrupted", "resumed_utc": ["2026-03-02T00:00:00Z"]}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    (item,) = added(lake, directory)["left out"]
    assert f"highwater bench lake remove {first.text}" in item.text
    compacting.remove(Manifest(lake), first.text)
    assert [row["run"] for row in rows(lake, "runs")] != [first.text]
    assert len(added(lake, directory)["added"]) == 1
    assert len(rows(lake, "runs")) == 2


def test_compacting_changes_files_and_no_row(runs: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(lake, *runs)
    before = everything(lake)
    done = compacting.compact(Manifest(lake))
    assert (done.months, everything(lake)) == (1, before)
    assert done.files_after < done.files_before
    on_disk = {path.relative_to(lake).as_posix() for path in lake.rglob("*.parquet")}
    assert on_disk == {file.path for group in Manifest(lake).groups() for file in group.files}
    assert added(lake, *runs).keys() == {"there already"}
    assert compacting.compact(Manifest(lake)).months == 0


def test_large_files_stay_as_they_are(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    added(lake, *runs)
    before = everything(lake)
    sizes = [file.bytes for group in Manifest(lake).groups() for file in group.files]
    monkeypatch.setattr(compacting, "_SMALL_BYTES", sorted(sizes)[len(sizes) // 2])
    large = {path for path in lake.rglob("*.parquet") if path.stat().st_size >= compacting._SMALL_BYTES}
    compacting.compact(Manifest(lake))
    after = set(lake.rglob("*.parquet"))
    assert large <= after
    assert any(path.name.startswith("compacted-") for path in after - large)
    assert everything(lake) == before
    (group,) = [group for group in Manifest(lake).groups() if len(group.runs) == 2]
    gone, other = (run.run for run in group.runs)
    compacting.remove(Manifest(lake), gone)
    assert everything(lake) == {name: [row for row in items if row["run"] != gone] for name, items in before.items()}
    assert other in Manifest(lake).runs()


def test_a_damaged_file_is_not_compacted(runs: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(lake, *runs)
    path = next((lake / "figures").rglob("*03/*.parquet"))
    octets = bytearray(path.read_bytes())
    octets[len(octets) // 2] ^= 1
    path.write_bytes(octets)
    before = (lake / "manifest.jsonl").read_bytes()
    with pytest.raises(UsageError, match=f"{path}: is damaged"):
        compacting.compact(Manifest(lake))
    assert (lake / "manifest.jsonl").read_bytes() == before
    assert [storage.disagreement(lake, file) is None for file in Manifest(lake).groups()[0].files].count(False) <= 1


def test_a_line_that_was_cut_off_does_not_count(runs: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(lake, runs[0])
    with (lake / "manifest.jsonl").open("a") as file:
        file.write('{"environment": "abc", "mon')
    assert len(Manifest(lake).groups()) == 1
    assert len(added(lake, *runs)["added"]) == 2
    assert len(Manifest(lake).groups()) == 3


def test_a_column_that_an_older_file_lacks_is_null(runs: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(lake, *runs)
    manifest = Manifest(lake)
    group = manifest.groups()[0]
    file = next(file for file in group.files if file.table == "trials")
    path = lake / file.path
    older = pyarrow.parquet.read_table(path).drop_columns(["disk_model", "emulated"])
    pyarrow.parquet.write_table(older.append_column("of_the_future", pa.nulls(older.num_rows, pa.string())), path)
    other = asdict(storage.kept_file(path, "trials", *group.place, path.name))
    text = (lake / "manifest.jsonl").read_text().replace(json.dumps(asdict(file)), json.dumps(other))
    (lake / "manifest.jsonl").write_text(text)

    def models() -> set[object]:
        return {row["disk_model"] for row in rows(lake, "trials") if row["run"] == group.runs[0].run}

    assert models() == {None}
    assert all("of_the_future" not in row for row in rows(lake, "trials"))
    assert compacting.compact(Manifest(lake)).months == 1
    assert models() == {None}


def test_a_lake_of_a_newer_version_is_refused(runs: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(lake, runs[0])
    (lake / "lake.json").write_text('{"schema": "bench.lake/2"}')
    with pytest.raises(UsageError, match=r"lake\.json: says bench\.lake/2, and this version of Highwater reads"):
        added(lake, runs[1])
    (lake / "lake.json").write_text('{"schema": "bench.lake/1"}')
    text = (lake / "manifest.jsonl").read_text()
    (lake / "manifest.jsonl").write_text(text.replace('"version": 1', '"version": 7'))
    with pytest.raises(UsageError, match=r"is version 7 of the table .* knows version 1; install a newer one"):
        Manifest(lake).groups()
    (lake / "manifest.jsonl").write_text(text[: len(text) // 2] + "\n")
    with pytest.raises(UsageError, match=r"manifest\.jsonl:1: is damaged"):
        Manifest(lake).groups()


def test_another_directory_is_no_lake(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(UsageError, match="is not empty and no lake"):
        added(tmp_path, runs[0])
    with pytest.raises(UsageError, match="is not a lake; make one with"):
        Manifest(tmp_path).groups()


@pytest.mark.slow
def test_an_adder_that_is_killed_leaves_whole_runs(runs: list[Path], tmp_path: Path) -> None:
    """Killed as soon as the lake has one run more, with its pool at work on the next ones; eight times."""
    lake = tmp_path / "lake"
    directories = [write_run(tmp_path / f"run{day}", day, trials=1) for day in range(1, 11)]
    adder = "import sys; from highwater.cli import app; app()"
    command = [sys.executable, "-c", adder, "bench", "lake", "add", *map(str, directories), "--lake", str(lake)]
    killed = 0
    for number in range(8):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(partial(ended_or_has, process, lake, number + 1), "a run in the lake")
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate(timeout=60)
        groups = Manifest(lake).groups()
        assert [storage.disagreement(lake, file) for group in groups for file in group.files].count(None) == sum(
            len(group.files) for group in groups
        )
    assert killed > 3
    assert added(lake, *directories).keys() <= {"added", "there already"}
    assert sorted(str(row["source"]) for row in rows(lake, "runs")) == sorted(map(str, directories))
    compacting.compact(Manifest(lake))
    assert len(rows(lake, "trials")) == len(directories)
    assert not any((lake / "incoming").glob("*"))


def ended_or_has(process: subprocess.Popen[bytes], lake: Path, runs: int) -> bool:
    return process.poll() is not None or ((lake / "lake.json").exists() and len(Manifest(lake).runs()) >= runs)


def test_each_metric_has_row_groups_of_its_own(tmp_path: Path) -> None:
    def part(run: str) -> pa.Table:
        histogram = list(range(20_000))
        rows = [{"run": run, "trial_id": "1", "metric": metric, "count": 1} for metric in ("b", "a", "b", "c")]
        kept = [row | {"buckets": histogram, "counts": histogram} for row in rows]
        return pa.Table.from_pylist(kept, tables.SCHEMAS["histograms"])

    path = tmp_path / "histograms.parquet"
    with storage.parquet_writer(path, "histograms") as writer:
        assert storage.write_in_row_groups(writer, [part(f"{number:02d}") for number in range(20)]) == 80
    opened = pyarrow.parquet.ParquetFile(path)
    found = [opened.read_row_group(number, ["run", "metric"]) for number in range(opened.num_row_groups)]
    assert [set(group["metric"].to_pylist()) for group in found] == [{"a"}, {"b"}, {"c"}]
    assert [group["run"].to_pylist() for group in found[:2]] == [
        [f"{number:02d}" for number in range(20)],
        [f"{number:02d}" for number in range(20) for _ in range(2)],
    ]
    assert pyarrow.parquet.read_table(path).num_rows == 80
