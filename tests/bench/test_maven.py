"""Jars are taken only if they are those that the table beside their POM pins."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from highwater.bench.maven import check_files, jars, main, read_table, table_of
from highwater.bench.user_cache import cache_directory
from highwater.common.errors import UsageError

ROOT = Path(__file__).parent.parent.parent
POMS = sorted(
    path
    for path in (*ROOT.glob("bench/**/*.xml"), *ROOT.glob("tests/compat/*/*.xml"))
    if "maven.apache.org/POM" in path.read_text("utf-8")
)
# Copies what stands in for a repository to where it is told to.
MAVEN = """#!/bin/sh
for word in "$@"; do case $word in -DoutputDirectory=*) cp {repository}/* "${{word#*=}}" ;; esac; done
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder, programs = tmp_path / "repository", tmp_path / "programs"
    folder.mkdir()
    programs.mkdir()
    for name in ("a-1.jar", "b-2.jar"):
        (folder / name).write_text(name)
    (programs / "mvn").write_text(MAVEN.format(repository=folder))
    (programs / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def pom(tmp_path: Path, repository: Path) -> Path:
    path = tmp_path / "some.xml"
    path.write_text("<project/>")
    main([path])
    assert repository.is_dir()
    return path


def fetch(pom: Path) -> Path:
    return jars(pom, "some", "some jars", "fetches some jars")


def test_what_is_pinned_is_fetched(pom: Path) -> None:
    names = ("a-1.jar", "b-2.jar")
    assert {path.name: path.read_text() for path in fetch(pom).iterdir()} == {name: name for name in names}
    assert read_table(table_of(pom)) == {name: hashlib.sha256(name.encode()).hexdigest() for name in names}


def test_another_table_is_fetched_anew(pom: Path, repository: Path) -> None:
    before = fetch(pom)
    (repository / "a-1.jar").write_text("mended")
    main([pom])
    assert fetch(pom) != before
    assert (fetch(pom) / "a-1.jar").read_text() == "mended"


def test_another_jar_is_one_line_and_nothing_is_kept(pom: Path, repository: Path) -> None:
    (repository / "b-2.jar").write_text("exchanged")
    found = hashlib.sha256(b"exchanged").hexdigest()
    said = f"b-2.jar is another file than {table_of(pom)} pins: its SHA-256 is {found}; find out who changed it"
    with pytest.raises(UsageError, match=f"^{re.escape(said)}$"):
        fetch(pom)
    assert [path for path in cache_directory().iterdir() if not path.name.startswith(".")] == []


def test_a_jar_more_or_less_is_one_line(pom: Path, repository: Path) -> None:
    (repository / "c-3.jar").write_text("new")
    way_out = re.escape(f"python -m highwater.bench.maven {pom}")
    with pytest.raises(UsageError, match=rf"^{re.escape(str(table_of(pom)))} does not pin c-3\.jar, .*: {way_out}$"):
        fetch(pom)
    (repository / "c-3.jar").unlink()
    (repository / "a-1.jar").unlink()
    with pytest.raises(UsageError, match=rf"^a-1\.jar, which .* pins, was not fetched: .*: {way_out}$"):
        fetch(pom)


def test_a_pom_without_a_table_is_one_line(tmp_path: Path) -> None:
    pom = tmp_path / "some.xml"
    with pytest.raises(UsageError, match=rf"^there is no {re.escape(str(pom))}: a POM, "):
        fetch(pom)
    pom.touch()
    with pytest.raises(UsageError, match=rf"^there is no {re.escape(str(table_of(pom)))}: .*highwater\.bench\.maven"):
        fetch(pom)


def test_two_files_are_compared_by_all_their_bytes(tmp_path: Path) -> None:
    folder, table = tmp_path / "files", tmp_path / "table"
    folder.mkdir()
    (folder / "x").write_bytes(b"")
    table.write_text(f"{hashlib.sha256(b'').hexdigest()}  x\n")
    check_files(folder, table, "no way")
    (folder / "x").write_bytes(b"\0")
    with pytest.raises(UsageError):
        check_files(folder, table, "no way")


@pytest.mark.parametrize("pom", POMS, ids=[str(path.relative_to(ROOT)) for path in POMS])
def test_each_pom_of_this_repository_has_its_table(pom: Path) -> None:
    """It pins each artifact that the POM names, in that version."""
    pinned = read_table(table_of(pom))
    assert [digest for digest in pinned.values() if not re.fullmatch("[0-9a-f]{64}", digest)] == []
    root = ElementTree.parse(pom).getroot()  # noqa: S314 - a file of this repository
    space = {"m": root.tag.partition("}")[0].removeprefix("{")}
    values = {
        f"${{{each.tag.rpartition('}')[2]}}}": each.text or "" for each in root.findall("m:properties/m:*", space)
    }

    def text(dependency: ElementTree.Element, field: str) -> str:
        told = dependency.findtext(f"m:{field}", "", space)
        for name, value in values.items():
            told = told.replace(name, value)
        return told

    for dependency in root.findall("m:dependencies/m:dependency", space):
        parts = [text(dependency, field) for field in ("artifactId", "version", "classifier")]
        assert f"{'-'.join(part for part in parts if part)}.jar" in pinned, table_of(pom)
