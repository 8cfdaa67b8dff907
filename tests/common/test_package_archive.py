"""The archive that executors import from."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

from highwater.common.package_archive import write_archive


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
