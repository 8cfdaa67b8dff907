"""Debian's packages without a Debian: fetched by apt with the archive's signature, for any processor, and unpacked.

Nothing is installed and no script of a package runs, so that neither root nor an emulator is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from email import message_from_string
from pathlib import Path
from typing import Final, NamedTuple

from highwater.bench.user_cache import need
from tools.release.bill import Part
from tools.release.building import run
from tools.release.places import ARCHITECTURES

_KEYS: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_ARCHIVE: Final = "http://deb.debian.org/debian"


class Package(NamedTuple):
    """path: the .deb. control: what dpkg would note of it."""

    name: str
    path: Path
    control: str


def part_of(control: str) -> Part:
    """What such a note is about."""
    fields = message_from_string(control)
    return Part("deb", fields["Package"], fields["Version"], fields["Architecture"])


def fetch(suite: str, machine: str, names: Iterable[str], place: Path) -> list[Package]:
    """These packages and what they depend on, in the newest versions of the suite, security updates among them."""
    program = need("apt-get", "apt", "fetches Debian's packages")
    for folder in ("lists/partial", "archives/partial"):
        (place / folder).mkdir(parents=True)
    (place / "status").touch()
    source = f"deb [signed-by={_KEYS}] {_ARCHIVE}"
    suites = (f"{source} {suite} main", f"{source} {suite}-updates main", f"{source}-security {suite}-security main")
    (place / "sources.list").write_text("\n".join([*suites, ""]))
    settings = {
        "Dir::State::lists": f"{place}/lists",
        "Dir::State::status": f"{place}/status",
        "Dir::State::extended_states": f"{place}/extended",
        "Dir::Cache": str(place),
        "Dir::Etc::sourcelist": f"{place}/sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "APT::Architecture": ARCHITECTURES[machine],
        "APT::Architectures": ARCHITECTURES[machine],
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
    }
    apt = [program, "--quiet", "--yes", *(part for item in settings.items() for part in ("--option", "=".join(item)))]
    run(place, *apt, "--error-on=any", "update")
    run(place, *apt, "--download-only", "install", *names)
    return sorted(map(_package, place.glob("archives/*.deb")), key=lambda package: package.name)


def _package(path: Path) -> Package:
    control = run(path.parent, "dpkg-deb", "--field", path)
    return Package(part_of(control).name, path, control)


def unpack(packages: Iterable[Package], root: Path) -> None:
    """Put their files below root, base-files first: it has the links that others go through, as /lib."""
    for package in sorted(packages, key=lambda package: (package.name != "base-files", package.name)):
        run(root, "dpkg-deb", "--extract", package.path, root)
