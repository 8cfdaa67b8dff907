"""The archive that executors import from."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from highwater.common import package_archive
from highwater.common.package_archive import write_archive


def test_machine_code_of_a_compiled_wheel_stays_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = tmp_path / "highwater/kafka/records"
    records.mkdir(parents=True)
    for place in (tmp_path / "highwater", records.parent, records):
        (place / "__init__.py").touch()
    for name in ("batch.py", "batch.cpython-311-x86_64-linux-gnu.so"):
        (records / name).touch()
    monkeypatch.setattr(package_archive, "_PACKAGE", tmp_path / "highwater")
    names = ZipFile(write_archive(tmp_path, "some", ("kafka/records",))).namelist()
    assert [name for name in names if "batch" in name] == ["highwater/kafka/records/batch.py"]


def test_the_archive_has_the_folders_and_the_packages_above_them(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, "some", ("common", "kafka/records"))
    assert archive == tmp_path / "some.zip"
    names = {name for name in ZipFile(archive).namelist() if not name.endswith("/")}
    assert {
        "highwater/__init__.py",
        "highwater/kafka/__init__.py",
        "highwater/kafka/records/batch.py",
        "highwater/common/package_archive.py",
    } <= names
    assert not any("__pycache__" in name or name.startswith("highwater/kafka/client") for name in names)
