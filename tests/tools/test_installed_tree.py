"""The installed tree: only pinned files, nothing but what a host runs, and it starts from wherever it is put."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.common.errors import UsageError
from tools.release import installed_tree as tree
from tools.release.building import ROOT, Build
from tools.release.pins import installed_with, pinned

_EPOCH_S = 1_700_000_000
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


class _WithoutIndex(Build):
    """pip is noted instead of run; its folder gets the files of a package."""

    def run(self, *command: str | Path, **environment: str) -> str:
        with (self.scratch / "ran").open("a") as ran:
            ran.write(" ".join(map(str, command)) + "\n")
        packages = Path(command[command.index("--target") + 1])
        for name in (
            "highwater/__init__.py",
            "highwater/bench/fast.c",
            "needed/__init__.py",
            "needed/native.h",
            "needed/tests/test_needed.py",
            "confluent_kafka/schema_registry/client.py",
            "needed-1.dist-info/METADATA",
            "needed-1.dist-info/direct_url.json",
            "bin/needed",
            "README.md",
        ):
            path = packages / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        (packages / "highwater/__main__.py").write_text("import sys; print(sys.argv[1], sys.prefix)\n")
        return ""


def _build(place: Path) -> Build:
    for name in ("out", "scratch"):
        (place / name).mkdir()
    (place / "out/h-1-py3-none-any.whl").touch()
    return _WithoutIndex(ROOT, place / "out", place / "scratch", _EPOCH_S, "1")


def test_pip_gets_hashes_and_resolves_nothing_itself(tmp_path: Path) -> None:
    build = _build(tmp_path)
    tree.installed_tree(build, _VERSION, "aarch64", tmp_path / "tree")
    needed, ours = (build.scratch / "ran").read_text().splitlines()
    assert "--no-deps" in needed
    assert "--require-hashes" in needed
    assert "manylinux2014_aarch64" in needed
    assert "--no-index" in ours
    listed = (build.scratch / f"tree-{_VERSION}-aarch64.txt").read_text()
    assert listed.count("==") <= listed.count("--hash=sha256:")
    assert "rich==" in listed
    assert "numpy==" not in listed
    assert ";" not in listed


def test_an_extra_brings_what_it_and_its_own_extras_name(tmp_path: Path) -> None:
    build = _build(tmp_path)
    tree.installed_tree(build, _VERSION, "x86_64", tmp_path / "tree", ("gate",))
    listed = (build.scratch / f"tree-{_VERSION}-x86_64.txt").read_text()
    assert "scipy==" in listed
    assert "hdrhistogram==" in listed  # of the extra `observe`, which `gate` names
    assert "pyspark==" not in listed


def test_what_no_host_runs_is_left_out(tmp_path: Path) -> None:
    place = tree.installed_tree(_build(tmp_path), _VERSION, "x86_64", tmp_path / "tree")
    packages = place / f"lib/python{_VERSION}/site-packages"
    found = {
        str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    assert found == {
        "highwater/__init__.py",
        "highwater/__main__.py",
        "highwater/bench/fast.c",
        "needed/__init__.py",
        "needed-1.dist-info/METADATA",
    }
    assert [*(packages / "needed/__pycache__").glob("*.pyc")]
    assert {path.lstat().st_mtime for path in place.rglob("*")} == {_EPOCH_S}


def test_it_runs_from_where_it_is_put_and_by_a_link(tmp_path: Path) -> None:
    place = tree.installed_tree(_build(tmp_path), _VERSION, "x86_64", tmp_path / "tree")
    moved = place.rename(tmp_path / "moved")
    (moved / "bin/python").unlink()
    (moved / "bin/python").symlink_to(sys.executable)  # the Python of the host, wherever it is
    (tmp_path / "highwater").symlink_to(moved / "bin/highwater")
    said = subprocess.run([tmp_path / "highwater", "word"], capture_output=True, text=True, check=True, cwd="/").stdout
    assert said.split() == ["word", str(moved)]


def test_a_missing_python_or_wheel_is_named(tmp_path: Path) -> None:
    build = _build(tmp_path)
    with pytest.raises(UsageError, match=r"no Python 3\.99 here"):
        tree.installed_tree(build, "3.99", "x86_64", tmp_path / "tree")
    for path in build.out.iterdir():
        path.unlink()
    with pytest.raises(UsageError, match="no wheel in"):
        tree.installed_tree(build, _VERSION, "x86_64", tmp_path / "other")


def test_markers_are_read_for_the_python_of_the_host() -> None:
    of_old = dict(installed_with(["tzdata; python_version < '3.12'"], {"python_version": "3.11"}))
    assert set(of_old) == {"tzdata"}
    assert not dict(installed_with(["tzdata; python_version < '3.12'"], {"python_version": "3.13"}))


def test_each_pin_has_its_hashes() -> None:
    text = pinned(["rich", "typing_extensions"], ROOT / "requirements/run.txt")
    assert [line.split("==")[0] for line in text.splitlines() if "==" in line] == ["rich", "typing-extensions"]
    assert text.count("--hash=sha256:") >= 4
