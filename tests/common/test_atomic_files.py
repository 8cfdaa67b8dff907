from __future__ import annotations

import ast
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import highwater
from highwater.common.atomic_files import write_atomically

_ROOMS: Final = Path(highwater.__file__).parent
_RENAME_FOR_A_REASON: Final = {
    "broker/log/files.py": "files of a log",
    "bench/workload/trace_directory.py": "a folder that is new",
    "studies/lake/compacting.py": "the manifest, which is not a file here",
    "studies/lake/storage.py": "files of a lake",
    "results/writer.py": "a folder of a result directory",
    "bench/user_cache.py": "a folder that is new",
    "common/atomic_files.py": "the rule itself",
    "monitor/alerts/keeper.py": "puts a damaged file aside",
    "monitor/history/database.py": "puts a damaged database aside",
    "pipeline/crash_points.py": "names as signals",
    "pipeline/drill/class_archive.py": "a file of the cache",
    "pipeline/environment/packing.py": "names that are new",
    "pipeline/files/parquet.py": "folders of batches",
    "tuning/hostfiles.py": "has guards of its own: a link and a device are refused",
}


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


def test_a_full_disk_is_named() -> None:
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_atomically(Path("/dev/full"), "a report")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_followed(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if is_there:
        (folder / "real").write_text("old")
    (tmp_path / "link").symlink_to("folder/real")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").readlink() == Path("folder/real")
    assert (folder / "real").read_text("utf-8") == "new"
    assert list(folder.iterdir()) == [folder / "real"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text("utf-8")), daemon=True)
    reader.start()
    write_atomically(pipe, "a report")
    reader.join(30)
    assert read == ["a report"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_device_is_written_to() -> None:
    # A terminal, because its folder takes no files: a fault could not replace it, even when root runs the test.
    ours, theirs = os.openpty()
    try:
        write_atomically(Path(os.ttyname(theirs)), "a report")
        assert os.read(ours, 100) == b"a report"
    finally:
        os.close(ours)
        os.close(theirs)


def test_nothing_else_renames_over_a_file_that_a_user_names() -> None:
    assert set(_modules_that_rename()) == set(_RENAME_FOR_A_REASON)


def _modules_that_rename() -> Iterator[str]:
    for path in sorted(path for room in _ROOMS.iterdir() for path in room.rglob("*.py")):
        place = path.relative_to(_ROOMS).as_posix()
        if any(map(_renames, ast.walk(ast.parse(path.read_bytes())))):
            yield place


def _renames(node: ast.AST) -> bool:
    """str.replace has two arguments, and the other functions of that name have keywords."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return False
    is_of_module = isinstance(node.func.value, ast.Name) and node.func.value.id in ("os", "shutil")
    return node.func.attr in ("replace", "rename", "renames", "move") and len(node.args) == (2 if is_of_module else 1)
