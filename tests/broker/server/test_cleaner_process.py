"""The cleaner's process by itself: it ends without a word when its broker is gone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from highwater.broker.log.files import RealFiles
from tests.broker.log.building import NOW_MS, flush, new_log
from tests.broker.log.compacting import MAP_BYTES, put, roll


def test_it_says_nothing_when_nobody_listens_any_more(tmp_path: Path) -> None:
    files = RealFiles()
    directory, log = new_log(files, root=tmp_path / "log")
    for _ in range(3):
        put(log, (b"key", b"value"))
    roll(log)
    flush(log)
    job = log.compaction_job(log.dirtiness(0, log.log_end_offset, NOW_MS), NOW_MS, MAP_BYTES, 0.9, "")
    process = subprocess.Popen(
        [sys.executable, "-m", "highwater.broker.server.cleaner_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdout.close()
        process.stdin.write(json.dumps({"job": job._asdict(), "max_bytes_per_s": 1e9}).encode() + b"\n")
        process.stdin.flush()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    directory.close()
