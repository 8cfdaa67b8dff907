"""systemd's own judgement of units: laid into a root of their own, where everything they start is a stub."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

# What systemd makes units depend on, and what ours name.
TARGETS = ("sysinit", "basic", "shutdown", "network-online", "sockets", "time-sync")
PROGRAM = re.compile(r"^Exec\w+=[-@:+!]*(/\S+)", re.MULTILINE)


def lay_out(root: Path, files: Mapping[str, Path]) -> None:
    """Units and drop-ins by their path below /etc/systemd/system, as systemd finds them on a host."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install -y systemd")
    units = root / "etc/systemd/system"
    units.mkdir(parents=True)
    for target in TARGETS:
        (units / f"{target}.target").write_text("[Unit]\nDescription=A stub\n")
    for name, path in files.items():
        (units / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, units / name)
        for program in PROGRAM.findall(path.read_text()):
            stub = root / program.lstrip("/")
            stub.parent.mkdir(parents=True, exist_ok=True)
            stub.write_text("#!/bin/sh\n")
            stub.chmod(0o755)


def complaints(root: Path, unit: str) -> str:
    """What `systemd-analyze verify` has to say."""
    done = _analyze(root, "verify", unit)
    return done.stderr if done.returncode or done.stderr else ""


def exposure(root: Path, unit: str) -> float:
    """0 is the best and 10 the worst; what runs without any limit has 9.6."""
    done = _analyze(root, "security", "--offline=true", unit)
    found = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return float(found[1])


def _analyze(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", f"--root={root}", "--man=no", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
