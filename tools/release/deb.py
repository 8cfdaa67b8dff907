"""Packages for apt and dpkg: one for each suite of Debian and processor, of the installed tree.

/usr/lib/highwater     the tree, for the Python of the suite; /usr/bin has links to its command
highwater-broker       a unit of systemd, not started by the installation; /etc/highwater/broker.properties
man pages and completions in Debian's places
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from highwater.bench.user_cache import need
from tools.release.building import Build, settle
from tools.release.installed_tree import installed_tree
from tools.release.places import ARCHITECTURES, SUITES, program_of

NAME: Final = "highwater"
TEMPLATES: Final = "tools/release/deb_files"
# Debian's suites that are released; a package is for the Python of one of them.
PACKAGED: Final = {suite: SUITES[suite] for suite in ("bookworm", "trixie")}
_MAINTAINER: Final = "The Highwater maintainers <maintainers@highwater.invalid>"
_SCRIPTS: Final = ("postinst", "prerm", "postrm")
_CONTROL: Final = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size_kib}
Depends: python3 (>= {python}), python3 (<< {next_python}~), libc6 (>= 2.36), libgcc-s1, libstdc++6, passwd
Suggests: default-jre-headless
Section: net
Priority: optional
Description: Kafka-protocol log broker, with a tuner for its host
 A log broker that speaks Kafka's protocol and needs no JVM, commands on
 topics, groups and ACLs of any cluster, and a tuner that checks, changes and
 rolls back the settings of a broker's host.
 .
 The broker is a unit of systemd, highwater-broker, which listens on loopback
 and is not started by the installation.
"""
_COPYRIGHT: Final = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Highwater

Files: *
Copyright: {year} The Highwater maintainers
License: Apache-2.0
 On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.
Comment:
 What Highwater needs is part of the package, below /usr/lib/highwater. The
 folder *.dist-info of each has its licenses and the names of its authors:
"""


def packages(build: Build) -> list[Path]:
    """Build them from the wheels in `build.out`: the compiled wheel of a Python and processor, or else the pure one."""
    need("dpkg-deb", "dpkg", "builds packages of Debian")
    shared = _shared(build)
    return [
        _package(build, shared, suite, machine)
        for suite, python in PACKAGED.items()
        for machine in ARCHITECTURES
        if program_of(python)
    ]


def left_out() -> str:
    """The suites of which this machine has no Python; empty if there are none."""
    missing = [f"{suite} (Python {python})" for suite, python in PACKAGED.items() if program_of(python) is None]
    return f"packages for Debian's {', '.join(missing)}: there is no such Python here" if missing else ""


def _shared(build: Build) -> Path:
    """What is the same in all packages."""
    root = build.scratch / "deb-shared"
    man = root / "usr/share/man/man1"
    man.mkdir(parents=True)
    build.run(sys.executable, "-m", "tools.release.man_pages", man)
    for page in sorted(man.iterdir()):
        _compress(page)
    (man / "highwater-kafka.1.gz").symlink_to("highwater.1.gz")
    for shell, folder, name, other in (
        ("bash", "bash-completion/completions", "highwater", "highwater-kafka"),
        ("zsh", "zsh/vendor-completions", "_highwater", None),
        ("fish", "fish/vendor_completions.d", "highwater.fish", "highwater-kafka.fish"),
    ):
        path = root / "usr/share" / folder / name
        path.parent.mkdir(parents=True)
        path.write_text(build.run(sys.executable, "-m", "highwater", "completion", shell), "utf-8")
        if other is not None:
            path.with_name(other).symlink_to(name)
    templates = build.source / TEMPLATES
    for source, target in (
        (templates / "highwater-broker.service", "usr/lib/systemd/system/highwater-broker.service"),
        (templates / "broker.properties", "etc/highwater/broker.properties"),
        (templates / "lintian-overrides", f"usr/share/lintian/overrides/{NAME}"),
        (build.source / "CHANGELOG.md", f"usr/share/doc/{NAME}/changelog"),
    ):
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, root / target)
    _compress(root / f"usr/share/doc/{NAME}/changelog")
    (root / "var/lib/highwater").mkdir(parents=True)
    (root / "usr/bin").mkdir()
    for command in ("highwater", "highwater-kafka"):
        (root / "usr/bin" / command).symlink_to("../lib/highwater/bin/highwater")
    return root


def _package(build: Build, shared: Path, suite: str, machine: str) -> Path:
    python, architecture = PACKAGED[suite], ARCHITECTURES[machine]
    version = f"{build.version}-1~{suite}"
    root = build.scratch / f"deb-{suite}-{architecture}"
    shutil.copytree(shared, root, symlinks=True)
    tree = installed_tree(build, python, machine, root / "usr/lib/highwater")
    documents = root / f"usr/share/doc/{NAME}"
    moment = datetime.fromtimestamp(build.epoch_s, UTC)
    (documents / "copyright").write_text(
        _COPYRIGHT.format(year=moment.year) + "".join(f"  {line}\n" for line in _bundled(tree)), "utf-8"
    )
    (documents / "changelog.Debian").write_text(
        f"{NAME} ({version}) {suite}; urgency=medium\n\n  * Release {build.version}: see changelog.gz.\n\n"
        f" -- {_MAINTAINER}  {moment:%a, %d %b %Y %H:%M:%S} +0000\n",
        "utf-8",
    )
    _compress(documents / "changelog.Debian")
    control = root / "DEBIAN"
    control.mkdir()
    for script in _SCRIPTS:
        shutil.copyfile(build.source / TEMPLATES / script, control / script)
    (control / "conffiles").write_text("/etc/highwater/broker.properties\n", "utf-8")
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    installed = [path for path in files if control not in path.parents]
    sums = (f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in installed)  # noqa: S324
    (control / "md5sums").write_text("".join(sums), "utf-8")
    (control / "control").write_text(
        _CONTROL.format(
            name=NAME,
            version=version,
            architecture=architecture,
            maintainer=_MAINTAINER,
            size_kib=sum(path.stat().st_size + 1023 >> 10 for path in installed),
            python=python,
            next_python=f"3.{int(python.split('.')[1]) + 1}",
        ),
        "utf-8",
    )
    programs = {root / "usr/lib/highwater/bin/highwater", *(control / script for script in _SCRIPTS)}
    settle(root, build.epoch_s, programs)
    path = build.out / f"{NAME}_{version}_{architecture}.deb"
    # The usual level, 6, takes a sixth off the size for six times the CPU time. Several threads write other bytes.
    build.run("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--threads-max=1", "--build", root, path)
    shutil.rmtree(root)
    return path


def _bundled(tree: Path) -> Iterator[str]:
    """Name, version and license of each distribution in the tree."""
    for path in sorted(tree.glob("lib/*/site-packages/*.dist-info/METADATA")):
        about = HeaderParser().parsestr(path.read_text("utf-8"))
        classified = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier", []) if "License ::" in each]
        stated = about["License-Expression"] or ", ".join(classified) or (about["License"] or "see its folder")
        yield f"{about['Name']} {about['Version']}: {stated.splitlines()[0]}"


def _compress(path: Path) -> None:
    with path.with_name(f"{path.name}.gz").open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(path.read_bytes())
    path.unlink()
