"""fio's figures are fio's: a stored report, and a live one beside what fio itself prints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from highwater.bench.storage import fio
from highwater.bench.storage.fio import FioError, Job
from highwater.results.storage import FioProbe

REPORTS = Path(__file__).parent / "fio_reports"
READ = Job("random_read", "randread", 4096, 16 << 20, 0.2, direct=False, repeat=True)
SYNC = Job("fsync", "write", 4096, 1 << 20, 0.3, direct=False, sync=True)


def test_a_stored_report() -> None:
    text = (REPORTS / "random_read.json").read_text()
    reported = json.loads(text)["jobs"][0]["read"]
    probe = fio.parse_report(READ, "fio: a warning before the document\n" + text)
    assert probe.bytes_per_s == reported["bw_bytes"] == 67553432
    assert probe.operations_per_s == reported["iops"]
    assert probe.moved_bytes == reported["io_bytes"]
    assert probe.runtime_ns == reported["runtime"] * 10**6
    assert probe.latency_p99_ns == reported["clat_ns"]["percentile"]["99.000000"]
    assert probe.latency_max_ns == reported["clat_ns"]["max"]


def test_a_stored_report_of_synced_appends_tells_of_the_sync() -> None:
    text = (REPORTS / "fsync.json").read_text()
    reported = json.loads(text)["jobs"][0]
    probe = fio.parse_report(SYNC, text)
    assert probe.operations_per_s == reported["write"]["iops"]
    assert probe.latency_p999_ns == reported["sync"]["lat_ns"]["percentile"]["99.900000"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not what this version of us reads"),
        ("{}", "is not what this version of us reads: KeyError"),
        ('{"jobs": [{"error": 28}]}', "fio failed at random_read with error 28"),
        (
            '{"jobs": [{"error": 0, "read": {"clat_ns": {}, "io_bytes": 0, "runtime": 0, "bw_bytes": 0, "iops": 0}}]}',
            "fio moved nothing at random_read in 0.2 s",
        ),
    ],
)
def test_a_report_that_says_nothing(text: str, complaint: str) -> None:
    with pytest.raises(FioError, match=complaint):
        fio.parse_report(READ, text)


def test_fio_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FioError, match=r"^fio is not installed; .*: apt-get install -y fio$"):
        fio.version()
    with pytest.raises(FioError, match=r"^fio is not installed"):
        fio.run(READ, tmp_path / "file")


def test_a_file_name_may_hold_what_fio_takes_apart(tmp_path: Path) -> None:
    command = READ.command(tmp_path / "a:b", tmp_path / "report")
    assert f"--filename={tmp_path}/a\\:b" in command
    many = Job("parallel_append", "write", 1 << 20, 8 << 20, 0.2, direct=False, files=8)
    assert f"--directory={tmp_path}/a\\:b" in many.command(tmp_path / "a:b" / "file", tmp_path / "report")


requires_fio = pytest.mark.skipif(shutil.which("fio") is None, reason=fio.HOW_TO_INSTALL)


@requires_fio
def test_a_live_run_equals_what_fio_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    parse = fio.parse_report

    def remember(job: Job, text: str) -> FioProbe:
        printed.append(text)
        return parse(job, text)

    monkeypatch.setattr(fio, "parse_report", remember)
    probe = fio.run(SYNC, tmp_path / "file:1")
    reported = json.loads(printed[0])["jobs"][0]["write"]
    assert probe.bytes_per_s == reported["bw_bytes"] > 0
    assert probe.moved_bytes == reported["io_bytes"] <= (tmp_path / "file:1").stat().st_size
    assert probe.latency_p50_ns is not None
    assert [path.name for path in tmp_path.iterdir()] == ["file:1"]


@requires_fio
def test_fios_complaint_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FioError, match=r"^fio failed: .+") as caught:
        fio.run(READ, tmp_path / "missing" / "file")
    assert "\n" not in str(caught.value)


def test_a_hanging_fio_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fio").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(fio, "GRACE_S", 0.1)
    with pytest.raises(FioError, match=r"^fio was not done after 0 s, and was ended$"):
        fio.run(READ, tmp_path / "file")
