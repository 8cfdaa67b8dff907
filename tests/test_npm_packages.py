"""Packages of npm are taken only if they are those that a package-lock.json pins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.common.errors import UsageError
from tests.npm_packages import locked, npm_packages

ROOT = Path(__file__).parent.parent
LOCKS = sorted(path for room in ("tests", "tools") for path in (ROOT / room).rglob("package-lock.json"))
SAID = """\
npm error code EINTEGRITY
npm error Integrity checksum failed when using sha512: wanted sha512-cd== but got sha512-ab==.
npm error A complete log of this run can be found in: /root/log
"""
SAID_BY_NPM_9 = """\
npm ERR! code EINTEGRITY
npm ERR! sha512-cd== integrity checksum failed when using sha512: wanted sha512-cd== but got sha512-ab==. (12 bytes)

npm ERR! A complete log of this run can be found in:
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "package.json").write_text("{}")
    (folder / "package-lock.json").write_text(
        json.dumps({"packages": {"": {}, "node_modules/@some/thing": {"integrity": "sha512-cd=="}}})
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def npm(tmp_path: Path, text: str) -> None:
    (tmp_path / "npm").write_text(f"#!/bin/sh\n{text}\n")
    (tmp_path / "npm").chmod(0o755)


def test_what_is_locked_is_installed_without_scripts(source: Path, tmp_path: Path) -> None:
    npm(tmp_path, "mkdir node_modules; echo $* > node_modules/asked")
    folder = npm_packages(source, "thing")
    assert (folder / "node_modules/asked").read_text().split()[0] == "ci"
    assert "--ignore-scripts" in (folder / "node_modules/asked").read_text()


@pytest.mark.parametrize("said", [SAID, SAID_BY_NPM_9], ids=["npm 11", "npm 9"])
def test_another_package_is_one_line_that_names_it(source: Path, tmp_path: Path, said: str) -> None:
    (tmp_path / "said").write_text(said)
    npm(tmp_path, f"cat {tmp_path}/said >&2; exit 1")
    with pytest.raises(UsageError) as error:
        npm_packages(source, "thing")
    lock = source / "package-lock.json"
    told = f"@some/thing is another package than {lock} pins: its hash is sha512-ab==; find out who changed it"
    assert str(error.value) == told


def test_another_failure_is_told_by_its_last_line(source: Path, tmp_path: Path) -> None:
    npm(tmp_path, "echo npm error no network >&2; exit 1")
    with pytest.raises(UsageError, match=r"^npm ci for .*package-lock\.json failed: npm error no network$"):
        npm_packages(source, "thing")


@pytest.mark.parametrize("lock", LOCKS, ids=[lock.parent.name for lock in LOCKS])
def test_each_lock_of_this_repository_pins_all_packages(lock: Path) -> None:
    wanted = json.loads(lock.with_name("package.json").read_text("utf-8"))["dependencies"]
    found = locked(lock)
    assert {name: found[name]["version"] for name in wanted} == wanted
    assert [name for name, entry in found.items() if not entry["integrity"].startswith("sha512-")] == []
    assert [name for name, entry in found.items() if "resolved" in entry] == [], "the lock names a registry"
