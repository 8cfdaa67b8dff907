"""Empty environments in which a file is tested from the file alone: Pythons of this machine, and Debian's hosts."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from highwater.bench.user_cache import cached, need
from highwater.common.errors import UsageError
from tools.release.building import run

TRYING: Final = Path(__file__).with_name("trying.py")
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
# Debian's suites with their Python: 12, 13, and the one that 14 is made of.
SUITES: Final = {"bookworm": "3.11", "trixie": "3.13", "sid": "3.14"}
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_PACKAGES: Final = "python3,python3-venv,ca-certificates"


@dataclass(frozen=True, slots=True)
class LocalPython:
    """A virtual environment of a Python that is here, outside of the clone; pip takes dependencies from its index."""

    version: str
    program: str
    machine: str = platform.machine()

    @property
    def words(self) -> str:
        return f"Python {self.version}"

    def try_out(self, artefact: Path) -> str:
        with TemporaryDirectory(prefix="highwater-tried-") as name:
            place = Path(name)
            run(place, self.program, "-m", "venv", place / "environment")
            python = place / "environment/bin/python"
            run(place, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", artefact)
            return run(place, python, "-P", TRYING).strip().splitlines()[-1]


@dataclass(frozen=True, slots=True)
class DebianHost:
    """A Debian of debootstrap, kept in the cache and tried on in a layer of its own, with nothing but loopback.

    Its wheels are fetched from here. Another processor than this one is emulated by QEMU.
    """

    suite: str
    machine: str

    @property
    def version(self) -> str:
        return SUITES[self.suite]

    @property
    def words(self) -> str:
        emulated = "" if self.machine == platform.machine() else ", emulated"
        return f"Debian {self.suite} {self.machine}{emulated}"

    def try_out(self, artefact: Path) -> str:
        tree = self.tree
        with TemporaryDirectory(prefix="highwater-tried-") as name:
            place = Path(name)
            given = place / "given"
            self._fetch(artefact, given)
            shutil.copy(artefact, given)
            shutil.copy(TRYING, given)
            # No pip of its own and no byte code, of which a broker uses a tenth: minutes where a processor is emulated.
            inside = (
                "set -e; cd /opt; python3 -m venv --without-pip tried; set -- /usr/share/python-wheels/pip-*.whl; "
                'PYTHONPATH="$1" tried/bin/python -m pip install --quiet --no-compile --no-index --find-links /given '
                f"/given/{artefact.name}; tried/bin/python -P /given/trying.py"
            )
            script = (
                "set -eu; mkdir upper work root; ip link set lo up 2>/dev/null || true; "
                'mount -t overlay -o "lowerdir=$1,upperdir=upper,workdir=work" none root; mkdir -p root/given; '
                "mount --bind given root/given; mount -t proc none root/proc; mount --bind /dev root/dev; "
                'cd root; exec chroot . /usr/bin/env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME=/root sh -c "$2"'
            )
            alone = ("unshare", "--mount", "--pid", "--fork", "--net", "--propagation", "private")
            said = run(place, *alone, "sh", "-c", script, "sh", tree, inside)
            return said.strip().splitlines()[-1]

    @property
    def tree(self) -> Path:
        return cached(f"release-root-{self.suite}-{self.machine}", f"making {self.words}", self._make)

    def _make(self, directory: Path) -> None:
        program = need("debootstrap", "debootstrap", "makes Debian's hosts")
        options = (f"--arch={ARCHITECTURES[self.machine]}", "--variant=minbase", f"--include={_PACKAGES}")
        run(directory, program, *options, self.suite, directory)
        run(directory, "chroot", directory, "apt-get", "clean")

    def _fetch(self, artefact: Path, directory: Path) -> None:
        """All that the artefact needs, as pip in that Debian would choose it."""
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
        run(directory.parent, *pip, *platform_options(self.version, self.machine), "--dest", directory, artefact)


Place = LocalPython | DebianHost


def platform_options(python_version: str, machine: str) -> list[str]:
    """pip's options to choose wheels for another Python and processor than those that run it, on Debian 12 or newer."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in (36, 34, 31, 28, 24, 17)]
    platforms = [option for tag in (*tags, f"manylinux2014_{machine}") for option in ("--platform", tag)]
    return ["--python-version", python_version, "--only-binary", ":all:", *platforms]


def places() -> Iterator[Place]:
    """All that this machine can have."""
    for version in PYTHONS:
        if program := program_of(version):
            yield LocalPython(version, program)
    if not why_no_hosts():
        for machine in ARCHITECTURES:
            if machine == platform.machine() or _emulates(machine):
                yield from (DebianHost(suite, machine) for suite in SUITES)


def why_no_hosts() -> str:
    if os.geteuid() != 0:
        return "Debian's hosts need root"
    return "" if shutil.which("debootstrap") else "Debian's hosts need debootstrap: apt-get install -y debootstrap"


def _emulates(machine: str) -> bool:
    return Path(f"/proc/sys/fs/binfmt_misc/qemu-{machine}").exists()


def program_of(version: str) -> str | None:
    """A Python with venv, on the path or of pyenv."""
    for candidate in (
        f"python{version}",
        *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")),
    ):
        try:
            code = "import sys, ensurepip, venv; print(sys.executable)"
            return subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            continue
    return None


def program_of_debian(version: str) -> str | None:
    """The Python of a Debian that has this version, run here by the loader of that Debian, with pip."""
    suite = next((suite for suite, its in SUITES.items() if its == version), None)
    if suite is None or why_no_hosts():
        return None
    tree = DebianHost(suite, platform.machine()).tree
    (pip,) = tree.glob("usr/share/python-wheels/pip-*.whl")
    (loader,) = tree.glob("lib64/ld-linux-*.so.*")
    program = tree / f"python{version}"
    libraries = f"{tree}/usr/lib/{platform.machine()}-linux-gnu"
    program.write_text(
        f'#!/bin/sh\nPYTHONHOME={tree}/usr PYTHONPATH="$PYTHONPATH:{pip}" exec {loader} '
        f'--library-path {libraries} --argv0 {program} {tree}/usr/bin/python{version} "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


def fitting(wheel: str, place: Place) -> bool:
    """Whether pip of the place takes the wheel, or the source distribution."""
    tags = re.search(r"-cp(\d)(\d+)-cp\d+-(.*)\.whl$", wheel)
    if tags is None:
        return True
    return place.version == f"{tags[1]}.{tags[2]}" and tags[3].endswith(f"_{place.machine}")


def try_everywhere(artefact: Path, chosen: tuple[Place, ...]) -> list[str]:
    """A line for each place. Raises UsageError if a place refuses it, or runs other code than the file is for."""
    found = []
    for place in chosen:
        try:
            said = place.try_out(artefact)
        except UsageError as error:
            raise UsageError(f"{artefact.name} on {place.words}: {error}") from None
        wanted = "run compiled" if "-cp3" in artefact.name else "run as Python"
        if wanted not in said:
            raise UsageError(f"{artefact.name} on {place.words}: {said}, where it has to be {wanted!r}")
        found.append(f"{place.words}: {said}")
    return found
