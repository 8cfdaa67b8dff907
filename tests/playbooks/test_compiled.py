"""Which hosts get the broker with compiled modules, what is refused early, what is loaded before use."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from playbooks.filter_plugins.highwater_preflight import compile_faults
from tests.playbooks.modules import TREE, call, load
from tests.playbooks.playing import play
from tests.playbooks.test_release import ask, host

__all__ = ["host"]  # a fixture

wheelhouse = load("library/highwater_wheelhouse.py")
highwater_verify = load("library/highwater_verify.py")
OWN = wheelhouse.Target.of_this_machine()
COMPILED = f"highwater_kafka-0.1-cp311-cp311-linux_{OWN.machine}.whl"
PYTHON = "highwater_kafka-0.1-py3-none-any.whl"


def asked(compiled: str | bool, *, ready: Path | str = "", **other: str) -> dict[str, Any]:
    """In check mode, which builds nothing."""
    target = {"python_version": OWN.python_version, "machine": OWN.machine, "libc": OWN.libc, **other}
    source, cache = str(TREE.parent), "/nonexistent"
    return call(
        "highwater_wheelhouse", check=True, source=source, cache=cache, ready=str(ready), compiled=compiled, **target
    )


@pytest.fixture
def with_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whatever this machine has; returns the place of Python's headers."""
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    headers = tmp_path / "include"
    headers.mkdir()
    (headers / "Python.h").touch()
    monkeypatch.setattr(wheelhouse.sysconfig, "get_path", lambda name: str(headers))
    return headers


def test_it_is_compiled_for_hosts_like_the_controller(with_a_compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = wheelhouse.Target
    monkeypatch.setattr(wheelhouse.platform, "libc_ver", lambda: ("glibc", "2.36"))
    for libc in ("2.36", "2.41", "3.0"):
        assert wheelhouse.why_not_compiled(target(OWN.python_version, OWN.machine, libc)) == ""
    here = f"the controller has Python {OWN.python_version} on {OWN.machine}, and the host has Python "
    for python, machine in (("3.99", OWN.machine), (OWN.python_version, "riscv64")):
        assert wheelhouse.why_not_compiled(target(python, machine, "2.36")) == f"{here}{python} on {machine}"
    for libc, told in (("2.4", "2.4"), ("", "none")):
        why = wheelhouse.why_not_compiled(target(OWN.python_version, OWN.machine, libc))
        assert why == f"the controller has glibc 2.36, and the host has {told}"


def test_a_controller_that_cannot_compile_says_what_it_needs(
    with_a_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (with_a_compiler / "Python.h").unlink()
    assert "apt-get install python3-dev" in wheelhouse.why_not_compiled(OWN)
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert wheelhouse.why_not_compiled(OWN) == "the controller has no C compiler (apt-get install gcc)"


def test_the_name_says_it_and_is_otherwise_that_of_the_sources(with_a_compiler: Path) -> None:
    arguments = {"source": str(TREE.parent), "cache": "/nonexistent", "extras": []}
    names = {}
    for compiled in ("false", "auto", "true"):
        found = wheelhouse.take_built({**arguments, "compiled": compiled}, OWN, only_look=True)
        names[compiled] = found["name"]
        assert (found["compiled"], found["why_not"]) == (compiled != "false", "")
    assert names["auto"] == names["true"] == f"{names['false']}-compiled"


def test_for_another_host_it_is_python_or_refused() -> None:
    other = asked("auto", python_version="3.99")
    assert not other["compiled"]
    assert other["name"] == asked("false")["name"]
    assert other["why_not"].endswith(f"and the host has Python 3.99 on {OWN.machine}")
    refused = asked("true", python_version="3.99")["msg"]
    assert refused.startswith("the broker cannot be compiled for the host: the controller has Python ")
    assert "; set broker_compiled: auto for hosts that may run it as Python, or name a directory" in refused
    assert asked("false", python_version="3.99")["why_not"] == ""


def test_values_are_those_of_yaml() -> None:
    assert not asked(False)["compiled"]
    assert "cannot be compiled" in asked(True, python_version="3.99")["msg"]
    assert "value of compiled must be one of: false, auto, true, got: perhaps" in asked("perhaps")["msg"]


@pytest.mark.parametrize(
    ("names", "compiled", "taken", "why"),
    [
        ([PYTHON], "false", PYTHON, ""),
        ([PYTHON], "auto", PYTHON, "has no compiled wheel for Python 3.11 on"),
        ([PYTHON, COMPILED], "false", PYTHON, ""),
        ([PYTHON, COMPILED], "auto", COMPILED, ""),
        ([COMPILED], "true", COMPILED, ""),
    ],
)
def test_of_a_directory_the_wheel_for_the_host_is_taken(
    names: list[str], compiled: str, taken: str, why: str, tmp_path: Path
) -> None:
    for name in (*names, "pip-25-py3-none-any.whl", "kio-1-py3-none-any.whl"):
        (tmp_path / name).touch()
    found = asked(compiled, ready=tmp_path, python_version="3.11")
    assert found["wheels"] == sorted([taken, "kio-1-py3-none-any.whl", "pip-25-py3-none-any.whl"])
    assert found["compiled"] == found["name"].endswith("-compiled") == (taken == COMPILED)
    assert why in found["why_not"]
    assert bool(why) == bool(found["why_not"])


@pytest.mark.parametrize(
    ("names", "compiled", "python", "told"),
    [
        ([PYTHON], "true", "3.11", "has no compiled wheel for Python 3.11 on"),
        ([PYTHON, COMPILED], "true", "3.13", "has no compiled wheel for Python 3.13 on"),
        ([COMPILED], "auto", "3.13", "of which 0 are Python for any machine; it needs just one"),
        ([COMPILED], "false", "3.11", "0 are Python for any machine; it needs just one of that kind, all that it"),
        ([COMPILED], "false", "3.11", "depends on, and pip; or set broker_compiled: true"),
    ],
)
def test_a_directory_without_it_is_refused(
    names: list[str], compiled: str, python: str, told: str, tmp_path: Path
) -> None:
    for name in (*names, "pip-25-py3-none-any.whl"):
        (tmp_path / name).touch()
    assert told in asked(compiled, ready=tmp_path, python_version=python)["msg"]


def test_faults_of_hosts_are_those_of_the_hosts_that_were_asked() -> None:
    answers: dict[str, dict[str, Any]] = {
        "one": {"msg": "no"},
        "two": {"name": "0.1", "msg": ""},
        "three": {"skipped": True, "msg": "not asked"},
    }
    assert compile_faults(answers) == ["one: no"]


@pytest.mark.slow
def test_preflight_refuses_what_cannot_run_there(tmp_path: Path) -> None:
    local = {
        "ansible_connection": "local",
        "ansible_become": os.geteuid() != 0,
        "ansible_python_interpreter": sys.executable,
        "broker_compiled": True,
        "package_wheelhouse": str(tmp_path / "wheels"),
    }
    hosts = {"compiled": local, "either": {**local, "broker_compiled": "auto"}, "elsewhere": local}
    (tmp_path / "wheels").mkdir()
    brokers = {"hosts": {"compiled": None, "either": None}}
    inventory = {"all": {"hosts": hosts, "children": {"brokers": brokers}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    skipped = ["system", "memory", "space", "disks", "ports", "security", "clock", "inventory"]

    def preflight(skip: list[str]) -> str:
        done = play(tmp_path, "-i", tmp_path / "hosts.yml", "preflight.yml", preflight_skip=skip)
        assert (done.returncode == 0) == ("compiled" in skip), done.stdout + done.stderr
        return " ".join(done.stdout.split())

    said = preflight(skipped)
    assert "1 faults; nothing was changed on any host:" in said
    assert "compiled: the broker cannot be compiled for the host: package_wheelhouse" in said
    preflight([*skipped, "compiled"])


def compiled_wheel(directory: Path, code: bytes) -> str:
    """As small as it can be: one hot module, beside what says which those are."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    name = f"highwater_kafka-0.1-{tag}-{tag}-linux_{OWN.machine}.whl"
    info = "highwater_kafka-0.1.dist-info"
    listed = (
        "from pathlib import Path\n"
        "def compiled_modules():\n"
        "    found = (Path(__file__).parents[1] / 'broker/log').glob('segment.*.so')\n"
        "    return ['highwater.broker.log.segment' for _ in found]\n"
    )
    with zipfile.ZipFile(directory / name, "w") as wheel:
        for package in ("", "common/", "broker/", "broker/log/"):
            wheel.writestr(f"highwater/{package}__init__.py", "WHICH = 'compiled'\n")
        wheel.writestr("highwater/common/compiled.py", listed)
        wheel.writestr("highwater/broker/log/segment.py", "")
        if code:
            wheel.writestr(f"highwater/broker/log/segment{wheelhouse.sysconfig.get_config_var('EXT_SUFFIX')}", code)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: highwater-kafka\nVersion: 0.1\n")
        tags = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}-{tag}-linux_{OWN.machine}\n"
        wheel.writestr(f"{info}/WHEEL", tags)
        wheel.writestr(f"{info}/RECORD", "")
    return name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "told"),
    [
        # Of a newer C library, or of another processor, Python says the like.
        (b"no machine code", "ImportError"),
        (b"", "the wheel has no machine code for this Python"),
    ],
)
def test_machine_code_that_cannot_be_loaded_is_no_release(host: Path, code: bytes, told: str) -> None:
    failed = ask(host, "installed", "one-compiled", wheels=(compiled_wheel(host / "wheels", code),))
    assert told in failed["msg"]
    assert not ask(host, "found", "one-compiled")["is_installed"]


def test_the_way_back_takes_what_a_host_has_of_the_same_sources(host: Path) -> None:
    def found(name: str, **options: bool) -> tuple[str, bool]:
        answer = call("highwater_release", root=str(host / "broker"), state="found", name=name, **options)
        return answer["name"], answer["is_installed"]

    for name in ("one-compiled", "two"):
        (host / f"broker/releases/{name}").mkdir(parents=True)
        (host / f"broker/releases/{name}/release").touch()
    assert found("one", compiled_or_not=True) == ("one-compiled", True)
    assert found("two-compiled", compiled_or_not=True) == ("two", True)
    assert found("three", compiled_or_not=True) == ("three", False)
    assert found("two-compiled") == ("two-compiled", False), "one that is wanted so is made"
    shutil.copytree(host / "broker/releases/one-compiled", host / "broker/releases/one")
    assert found("one", compiled_or_not=True) == ("one", True)


LOADED = "7f00-7f01 r-xp 0 fe:01 7 /opt/highwater/broker/releases/0.1-compiled/lib/python3.11/site-packages/highwater"


@pytest.mark.parametrize(
    ("maps", "wanted", "line"),
    [
        (f"{LOADED}/broker/log/segment.cpython-311-x86_64-linux-gnu.so\n", "true", "ok   u: its hot modules: compiled"),
        ("7f00 r-xp 0 fe:01 7 /usr/lib/libc.so.6\n", "false", "ok   u: its hot modules: Python"),
        (
            "7f00 r-xp 0 fe:01 7 /opt/highwater/broker/releases/0.1/lib/python3.11/site-packages/crc32c.so\n",
            "auto",
            "–    u: its hot modules: Python",
        ),
        ("", "true", "BAD  u: its hot modules: wanted compiled, found Python (by {maps})"),
        (
            f"{LOADED}/broker/log/segment.so\n",
            "false",
            "BAD  u: its hot modules: wanted Python, found compiled (by {maps})",
        ),
    ],
)
def test_verify_sees_what_a_process_has_loaded(maps: str, wanted: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "maps"
    file.write_text(maps)
    assert highwater_verify.compiled_row("u", wanted, file).line() == line.format(maps=file)
