from __future__ import annotations

from pathlib import Path

import pytest

from highwater.common.atomic_files import write_atomically


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report"
    for text in ("a longer old text", "new: 22,7 µs"):
        write_atomically(path, text)
        assert path.read_text("utf-8") == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_secret_is_never_readable_by_others(tmp_path: Path) -> None:
    (tmp_path / "session.tmp").touch(mode=0o644)
    write_atomically(tmp_path / "session", "{}", mode=0o600)
    assert (tmp_path / "session").stat().st_mode & 0o777 == 0o600


def test_after_a_failure_the_old_file_is_there_alone(tmp_path: Path) -> None:
    path = tmp_path / "report"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \udcff")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "folder", "new")
    assert path.read_text("utf-8") == "old"
    assert sorted(tmp_path.iterdir()) == [tmp_path / "folder", path]
