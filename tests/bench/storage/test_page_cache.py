"""Cold is cold, and warm is warm."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.errors import TrialError
from highwater.bench.storage.page_cache import evict, resident_bytes, warm
from highwater.tuning.facts import collect

SIZE_BYTES = 4 << 20


def in_memory(path: Path) -> bool:
    mount = collect().mount_of(str(path))
    return mount is not None and mount.filesystem in ("tmpfs", "ramfs")


def test_a_file_leaves_the_page_cache_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE_BYTES))
    empty = tmp_path / "empty"
    empty.touch()
    assert resident_bytes([path, empty]) == SIZE_BYTES
    if in_memory(tmp_path):
        with pytest.raises(TrialError, match="would not be cold"):
            evict([path])
        return
    evict([path, empty])
    assert resident_bytes([path]) == 0
    warm([path])
    assert resident_bytes([path]) == SIZE_BYTES
