from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from highwater.bench.storage import fio
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.storage.probe import probe_target, probe_targets
from highwater.bench.storage.targets import describe_target
from highwater.results.storage import StorageProbes, TargetProbe
from highwater.tuning.facts import collect

requires_fio = pytest.mark.skipif(shutil.which("fio") is None, reason=fio.HOW_TO_INSTALL)


@requires_fio
def test_a_probe_tells_of_all_four_and_leaves_nothing(tmp_path: Path) -> None:
    target = describe_target("here", tmp_path, collect())
    probe = probe_target(target, tmp_path, "alone", runtime_s=0.1, file_bytes=32 << 20)
    assert probe.problem is None
    assert [job.name for job in probe.jobs] == ["sequential_append", "fsync", "sequential_read", "random_read"]
    assert all(job.bytes_per_s > 0 and job.latency_p99_ns for job in probe.jobs)
    append, read = probe.job("sequential_append"), probe.job("sequential_read")
    assert append is not None
    assert read is not None
    # Only what was written is read: blocks that were only allocated would come from no disk.
    assert read.moved_bytes <= append.moved_bytes
    assert list(tmp_path.iterdir()) == []


@requires_fio
def test_a_probe_appends_to_as_many_files_as_it_is_asked_for(tmp_path: Path) -> None:
    target = describe_target("here", tmp_path, collect())
    probe = probe_target(target, tmp_path, "alone", runtime_s=0.1, file_bytes=32 << 20, file_counts=(8, 40))
    assert probe.problem is None
    found = [(job.files, job.moved_bytes) for job in probe.jobs if job.name == "parallel_append"]
    assert [files for files, _ in found] == [8, 40]
    assert all(moved > 0 for _, moved in found)
    assert list(tmp_path.iterdir()) == []


def test_without_fio_the_probe_says_so_and_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told: list[str] = []
    with StorageAreas() as areas:
        areas.add("here", tmp_path, 0)
        (probe,) = probe_targets(areas, collect(), "before", 1.0, told.append)
    assert probe.problem == fio.HOW_TO_INSTALL
    assert (probe.target.name, probe.moment, probe.jobs) == ("here", "before", [])
    assert told == ["probing storage target here with fio"]


def test_a_disk_that_is_nearly_full_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=8 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    probe = probe_target(describe_target("here", tmp_path, collect()), tmp_path, "alone")
    if probe.fio_version is not None:
        assert probe.problem is not None
        assert "too little space" in probe.problem


def test_the_ceiling_is_the_better_of_before_and_after(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "fio_reports" / "random_read.json").read_text()
    job = fio.parse_report(fio.Job("random_read", "randread", 4096, 1, 1.0, direct=False), text)
    target = describe_target("here", tmp_path, collect())

    def probe(rate: float, name: str = "here") -> TargetProbe:
        append = job.model_copy(update={"name": "sequential_append", "bytes_per_s": rate})
        return TargetProbe(
            target=target.model_copy(update={"name": name}),
            moment="before",
            taken_utc="",
            fio_version="3",
            jobs=[append],
        )

    probes = StorageProbes(probes=[probe(1.0), probe(3.0), probe(9.0, "there")])
    assert probes.append_ceiling_bytes_per_s("here") == 3.0
    assert probes.append_ceiling_bytes_per_s("nowhere") is None
