"""The kernel's trace of this machine shows what a program waits for; nothing of it is left. As root."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuning.test_real_host import needs_this_host
from tests.waiting import wait_until

FLUSHES = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print("ready", flush=True)
while True:
    os.pwrite(file, os.urandom(4096), 0)
    os.fdatasync(file)
"""
HIGHWATER = [sys.executable, "-m", "highwater", "tune", "waits"]


def on_a_disk() -> Path:
    """A folder that is in no memory file system, where a flush waits for nothing."""
    return Path(__file__).parents[3] / "results"


@pytest.fixture
def flushing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    needs_this_host()
    place = on_a_disk() / f"waits-{os.getpid()}"
    place.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-c", FLUSHES, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.wait()
            place.unlink()


def instance_of(process: int) -> bool:
    """Whether the trace has an instance of this process. Looked at in a mount namespace that ends with the command."""
    look = f"mount -t tracefs tracefs /sys/kernel/tracing && ls /sys/kernel/tracing/instances/highwater-waits-{process}"
    return subprocess.run(["unshare", "--mount", "sh", "-c", look], capture_output=True, check=False).returncode == 0


def test_a_program_that_flushes_waits_for_the_disk(flushing: subprocess.Popen[str]) -> None:
    command = [*HIGHWATER, str(flushing.pid), "--seconds", "1", "--at-least", "1us", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        out, error = watching.communicate(timeout=60)
    assert (watching.returncode, error) == (0, "")
    document = json.loads(out)
    assert document["processes"] == [flushing.pid]
    assert ("main thread", "fdatasync", "flush") in {
        (row["threads"], row["call"], row["cause"]) for row in document["waits"]
    }
    assert not instance_of(watching.pid)


@pytest.mark.parametrize("end", ["the program ends", "the user interrupts"])
def test_what_was_seen_until_then_is_reported(flushing: subprocess.Popen[str], end: str) -> None:
    command = [*HIGHWATER, str(flushing.pid), "--seconds", "600", "--at-least", "1us"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        wait_until(lambda: instance_of(watching.pid), "the kernel records")
        if end == "the program ends":
            flushing.kill()
            flushing.wait()
        else:
            watching.send_signal(signal.SIGINT)
        out, _ = watching.communicate(timeout=30)
    assert watching.returncode == 0
    assert (f"until process {flushing.pid} ended," in " ".join(out.split())) == (end == "the program ends")
    assert not instance_of(watching.pid)


def test_what_a_killed_run_left_is_removed_by_the_next(flushing: subprocess.Popen[str]) -> None:
    with subprocess.Popen([*HIGHWATER, str(flushing.pid), "--seconds", "600"], stdout=subprocess.PIPE) as killed:
        wait_until(lambda: instance_of(killed.pid), "the kernel records")
        killed.kill()
    assert instance_of(killed.pid)
    subprocess.run([*HIGHWATER, str(flushing.pid), "--seconds", "0.1"], capture_output=True, check=True, timeout=60)
    assert not instance_of(killed.pid)
