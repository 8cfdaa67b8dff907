"""Cold is cold, and warm is warm."""

from __future__ import annotations

import mmap
import threading
from pathlib import Path

import pytest

from highwater.bench.storage import page_cache
from highwater.bench.storage.page_cache import evict, resident_bytes, warm
from highwater.common.errors import TrialError
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


def test_pages_that_somebody_uses_at_that_moment_leave_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_memory(tmp_path):
        return  # nothing leaves the memory there, as the test above says
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE_BYTES))
    with path.open("rb") as file:
        used = mmap.mmap(file.fileno(), SIZE_BYTES, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ)
    with monkeypatch.context() as impatient:
        impatient.setattr(page_cache, "EVICTED_WITHIN_S", 0.0)
        with pytest.raises(TrialError, match=f"{SIZE_BYTES} of {SIZE_BYTES} bytes stay in the page cache"):
            evict([path])
    freeing = threading.Timer(0.1, used.close)
    freeing.start()
    evict([path])
    freeing.join()
    assert resident_bytes([path]) == 0
