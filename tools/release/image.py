"""The image of a broker: the packages of Debian 13 that Python needs, Highwater, and a user who is not root.

Debian's files are one layer, Highwater and the rest another, so that a new release of it is a small download.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from packaging.utils import canonicalize_name

from tools.release.bill import Part
from tools.release.building import ROOT, Build, run
from tools.release.debian import Package, fetch, part_of, unpack
from tools.release.installed_tree import installed_tree, write_byte_code
from tools.release.oci import Image, Layer, layer_of, write_archive
from tools.release.places import ARCHITECTURES, SUITES, Place

SUITE: Final = "trixie"
USER: Final = 65532
LOG_DIRECTORY: Final = "/var/lib/highwater"
_PYTHON: Final = SUITES[SUITE]
_PACKAGES: Final = (
    "base-files",
    "busybox",
    "ca-certificates",
    "libstdc++6",
    f"libpython{_PYTHON}-stdlib",
    f"python{_PYTHON}-minimal",
)


@dataclass(frozen=True, slots=True)
class _Details:
    name: str
    extras: tuple[str, ...]
    command: tuple[str, ...]
    machines: tuple[str, ...]


# By the first part of the file name. No pattern for the files of one may match those of another.
KINDS: Final = {
    "highwater_kafka": _Details(
        "highwater", (), ("broker", "start", "--config", "/etc/highwater/server.properties"), tuple(ARCHITECTURES)
    ),
    # Load from plain processes: without Spark, and without Java. HdrHistogram has no wheel for other processors.
    "highwater_kafka_bench": _Details("highwater-bench", ("gate",), ("bench", "--help"), ("x86_64",)),
}
# What others need for their scripts, which do not run here, and for Python at a terminal.
_NOT_UNPACKED: Final = frozenset(
    {"debconf", "libdb5.3t64", "libncursesw6", "libreadline8t64", "libtinfo6", "mawk", "openssl", "readline-common"}
)
_LEFT_OUT: Final = (
    "boot",
    "home",
    "usr/games",
    "usr/lib/*-linux-gnu/gconv",
    f"usr/lib/python{_PYTHON}/pydoc_data",
    f"usr/lib/python{_PYTHON}/test",
    *(f"usr/lib/python{_PYTHON}/lib-dynload/{name}*" for name in ("_curses", "_dbm", "_test", "readline")),
    "usr/share/bug",
    "usr/share/ca-certificates",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/pixmaps",
)
_APPLETS: Final = (
    *(
        "[",
        "cat",
        "chmod",
        "cp",
        "date",
        "df",
        "dirname",
        "du",
        "env",
        "find",
        "free",
        "grep",
        "head",
        "hostname",
        "id",
    ),
    *("kill", "ls", "mkdir", "mv", "nc", "nslookup", "ps", "readlink", "rm", "sed", "sh", "sleep", "sort", "stat"),
    *("tail", "tar", "test", "top", "touch", "tr", "uname", "wc", "wget", "which", "xargs"),
)
_PASSWD: Final = f"""root:x:0:0:root:/root:/bin/sh
highwater:x:{USER}:{USER}:Highwater:{LOG_DIRECTORY}:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
"""
# Where scanners look for the packages of an image that has no dpkg.
_NOTES: Final = "var/lib/dpkg/status.d"
_DISTRIBUTION: Final = re.compile(r"/site-packages/([^/]+)-([^/-]+)\.dist-info$")
_PACKED: Final = b"\x1f\x8b"
_SETTINGS: Final = Path(__file__).with_name("image.properties")


def images(build: Build) -> list[Path]:
    """An archive for each processor, and one of all for registries. Needs the wheels in `build.out`."""
    paths = []
    for kind, details in KINDS.items():
        made = {machine: _image(build, kind, machine) for machine in details.machines}
        archives = {f"-{machine}": [image] for machine, image in made.items()}
        if len(made) > 1:
            archives[""] = [*made.values()]
        for machine, each in archives.items():
            paths.append(build.out / f"{kind}-{build.version}-image{machine}.tar")
            write_archive(paths[-1], f"{details.name}:{build.version}", each, build.epoch_s)
    return paths


def parts_of(archive: Path) -> list[Part]:
    """What is in an image, or in several: Debian's packages by the notes in it, Python's by their names."""
    found = set()
    with tarfile.open(archive) as blobs:
        for blob in blobs:
            content = blobs.extractfile(blob)
            if content is None or content.read(2) != _PACKED:
                continue
            content.seek(0)
            with tarfile.open(fileobj=content, mode="r|gz") as layer:
                for entry in layer:
                    if entry.name.startswith(f"{_NOTES}/") and (note := layer.extractfile(entry)):
                        found.add(part_of(note.read().decode()))
                    elif named := _DISTRIBUTION.search(entry.name):
                        found.add(Part("pypi", canonicalize_name(named[1]), named[2]))
    return sorted(found)


def try_image(artefact: Path, chosen: tuple[Place, ...]) -> list[str]:
    """One line, where this machine has podman and the processor. Raises UsageError if the image does not do."""
    if not chosen or not artefact.stem.endswith(("-image", f"-{platform.machine()}")):
        return []
    if os.geteuid() != 0 or not shutil.which("podman"):
        return ["not tested: that needs root and podman: apt-get install -y podman runc"]
    alone = (
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--propagation",
        "private",
    )
    inside = ("sh", "-c", 'ip link set lo up; exec "$@"', "sh", sys.executable, "-m", "tools.release.trying_image")
    with TemporaryDirectory(prefix="highwater-tried-") as name:
        return [run(ROOT, *alone, *inside, artefact, name).strip().splitlines()[-1]]


def _image(build: Build, kind: str, machine: str) -> Image:
    place = build.scratch / f"{kind}-{machine}"
    installed_tree(build, _PYTHON, machine, place / "usr/lib/highwater", KINDS[kind].extras)
    _add_to(place)
    owners = {LOG_DIRECTORY.removeprefix("/"): USER}
    layers = (_debian(build, machine), layer_of(place, build.epoch_s, owners))
    created = datetime.fromtimestamp(build.epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Image(ARCHITECTURES[machine], layers, _config(build, created, KINDS[kind]), created)


@lru_cache
def _debian(build: Build, machine: str) -> Layer:
    """One for all kinds."""
    place = build.scratch / f"debian-{machine}"
    packages = fetch(SUITE, machine, _PACKAGES, place)
    base = _base(place / "root", [package for package in packages if package.name not in _NOT_UNPACKED])
    return layer_of(base, build.epoch_s, {})


def _add_to(ours: Path) -> None:
    for folder in ("etc/highwater", "usr/bin", LOG_DIRECTORY.removeprefix("/")):
        (ours / folder).mkdir(parents=True)
    shutil.copy(_SETTINGS, ours / "etc/highwater/server.properties")
    (ours / "usr/bin/highwater").symlink_to("../lib/highwater/bin/highwater")
    _plain(ours)


def _base(root: Path, packages: list[Package]) -> Path:
    root.mkdir()
    unpack(packages, root)
    # Debian does this in scripts of its packages.
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.write_text("".join(path.read_text() for path in sorted(root.glob("usr/share/ca-certificates/*/*.crt"))))
    for applet in _APPLETS:
        (root / "usr/bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text(_PASSWD)
    (root / "etc/group").write_text(f"root:x:0:\nhighwater:x:{USER}:\nnogroup:x:65534:\n")
    notes = root / _NOTES
    notes.mkdir(parents=True, exist_ok=True)
    for package in packages:
        (notes / package.name).write_text(package.control)
    documents = (path for path in root.glob("usr/share/doc/*/*") if path.name != "copyright")
    for path in [*(path for pattern in _LEFT_OUT for path in root.glob(pattern)), *documents]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # Folders of documents are links to others, too.
    write_byte_code(root / f"usr/lib/python{_PYTHON}", _PYTHON)
    return root


def _plain(root: Path) -> None:
    """The modes that these have whatever the umask."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _config(build: Build, created: str, details: _Details) -> dict[str, Any]:
    revision = build.run("git", "rev-parse", "HEAD").strip()
    project = tomllib.loads((build.source / "pyproject.toml").read_text("utf-8"))["project"]
    labels = {
        "title": details.name,
        "description": project["description"],
        "version": build.version,
        "revision": revision,
        "created": created,
        "licenses": project["license"],
        "base.name": f"Debian {SUITE}, by package",
    }
    return {
        "User": f"{USER}:{USER}",
        "Env": ["PATH=/usr/bin", "LANG=C.UTF-8", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
        "Entrypoint": ["highwater"],
        "Cmd": [*details.command],
        "WorkingDir": "/",
        "Volumes": {LOG_DIRECTORY: {}},
        "ExposedPorts": {"9092/tcp": {}},
        "StopSignal": "SIGTERM",
        "Labels": {f"org.opencontainers.image.{name}": value for name, value in labels.items()},
    }
