"""What npm fetches: the packages of a package-lock.json, which has the SHA-512 of each."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from highwater.bench.user_cache import cached, need
from highwater.common.errors import UsageError

_FILES: Final = ("package.json", "package-lock.json")
_MISMATCH: Final = re.compile(r"wanted (\S+) but got (\S+?)\.?[ \n]", re.IGNORECASE)


def npm_packages(source: Path, name: str) -> Path:
    """The folder with node_modules of what `source` names, fetched on first use.

    Raises UsageError without npm, if it fails, or if a package is not the locked one. No script of a package runs.
    """

    def fetch(directory: Path) -> None:
        npm = need("npm", "npm", f"fetches {name}")
        for file in _FILES:
            shutil.copy(source / file, directory)
        command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(
            command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise UsageError(_refusal(done.stderr, source / _FILES[-1]))

    digest = hashlib.sha256((source / _FILES[-1]).read_bytes()).hexdigest()[:12]
    return cached(f"{name}-{digest}", f"{name}: fetched with npm", fetch)


def locked(lock: Path) -> dict[str, dict[str, str]]:
    """The packages of a package-lock.json but the first, which is its own."""
    packages = json.loads(lock.read_text("utf-8"))["packages"]
    return {name.rpartition("node_modules/")[2]: entry for name, entry in packages.items() if name}


def _refusal(said: str, lock: Path) -> str:
    if (differs := _MISMATCH.search(said)) is not None:
        names = [name for name, entry in locked(lock).items() if entry["integrity"] == differs[1]]
        return (
            f"{', '.join(names)} is another package than {lock} pins: its hash is {differs[2]}; find out who changed it"
        )
    lines = [line for line in said.splitlines() if "complete log of this run" not in line and line.strip()]
    return f"npm ci for {lock} failed: {lines[-1] if lines else 'it printed nothing'}"
