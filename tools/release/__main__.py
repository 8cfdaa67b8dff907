"""Builds what is published into dist/ from a clean clone, twice, and tests each file from the file alone.

    python -m tools.release [--only wheel] [--tests quick|all|none]
    python -m tools.release --built dist [--only wheel]          # only tests files that were built before

Exit status: 0 when the two builds are the same bytes and all tests passed, 1 when not, 2 when something is missing.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.bench.maven import read_table
from highwater.common.errors import UsageError
from highwater.common.units import plural, size_text
from tools.release import compiled, deb, image
from tools.release.bill import Part, write_bill
from tools.release.building import ROOT, Build, clean_build
from tools.release.collection import collection, try_collection
from tools.release.deb_host import try_package
from tools.release.places import LocalPython, Place, fitting, places, try_everywhere, why_no_hosts
from tools.release.site import site_archive, try_site
from tools.release.wheels import pure_wheel, source_distribution


@dataclass(frozen=True, slots=True)
class Kind:
    """build: writes files into Build.out, after the kinds that it needs. test: what was seen of one file, by line.

    parts: what a file holds, where it is more than pip would install. has_bill: whether pip installs something with it,
    which its bill lists.
    """

    name: str
    files: str
    """A pattern of the names of its files."""
    build: Callable[[Build], list[Path]]
    test: Callable[[Path, tuple[Place, ...]], list[str]]
    needs: tuple[str, ...] = ()
    parts: Callable[[Path], Iterable[Part]] = lambda path: ()
    has_bill: bool = True


def _try_wheel(artefact: Path, chosen: tuple[Place, ...]) -> list[str]:
    return try_everywhere(artefact, tuple(place for place in chosen if fitting(artefact.name, place)))


def _try_source(artefact: Path, chosen: tuple[Place, ...]) -> list[str]:
    """With pip's own build of it, which takes setuptools from the index; once, as the wheel is tried everywhere."""
    return try_everywhere(artefact, tuple(place for place in chosen if isinstance(place, LocalPython))[:1])


SUMS: Final = "SHA256SUMS"
KINDS: Final = (
    Kind("sdist", "highwater_kafka-*.tar.gz", source_distribution, _try_source),
    Kind("wheel", "*-py3-none-any.whl", pure_wheel, _try_wheel),
    Kind("compiled", "*-cp3*.whl", compiled.compiled_wheels, _try_wheel, needs=("wheel",)),
    Kind("image", "*-image*.tar", image.images, image.try_image, needs=("wheel", "compiled"), parts=image.parts_of),
    Kind("collection", "highwater-kafka-*.tar.gz", collection, try_collection),
    Kind("site", "highwater-docs-*.tar.gz", site_archive, try_site, has_bill=False),
    Kind("deb", "*.deb", deb.packages, try_package, needs=("wheel", "compiled")),
)


class Only(StrEnum):
    """The names of KINDS."""

    SDIST = "sdist"
    WHEEL = "wheel"
    COMPILED = "compiled"
    IMAGE = "image"
    COLLECTION = "collection"
    SITE = "site"
    DEB = "deb"


class Tests(StrEnum):
    """How much is tested: nothing, this Python, or every Python and Debian host that this machine can have."""

    NONE = "none"
    QUICK = "quick"
    ALL = "all"


def main(
    only: Annotated[
        list[Only] | None, typer.Option(help="Build this kind, and what it is made of; repeatable.")
    ] = None,
    tests: Annotated[Tests, typer.Option(help="Where each file is tried out.")] = Tests.ALL,
    out: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where files go.")] = ROOT / "dist",
    built: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="Build nothing: test the files of an earlier build.")
    ] = None,
) -> None:
    """Build, compare two builds, test, and print a table."""
    wanted = {each.value for each in only or Only}
    if built is None:
        wanted |= {name for kind in KINDS if kind.name in wanted for name in kind.needs}
    kinds = [kind for kind in KINDS if kind.name in wanted]
    if built is not None:
        _test(_earlier(kinds, built.resolve()), tests, [])
        return
    out = out.resolve()  # Files are tried out from other folders.
    missing: list[str] = []
    with clean_build() as build, clean_build() as again:
        made = {kind: _built(kind, build, missing) for kind in kinds}
        for kind in (kind for kind, paths in made.items() if paths):
            _built(kind, again, missing)
        files = [path for each in made.values() for path in each]
        unlike = [path.name for path in files if not _is_same(path, again.out / path.name)]
        if unlike:
            _end(1, f"two builds differ: {', '.join(unlike)}")
        typer.echo(f"two builds are the same bytes: {plural(len(files), 'file')}")
        out.mkdir(parents=True, exist_ok=True)
        for kind, paths in made.items():
            for path in paths:
                there = Path(shutil.copy(path, out))
                if kind.has_bill:
                    write_bill(there, _digest(path), build, kind.parts(path))
    _write_digests(out)
    left_out = [each.left_out() for name, each in (("compiled", compiled), ("deb", deb)) if name in wanted]
    _test({kind: [out / path.name for path in paths] for kind, paths in made.items()}, tests, missing, left_out)


def _earlier(kinds: Iterable[Kind], directory: Path) -> dict[Kind, list[Path]]:
    """Files of an earlier build. Raises UsageError if a kind has none, or a file is not the one that was built."""
    if not (directory / SUMS).is_file():
        raise UsageError(f"--built: {directory} has no {SUMS}: name a folder that make release has filled")
    digests = read_table(directory / SUMS)
    found = {kind: sorted(directory.glob(kind.files)) for kind in kinds}
    for kind, paths in found.items():
        if not paths:
            raise UsageError(f"--built: {directory} has no {kind.files}")
        for path in paths:
            if digests.get(path.name) != _digest(path):
                raise UsageError(f"--built: {path} is another file than {SUMS} says")
    return found


def _test(
    made: Mapping[Kind, Sequence[Path]], tests: Tests, missing: Sequence[str], left_out: Sequence[str] = ()
) -> None:
    """Print what was seen of each file once it is seen. Ends with status 1 if a file failed, or a kind is missing."""
    chosen = _places(tests)
    untested = "not tested" if tests is Tests.NONE else "not tested: no such Python or processor here"
    failed = False
    for kind, paths in made.items():
        for path in paths:
            _print_file(path)
            try:
                seen = kind.test(path, chosen) or [untested]
            except UsageError as error:
                seen, failed = [f"FAILED: {error}"], True
            for line in seen:
                typer.echo(f"    {line}")
    for line in filter(None, (*missing, *left_out)):
        typer.echo(f"NOT BUILT: {line}")
    if tests is Tests.ALL and (lacking := why_no_hosts()):
        typer.echo(f"NOT TESTED: {lacking}")
    if failed or missing:
        _end(1, "not every artefact was built and passed")


def _built(kind: Kind, build: Build, missing: list[str]) -> list[Path]:
    """What a kind built; nothing, and a line more in `missing`, where something for it cannot be had."""
    typer.echo(f"==> {kind.name}: building from {build.source}", err=True)
    try:
        return kind.build(build)
    except UsageError as error:
        missing.append(f"{kind.name}: {error}")
        return []


def _places(tests: Tests) -> tuple[Place, ...]:
    if tests is Tests.NONE:
        return ()
    if tests is Tests.QUICK:
        return (LocalPython(f"{sys.version_info.major}.{sys.version_info.minor}", sys.executable),)
    return tuple(places())


def _is_same(one: Path, other: Path) -> bool:
    return other.is_file() and _digest(one) == _digest(other)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_digests(out: Path) -> None:
    files = sorted(path for path in out.iterdir() if path.is_file() and path.name != SUMS)
    (out / SUMS).write_text("".join(f"{_digest(path)}  {path.name}\n" for path in files), "utf-8")


def _print_file(path: Path) -> None:
    typer.echo(f"{path.name}\n    {size_text(path.stat().st_size)}, SHA-256 {_digest(path)[:16]}")


def _end(status: int, line: str) -> None:
    typer.echo(f"release: {line}", err=True)
    raise typer.Exit(status)


if __name__ == "__main__":
    try:
        typer.run(main)
    except UsageError as error:
        typer.echo(f"release: {error}", err=True)
        sys.exit(2)
