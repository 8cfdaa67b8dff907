"""Run in namespaces of its own for network, mounts and processes: an archive is loaded, and its broker used.

    python -m tools.release.trying_image ARCHIVE FOLDER

The command and the user are the image's own. A record is taken and given back, also after SIGKILL; the user is not
root, nothing outside of the volume is written, and a volume that cannot be written is refused. Prints one line.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from tools.release.trying import DEADLINE_S, exchange, fetch

_ADDRESS: Final = "localhost:9092"
_MOST_BYTES: Final = 150_000_000
# The root of the container is nobody's to write.
_LIMITS: Final = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges")
# Podman asks for more than root has everywhere.
_ULIMITS: Final = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")


class _Podman:
    """With storage of its own below `place`. Its host network is that of these namespaces."""

    def __init__(self, place: Path) -> None:
        # crun refuses hosts with control groups of both versions.
        runtime = ("--runtime", "runc") if shutil.which("runc") else ()
        self._command = ("podman", "--root", place / "storage", "--runroot", place / "run", *runtime)

    def __call__(self, *words: str | Path, status: tuple[int, ...] = (0,)) -> str:
        """What it prints, on standard error if nothing else."""
        done = subprocess.run([*self._command, *words], capture_output=True, text=True, check=False)
        said = done.stdout.strip() or done.stderr.strip()
        if done.returncode not in status:
            sys.exit(f"podman {words[0]} ended with {done.returncode}: {said[-400:]}")
        return said

    def run(self, image: str, *options: str, words: tuple[str, ...] = (), status: tuple[int, ...] = (0,)) -> str:
        return self("run", "--network=host", *_LIMITS, *_ULIMITS, *options, image, *words, status=status)

    @contextmanager
    def broker(self, image: str) -> Iterator[str]:
        """A container that runs as the image says; ended by SIGKILL."""
        name = self.run(image, "--detach", "--volume=log:/var/lib/highwater")
        try:
            yield name
        finally:
            self("rm", "--force", "--time", "0", name)


def main(archive: Path, place: Path) -> None:
    podman = _Podman(place)
    image = podman("load", "--quiet", "--input", archive).rpartition(": ")[2]
    (found,) = json.loads(podman("image", "inspect", image))
    podman("volume", "create", "log")
    if "highwater-bench:" in image:
        seen = _try_benchmark(podman, image)
    elif found["Size"] > _MOST_BYTES:
        sys.exit(f"{found['Size']} bytes unpacked, where {_MOST_BYTES} are the most")
    else:
        seen = _try_broker(podman, image)
    print(f"podman: {found['Size'] / 1e6:.0f} MB unpacked; {seen}")  # noqa: T201


def _try_benchmark(podman: _Podman, image: str) -> str:
    """Measures a broker of its own. On a busy machine no figure is valid (4), but all records are there."""
    load = ("--launcher=process", "--rate=200/s", "--for=3s", "--warmup=1s", "--trials=1", "--quiet")
    options = ("--volume=log:/var/lib/highwater", "--tmpfs=/tmp")
    return podman.run(image, *options, words=("bench", "run", *load, "--out=/var/lib/highwater/result"), status=(0, 4))


def _try_broker(podman: _Podman, image: str) -> str:
    started_s = time.monotonic()
    with podman.broker(image) as name:
        first_s = _answered() - started_s
        user = _user_of(podman, name)
        exchange(_ADDRESS)
    started_s = time.monotonic()
    with podman.broker(image) as name:
        again_s = _answered() - started_s
        fetch(_ADDRESS, "again")
        podman("stop", "--time", "60", name)
        if (ended := podman("inspect", "--format", "{{.State.ExitCode}}", name)) != "0":
            sys.exit(f"the broker ended with {ended} at SIGTERM")
    refused = podman.run(image, "--rm", "--volume=log:/var/lib/highwater:ro", status=(2,))
    if refused.count("\n") or "/var/lib/highwater" not in refused:
        sys.exit(f"a volume that cannot be written is refused with: {refused}")
    return (
        f"user {user}; first answer after {first_s:.1f} s, after SIGKILL {again_s:.1f} s; "
        "a volume that is read-only is refused"
    )


def _answered() -> float:
    """When Metadata came."""
    often = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50, "log_level": 0}
    AdminClient({"bootstrap.servers": _ADDRESS, **often}).list_topics(timeout=DEADLINE_S)
    return time.monotonic()


def _user_of(podman: _Podman, name: str) -> int:
    number = podman("inspect", "--format", "{{.State.Pid}}", name)
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    user = int(next(line.split()[1] for line in lines if line.startswith("Uid:")))
    if user == 0:
        sys.exit("the broker runs as root")
    return user


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
