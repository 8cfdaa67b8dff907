"""The source distribution, and the wheel for each Python from 3.11 on and each processor."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.release.archives import read_wheel, rewrite_tar, write_wheel
from tools.release.building import Build


def source_distribution(build: Build) -> list[Path]:
    """Rooms are files in it, where a clone has links."""
    code = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    build.run(sys.executable, "-c", code, build.out)
    (path,) = build.out.glob("*.tar.gz")
    rewrite_tar(path, build.epoch_s)
    return [path]


def pure_wheel(build: Build) -> list[Path]:
    place = build.scratch / "pure"
    place.mkdir(exist_ok=True)
    options = ("--disable-pip-version-check", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", place)
    build.run(sys.executable, "-m", "pip", "wheel", *options, build.source)
    (made,) = place.glob("*.whl")
    path = build.out / made.name
    write_wheel(path, read_wheel(made), build.epoch_s)
    return [path]
