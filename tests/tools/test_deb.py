"""Debian's packages: the same bytes each time, what is in them, and what the host is asked to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.bench.user_cache import need
from highwater.common.errors import UsageError
from tests.playbooks import units
from tools.release import deb, deb_host
from tools.release.building import ROOT, Build
from tools.release.places import LocalPython

_TEMPLATES = ROOT / deb.TEMPLATES
_EPOCH_S = 1_700_000_000


def tree_of_one_package(build: Build, python_version: str, machine: str, directory: Path) -> Path:
    about = directory / f"lib/python{python_version}/site-packages/needed-1.dist-info/METADATA"
    about.parent.mkdir(parents=True)
    about.write_text(f"Name: needed\nVersion: 1\nLicense-Expression: MIT\nPlatform: {machine}\n")
    (directory / "bin").mkdir()
    (directory / "bin/highwater").write_text("#!/bin/sh\n")
    return directory


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[list[Path]]:
    """The packages of two builds."""
    try:
        need("dpkg-deb", "dpkg", "builds packages of Debian")
    except UsageError as error:
        pytest.skip(str(error))
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deb, "installed_tree", tree_of_one_package)
        patch.setattr(deb, "program_of", lambda version: sys.executable if version == "3.11" else None)
        for name in ("one", "other"):
            folder = tmp_path_factory.mktemp(name)
            (folder / "out").mkdir()
            found.append(deb.packages(Build(ROOT, folder / "out", folder, _EPOCH_S, "0.2.0")))
    return found


def dpkg_deb(*arguments: str | Path) -> str:
    return subprocess.run(["dpkg-deb", *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_two_builds_are_the_same_bytes(built: list[list[Path]]) -> None:
    one, other = built
    assert [path.name for path in one] == [f"highwater_0.2.0-1~bookworm_{each}.deb" for each in ("amd64", "arm64")]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


@pytest.mark.slow
def test_a_package_belongs_to_root_and_has_what_it_promises(built: list[list[Path]]) -> None:
    listed = [line.split(None, 5) for line in dpkg_deb("--contents", built[0][0]).splitlines()]
    assert {line[1] for line in listed} == {"root/root"}
    found = {line[5].removeprefix("./"): line[0] for line in listed}
    assert found["usr/lib/highwater/bin/highwater"] == "-rwxr-xr-x"
    assert found["usr/lib/systemd/system/highwater-broker.service"] == "-rw-r--r--"
    assert {
        "usr/bin/highwater-kafka -> ../lib/highwater/bin/highwater",
        "usr/share/bash-completion/completions/highwater",
        "usr/share/fish/vendor_completions.d/highwater-kafka.fish -> highwater.fish",
        "usr/share/man/man1/highwater-broker-start.1.gz",
        "usr/share/zsh/vendor-completions/_highwater",
    } <= found.keys()
    assert "Depends: python3 (>= 3.11), python3 (<< 3.12~)," in dpkg_deb("--info", built[0][0])
    assert dpkg_deb("--info", built[0][0], "conffiles") == "/etc/highwater/broker.properties\n"


@pytest.mark.slow
def test_the_copyright_file_names_what_is_bundled(built: list[list[Path]], tmp_path: Path) -> None:
    dpkg_deb("--extract", built[0][0], tmp_path)
    assert "\n  needed 1: MIT\n" in (tmp_path / "usr/share/doc/highwater/copyright").read_text("utf-8")


def test_a_suite_without_its_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deb, "program_of", lambda version: None if version == "3.13" else "python")
    assert deb.left_out() == "packages for Debian's trixie (Python 3.13): there is no such Python here"


def test_scripts_are_plain_shell() -> None:
    scripts = [_TEMPLATES / name for name in ("postinst", "prerm", "postrm")]
    program = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([program, "--shell=dash", *scripts], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_systemd_takes_the_unit_and_finds_it_confined(tmp_path: Path) -> None:
    name = "highwater-broker.service"
    units.lay_out(tmp_path, {name: _TEMPLATES / name})
    assert units.complaints(tmp_path, name) == ""
    assert units.exposure(tmp_path, name) < 2.5


def test_the_configuration_would_start_and_listens_on_loopback() -> None:
    properties = _TEMPLATES / "broker.properties"
    program = Path(sys.executable).with_name("highwater")
    subprocess.run([program, "broker", "check-config", properties], check=True, capture_output=True)
    assert "\nlisteners=PLAINTEXT://127.0.0.1:9092\n" in properties.read_text("utf-8")


def test_a_package_is_tried_on_a_host_of_its_suite_alone() -> None:
    assert deb_host.parts("highwater_0.2.0-1~trixie_arm64.deb") == ("trixie", "arm64")
    here = LocalPython("3.11", sys.executable)
    assert deb_host.try_package(Path("highwater_0.2.0-1~trixie_arm64.deb"), (here,)) == []
