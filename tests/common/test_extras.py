"""The command that installs an extra names a clone, a wheel or a repository that is there."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from highwater.common import extras

ROOT = Path(__file__).parents[2]


def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: dict[str, object] | None) -> None:
    """As if Highwater were installed in site-packages, and pip had noted this of it."""
    folder = tmp_path / "highwater_kafka-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: highwater-kafka\nVersion: 1.0\n")
    if found is not None:
        (folder / "direct_url.json").write_text(json.dumps(found))
    monkeypatch.setattr(extras, "_CLONE", tmp_path)
    monkeypatch.setattr(metadata, "distribution", lambda _: metadata.Distribution.at(folder))


def test_a_clone_is_named_as_it_is() -> None:
    assert shlex.split(extras.how_to_install("lake")) == [
        *(sys.executable, "-m", "pip", "install"),
        *("-e", f"{ROOT}[lake]"),
    ]


@pytest.mark.parametrize(
    ("found", "url"),
    [
        ({"url": "file:///a%20b/clone", "dir_info": {}}, "file:///a%20b/clone"),
        ({"url": "file:///a/highwater_kafka-1.0.whl", "archive_info": {}}, "file:///a/highwater_kafka-1.0.whl"),
        (
            {"url": "https://a.example/b.git", "vcs_info": {"vcs": "git", "commit_id": "0a"}},
            "git+https://a.example/b.git@0a",
        ),
    ],
)
def test_what_pip_has_installed_is_named(
    found: dict[str, object], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted(monkeypatch, tmp_path, found)
    assert shlex.split(extras.how_to_install("lake"))[-1] == f"highwater-kafka[lake] @ {url}"


def test_what_came_from_an_index_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted(monkeypatch, tmp_path, None)
    assert shlex.split(extras.how_to_install("lake"))[-1] == "highwater-kafka[lake]==1.0"


def test_where_there_is_no_pip_another_environment_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted(monkeypatch, tmp_path, None)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert extras.how_to_install("lake") == (
        "python3 -m venv highwater && highwater/bin/pip install 'highwater-kafka[lake]==1.0'"
    )


def test_what_is_not_installed_needs_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted(monkeypatch, tmp_path, None)
    monkeypatch.setattr(metadata, "distribution", not_installed)
    assert extras.how_to_install("lake").endswith(" -m pip install '.[lake]' in a clone of Highwater")


def not_installed(name: str) -> metadata.Distribution:
    raise metadata.PackageNotFoundError(name)


def test_pip_takes_the_command_of_a_clone() -> None:
    arguments = [*shlex.split(extras.how_to_install("parquet")), "--dry-run", "--no-deps", "--no-build-isolation", "-q"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
