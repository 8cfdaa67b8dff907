"""Tests of this folder ask disks and the page cache of their files: their files are on a disk."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    return disk_path
