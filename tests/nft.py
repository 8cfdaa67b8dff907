"""nft, which writes packet filters: that on PATH, or Debian's, unpacked into the user's cache and not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from highwater.bench.user_cache import cached, run_step
from highwater.common.errors import UsageError

_PACKAGES: Final = (
    "nftables",
    "libnftables1",
    "libnftnl11",
    "libmnl0",
    "libjansson4",
    "libxtables12",
    "libedit2",
    "libgmp10",
)


def load_rules(prefix: Sequence[str], rules: str) -> None:
    """Have the kernel take these rules, in the network namespace in which `prefix` runs a command. Needs root."""
    program, environment = _nft()
    command = [*prefix, program, "-f", "-"]
    done = subprocess.run(command, input=rules, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"nft does not take the rules: {done.stderr.strip()}")


@cache
def _nft() -> tuple[str, dict[str, str]]:
    """The program and its environment. Raises UsageError where it is neither installed nor can be downloaded."""
    installed = shutil.which("nft") or shutil.which("nft", path="/usr/sbin:/sbin")
    if installed is not None:
        return installed, dict(os.environ)
    folder = cached("nft-debian", "nft", _unpack)
    libraries = {str(path.parent) for path in folder.rglob("*.so*")}
    return str(folder / "usr/sbin/nft"), {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(libraries))}


def _unpack(folder: Path) -> None:
    download = ["apt-get", "download", *_PACKAGES]
    try:
        run_step(download, folder)
    except UsageError:  # a machine whose lists of packages are missing or old
        run_step(["apt-get", "update"], folder)
        run_step(download, folder)
    for package in folder.glob("*.deb"):
        run_step(["dpkg-deb", "--extract", package, folder], folder)
        package.unlink()
