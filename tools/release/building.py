"""What each kind of artefact is built from: a clean clone of the last commit, with the time of that commit."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from highwater.bench.user_cache import cached, pip_install
from highwater.common.errors import UsageError

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Build:
    """source: the clone. out: where artefacts go. scratch: for all else. epoch_s: the time that files bear."""

    source: Path
    out: Path
    scratch: Path
    epoch_s: int
    version: str

    def run(self, *command: str | Path, **environment: str) -> str:
        """Run a step in the clone and return what it prints. Raises UsageError with the end of that if it fails."""
        return run(self.source, *command, SOURCE_DATE_EPOCH=str(self.epoch_s), PYTHONHASHSEED="0", **environment)


def run(where: Path, *command: str | Path, **environment: str) -> str:
    # What the caller's shell says of builds and imports is no part of a release.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HIGHWATER_", "PYTHON"))}
    done = subprocess.run(
        command,
        cwd=where,
        env=inherited | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = " / ".join(done.stdout.strip().splitlines()[-4:])
        raise UsageError(f"{' '.join(map(str, command))[:200]} failed with {done.returncode}: {said}")
    return done.stdout


@contextmanager
def clean_build() -> Iterator[Build]:
    """The last commit; what is not committed is no part of it."""
    with TemporaryDirectory(prefix="highwater-release-") as name:
        place = Path(name)
        source = place / "source"
        run(place, "git", "clone", "--quiet", "--no-hardlinks", ROOT, source)
        for path in (place / "out", place / "scratch"):
            path.mkdir()
        project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
        epoch_s = int(run(source, "git", "log", "-1", "--format=%ct"))
        yield Build(source, place / "out", place / "scratch", epoch_s, project["version"])


def settle(root: Path, epoch_s: int, programs: Collection[Path]) -> None:
    """Plain modes whatever the umask, and the time of the commit; folders last, as each change in them is a time."""
    for path in [*sorted(root.rglob("*"), reverse=True), root]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path in programs else 0o644)
        os.utime(path, (epoch_s, epoch_s), follow_symlinks=False)


def release_tools() -> Path:
    """The compiler, and what writes software bills of materials."""
    return pinned_tools("release", "fetching the tools of a release")


def pinned_tools(name: str, announcement: str) -> Path:
    """The folder of what requirements/NAME.txt pins, for PYTHONPATH."""
    requirements = ROOT / f"requirements/{name}.txt"

    def fetch(directory: Path) -> None:
        pip_install(requirements, directory)

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = run(ROOT, "sha256sum", requirements)[:12]
    return cached(f"{name}-tools-{version}-{digest}", announcement, fetch)
