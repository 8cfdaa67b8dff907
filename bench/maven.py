"""What Maven fetches: the jars of a POM, of which a table beside it pins names and SHA-256.

`python -m highwater.bench.maven POM ...` fetches them and writes the tables anew, in the format of sha256sum.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import typer

from highwater.bench.user_cache import cache_directory, cached, need, run_step
from highwater.common.atomic_files import write_atomically
from highwater.common.errors import UsageError


def table_of(pom: Path) -> Path:
    return pom.with_suffix(".sha256")


def folder_of(pom: Path, name: str) -> Path:
    """Where the jars are, or will be: another folder for another POM, and for another table. Raises UsageError."""
    table = table_of(pom)
    if not (pom.is_file() and table.is_file()):
        missing = table if pom.is_file() else pom
        raise UsageError(f"there is no {missing}: a POM, and its table that python -m highwater.bench.maven writes")
    digest = hashlib.sha256(pom.read_bytes() + table.read_bytes()).hexdigest()
    return cache_directory() / f"{name}-{digest[:12]}"


def jars(pom: Path, name: str, announcement: str, purpose: str) -> Path:
    """What `pom` depends on, fetched on first use and compared with its table.

    Raises UsageError if Maven is missing or fails, or if a jar is not the pinned one.
    """

    def fetch(directory: Path) -> None:
        _copy_dependencies(pom, directory, purpose)
        check_files(directory, table_of(pom), f"python -m highwater.bench.maven {pom}")

    return cached(folder_of(pom, name).name, announcement, fetch)


def maven(purpose: str) -> str:
    """Raises UsageError if this host has none."""
    return need("mvn", "maven", purpose)


def check_files(directory: Path, table: Path, way_to_pin: str) -> None:
    """Raises UsageError that names the first file of `directory` that the table does not pin so, or that is missing."""
    pinned, found = read_table(table), digests(directory)
    for name in sorted(pinned.keys() | found.keys()):
        if name not in found:
            raise UsageError(f"{name}, which {table} pins, was not fetched: to pin what is needed now: {way_to_pin}")
        if name not in pinned:
            raise UsageError(f"{table} does not pin {name}, which was fetched: check it; to pin it: {way_to_pin}")
        if pinned[name] != found[name]:
            raise UsageError(
                f"{name} is another file than {table} pins: its SHA-256 is {found[name]}; find out who changed it"
            )


def read_table(table: Path) -> dict[str, str]:
    """The SHA-256 of each file name."""
    lines = (line.partition("  ") for line in table.read_text("utf-8").splitlines())
    return {name: digest for digest, _, name in lines}


def digests(directory: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in directory.iterdir():
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def write_table(table: Path, found: dict[str, str]) -> None:
    write_atomically(table, "".join(f"{found[name]}  {name}\n" for name in sorted(found)))


def _copy_dependencies(pom: Path, directory: Path, purpose: str) -> None:
    goal = "dependency:copy-dependencies"
    run_step([maven(purpose), "-q", "-B", "-f", pom.absolute(), goal, f"-DoutputDirectory={directory}"], directory)


def main(poms: list[Path]) -> None:
    for pom in poms:
        with tempfile.TemporaryDirectory() as name:
            _copy_dependencies(pom, Path(name), f"fetches what {pom} names")
            write_table(table_of(pom), digests(Path(name)))
        typer.echo(table_of(pom))


if __name__ == "__main__":
    try:
        main([Path(argument) for argument in sys.argv[1:]])
    except UsageError as error:
        typer.echo(f"maven: {error}", err=True)
        sys.exit(2)
