"""What is published: archives of the same bytes, which file is tried where, what is listed as installed with it."""

from __future__ import annotations

import io
import re
import tarfile
import tomllib
import zipfile
from contextlib import nullcontext
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

import pytest

from highwater.common.errors import UsageError
from tools.release import __main__ as release
from tools.release import compiled
from tools.release.archives import read_wheel, rewrite_tar, write_wheel
from tools.release.pins import installed_with
from tools.release.places import DebianHost, LocalPython, Place, fitting

ROOT = Path(__file__).parents[2]
_EPOCH_S = 1_700_000_000
_RECORD = "a-1.dist-info/RECORD"


def test_a_wheel_has_the_same_bytes_whatever_the_order_of_its_files(tmp_path: Path) -> None:
    files = {"b.py": b"b", "a.py": b"a", _RECORD: b"old", "a-1.dist-info/WHEEL": b"Wheel-Version: 1.0\n"}
    one, two = tmp_path / "one.whl", tmp_path / "two.whl"
    write_wheel(one, files, _EPOCH_S)
    write_wheel(two, dict(reversed(files.items())), _EPOCH_S)
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        assert archive.namelist()[-1] == _RECORD
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    record = read_wheel(one)[_RECORD].decode().splitlines()
    assert record[-1] == f"{_RECORD},,"
    assert "a.py,sha256=ypeBEsobvcr6wjGzmiPcTaeG7_gUfE5yuYB3ha_uSLs,1" in record


def test_a_tar_has_nothing_of_the_machine_in_it(tmp_path: Path) -> None:
    made = []
    for number, owner in enumerate(("one", "two")):
        path = tmp_path / f"{owner}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name in ("a/b", "a/a") if number else ("a/a", "a/b"):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.uname, entry.mode = 1, number, owner, 0o600 + number
                archive.addfile(entry, io.BytesIO(b"x"))
        rewrite_tar(path, _EPOCH_S)
        made.append(path.read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("name", "place", "fits"),
    [
        ("h-1-py3-none-any.whl", LocalPython("3.12", "python3.12", "aarch64"), True),
        ("h-1.tar.gz", DebianHost("trixie", "aarch64"), True),
        ("h-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", DebianHost("bookworm", "x86_64"), True),
        ("h-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", DebianHost("bookworm", "aarch64"), False),
        ("h-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", DebianHost("trixie", "x86_64"), False),
    ],
)
def test_a_file_is_tried_where_pip_takes_it(name: str, place: Place, fits: bool) -> None:
    assert fitting(name, place) is fits


def test_a_python_that_is_not_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "program_of", lambda version: None if version in ("3.12", "3.14") else "python")
    monkeypatch.setattr(compiled, "program_of_debian", lambda version: None)
    assert compiled.left_out() == "compiled wheels for Python 3.12, 3.14: there is no such Python here"
    monkeypatch.setattr(compiled, "program_of", lambda version: "python")
    assert compiled.left_out() == ""


def test_the_bill_lists_what_is_needed_and_what_that_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = dict(installed_with(project["dependencies"]))
    assert {"confluent-kafka", "rich", "pygments"} <= found.keys()
    assert not {"pyspark", "pytest"} & found.keys()


def test_each_kind_can_be_asked_for() -> None:
    assert [each.value for each in release.Only] == [kind.name for kind in release.KINDS]


NAMES = (
    "highwater-docs-1.tar.gz",
    "highwater-kafka-1.tar.gz",
    "highwater_1-1~trixie_amd64.deb",
    "highwater_kafka-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "highwater_kafka-1-image-x86_64.tar",
    "highwater_kafka-1-py3-none-any.whl",
    "highwater_kafka-1.tar.gz",
)


def test_each_file_of_a_release_is_of_one_kind() -> None:
    kinds = [[kind.name for kind in release.KINDS if fnmatch(name, kind.files)] for name in NAMES]
    assert sorted(kinds) == sorted([kind.name] for kind in release.KINDS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("", ""),
        ("SHA256SUMS", "has no SHA256SUMS: name a folder that make release has filled"),
        ("highwater_kafka-1.tar.gz", "has no highwater_kafka-*.tar.gz"),
        ("highwater-docs-1.tar.gz", "highwater-docs-1.tar.gz is another file than SHA256SUMS says"),
    ],
)
def test_files_of_an_earlier_build_are_those_that_were_built(tmp_path: Path, change: str, said: str) -> None:
    for name in NAMES:
        (tmp_path / name).write_text(name, "utf-8")
    sums = "".join(f"{sha256(name.encode()).hexdigest()}  {name}\n" for name in NAMES)
    (tmp_path / "SHA256SUMS").write_text(sums, "utf-8")
    if "docs" in change:
        (tmp_path / change).write_text("other", "utf-8")
    elif change:
        (tmp_path / change).unlink()
    with pytest.raises(UsageError, match=re.escape(said)) if said else nullcontext():
        found = release._earlier(release.KINDS, tmp_path)
        assert sorted(path.name for paths in found.values() for path in paths) == list(NAMES)
