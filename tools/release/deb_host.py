"""Tries a Debian package on a booted host of its suite, one of the lab: install, start, kill, upgrade, misuse, purge.

The host has nothing of Highwater and gets the file alone; what the package needs comes from Debian's archive.
"""

from __future__ import annotations

import platform
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import typer

from highwater.common.errors import UsageError
from tests.lab import hosts, making
from tests.lab.operating import Operator
from tests.lab.record import Node, Store
from tools.release.building import run
from tools.release.places import ARCHITECTURES, DebianHost, Place

_UNIT: Final = "highwater-broker.service"
_PROPERTIES: Final = "/etc/highwater/broker.properties"
_CHANGE: Final = "log.retention.hours=24"
_DATA: Final = "/var/lib/highwater"
_APT: Final = "DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root"
_WITHIN_S: Final = 300.0


def try_package(artefact: Path, chosen: tuple[Place, ...]) -> list[str]:
    """A line for the host that the package is for; none where this machine has no such host. Raises UsageError."""
    suite, architecture = parts(artefact.name)
    return [
        f"{place.words}, booted: {_tell_story(artefact, place.suite)}"
        for place in chosen
        if isinstance(place, DebianHost)
        and (place.suite, ARCHITECTURES[place.machine]) == (suite, architecture)
        and place.machine == platform.machine()
    ]


def parts(name: str) -> tuple[str, str]:
    """The suite and the architecture in the name of a package."""
    found = re.fullmatch(r"highwater_[^_]+~([a-z]+)_([a-z0-9]+)\.deb", name)
    assert found is not None, name
    return found[1], found[2]


def _tell_story(artefact: Path, suite: str) -> str:
    with _host(suite) as (operator, node), TemporaryDirectory(prefix="highwater-tried-") as scratch:
        tried = _Tried(operator, node)
        try:
            for other in sorted(artefact.parent.glob("highwater_*.deb")):
                if parts(other.name)[0] != suite and parts(other.name)[1] == parts(artefact.name)[1]:
                    tried.refuses(other)
            files, residue = operator.files(node), operator.residue(node)
            seen = [tried.installs(artefact), tried.answers(), tried.survives_a_kill()]
            tried.upgrades(_next_release(artefact, Path(scratch)))
            seen += [tried.fails_on_a_taken_port(), tried.keeps_records()]
            tried.leaves_nothing(files, residue)
        except AssertionError as error:
            raise UsageError(" ".join(str(error).split())[-600:]) from None
        return "; ".join(seen)


@contextmanager
def _host(suite: str) -> Iterator[tuple[Operator, Node]]:
    store = Store.of(f"deb{suite[0]}")
    try:
        record = making.up(store, 1, lambda line: typer.echo(f"    {line}", err=True), suite=suite)
        yield Operator(store, record), record.nodes[0]
    finally:
        making.down(store)


def _next_release(artefact: Path, scratch: Path) -> Path:
    """The package with a higher version and another default configuration."""
    root = scratch / "root"
    run(scratch, "dpkg-deb", "--raw-extract", artefact, root)
    control = root / "DEBIAN/control"
    control.write_text(re.sub(r"^(Version: [^-]*)", r"\1+next", control.read_text("utf-8"), flags=re.M), "utf-8")
    properties = root / _PROPERTIES.lstrip("/")
    properties.write_text(f"# Of the next release.\n{properties.read_text('utf-8')}", "utf-8")
    path = scratch / artefact.name
    run(scratch, "dpkg-deb", "--root-owner-group", "-Znone", "--build", root, path)
    return path


class _Tried:
    def __init__(self, operator: Operator, node: Node) -> None:
        self._operator = operator
        self._node = node

    def refuses(self, other: Path) -> None:
        """The package of another suite: the line names the Python that it lacks."""
        self._send(other)
        said = self._run(f"! {_APT.replace(' -qq', '')} install /root/{other.name} 2>&1")
        assert re.search(r"Depends:? python3 \(", said), said
        self._run(f"rm /root/{other.name}")

    def installs(self, artefact: Path) -> str:
        self._send(artefact)
        started_s = time.monotonic()
        said = self._run(f"{_APT} install --no-install-recommends /root/{artefact.name}")
        took_s = time.monotonic() - started_s
        assert "systemctl enable --now highwater-broker" in said, said
        state = self._run(f"systemctl is-enabled {_UNIT} || true; systemctl is-active {_UNIT} || true")
        assert state.split() == ["disabled", "inactive"], state
        version = self._run("highwater --version")
        assert version.split()[1] == artefact.name.split("_")[1].partition("-")[0], version
        assert self._run("highwater-kafka --version") == version
        self._run(
            f"highwater broker check-config {_PROPERTIES}; test -s /usr/share/man/man1/highwater-broker-start.1.gz"
        )
        return f"{version}, installed in {took_s:.0f} s"

    def answers(self) -> str:
        started_s = time.monotonic()
        self._run(f"systemctl enable --now {_UNIT}")
        ready_s = time.monotonic() - started_s
        self._run("highwater broker topics --create --topic tried; echo value | highwater broker produce --topic tried")
        self._reads()
        compiled = "hot modules run compiled" in self._run(f"journalctl --unit {_UNIT} --output cat")
        return f"{'compiled' if compiled else 'as Python'}, ready {ready_s:.1f} s after systemctl start"

    def survives_a_kill(self) -> str:
        """The record is acknowledged and is still there; systemd has started the broker again."""
        before = self._pid()
        self._run(f"systemctl kill --signal=KILL --kill-who=main {_UNIT}")
        started_s = time.monotonic()
        while self._pid() in ("0", before) or self._state() != "active":
            assert time.monotonic() - started_s < _WITHIN_S, self._run(f"systemctl status {_UNIT} || true")
        took_s = time.monotonic() - started_s
        self._reads()
        return f"back {took_s:.1f} s after kill -9 with its record"

    def upgrades(self, artefact: Path) -> None:
        """A changed configuration stays, and the broker is started again."""
        before = self._pid()
        self._run(f"echo {_CHANGE} >> {_PROPERTIES}")
        self._send(artefact)
        self._run(f"{_APT} -o Dpkg::Options::=--force-confold install /root/{artefact.name}")
        assert self._state() == "active"
        assert self._pid() != before
        kept = self._run(f"cat {_PROPERTIES}; stat --format '%U:%G %a' {_PROPERTIES}; rm -f {_PROPERTIES}.dpkg-dist")
        assert _CHANGE in kept, kept
        assert kept.endswith("root:highwater 640"), kept
        self._reads()

    def fails_on_a_taken_port(self) -> str:
        self._run(
            f"systemctl stop {_UNIT}; systemd-run --quiet --unit taken python3 -m http.server --bind 127.0.0.1 9092; "
            "until ss -ltn | grep -q 127.0.0.1:9092; do sleep 0.1; done"
        )
        self._run(f"! systemctl start {_UNIT}")
        assert self._state() == "failed"
        said = self._run(f"journalctl --unit {_UNIT} --output cat | grep 9092 | tail -n 1")
        assert "error: " in said, said
        self._run(f"systemctl stop taken; systemctl reset-failed {_UNIT}; systemctl start {_UNIT}")
        self._reads()
        return f"port taken: {said!r}"

    def keeps_records(self) -> str:
        """Neither removal nor purge deletes them, and a later installation finds them."""
        self._run(f"{_APT} remove highwater")
        self._run(f"test -f {_PROPERTIES}; test -d {_DATA}/log; ! test -e /usr/bin/highwater; ! systemctl cat {_UNIT}")
        said = self._run(f"{_APT} purge highwater 2>&1 | grep -o '{_DATA}/log has records and is kept'")
        self._run(f"! test -e /etc/highwater; getent passwd highwater; cd /root; {_APT} install ./highwater_*.deb")
        self._run(f"systemctl start {_UNIT}")
        self._reads()
        return f"purge: {said!r}"

    def leaves_nothing(self, files: dict[str, str], residue: dict[str, str]) -> None:
        """A purge after records were deleted by hand: the host is as before, but for what apt notes."""
        self._run(f"systemctl stop {_UNIT}; find {_DATA}/log -name '*.log' -size +0 -delete")
        self._run(f"{_APT} purge highwater; {_APT} autoremove; rm /root/highwater_*.deb")
        now = self._operator.files(self._node)
        left = {path for path in files.keys() ^ now.keys() if not path.startswith("/var/lib/systemd/")}
        assert not left, f"left behind or gone: {sorted(left)}"
        found = self._operator.residue(self._node)
        changed = [kind for kind in residue if found[kind] != residue[kind]]
        assert not changed, f"{changed} differ: {[found[kind] for kind in changed]}"

    def _reads(self) -> None:
        said = self._run("highwater broker consume --topic tried --from-beginning --max-messages 1 --timeout-ms 60000")
        assert said == "value", said

    def _state(self) -> str:
        return self._run(f"systemctl is-active {_UNIT} || true")

    def _pid(self) -> str:
        return self._run(f"systemctl show --property MainPID --value {_UNIT}")

    def _run(self, command: str) -> str:
        return self._operator.run(self._node, command, _WITHIN_S)

    def _send(self, path: Path) -> None:
        command = hosts.ssh(self._operator.store, self._node, [f"sudo sh -c 'cat > /root/{path.name}'"])
        with path.open("rb") as file:
            subprocess.run(command, stdin=file, check=True)
