"""Packages with a ledger, by a real apt over a system of its own: empty packages, and a root that is a directory."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.shipped import shipped

MODULE = shipped("library/highwater_packages.py")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("apt-get") is None,
    reason="installing packages, even into a root of its own, takes root and Debian's apt",
)

# name: what it depends on, and what more its control file says.
ARCHIVE = {
    "library": "",
    "tool": "Depends: library",
    "other-tool": "Depends: library",
    "hermit": "Conflicts: tool",
    "suggestive": "Recommends: tool",
}


@dataclass
class System:
    """A Debian system below a directory, with nothing installed."""

    root: Path

    @property
    def ledger(self) -> Path:
        return self.root / "var/lib/highwater/provision/packages"

    @property
    def policy(self) -> Path:
        return self.root / "usr/sbin/policy-rc.d"

    @property
    def archive(self) -> Path:
        return self.root.parent / "archive"

    def bring(self, owner: str, *names: str, check_mode: bool = False) -> Any:
        return MODULE.bring(MODULE.Apt(5), list(names), owner, self.ledger, 0, check_mode=check_mode)

    def take_away(self, owner: str, *, check_mode: bool = False) -> Any:
        return MODULE.take_away(MODULE.Apt(5), owner, self.ledger, check_mode=check_mode)

    def installed(self) -> set[str]:
        return set(MODULE.Apt(5).installed())

    def apt(self, *arguments: str) -> None:
        subprocess.run(["apt-get", "-y", "-q", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("archive")
    index = ""
    for name, more in ARCHIVE.items():
        tree = directory / name
        (tree / "DEBIAN").mkdir(parents=True)
        described = f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\nDescription: empty\n"
        control = described + (f"{more}\n" if more else "")
        (tree / "DEBIAN/control").write_text(control)
        file = directory / f"{name}.deb"
        subprocess.run(["dpkg-deb", "-Znone", "--build", tree, file], check=True, capture_output=True)
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        index += f"{control}Filename: ./{file.name}\nSize: {len(content)}\nSHA256: {digest}\n\n"
    (directory / "Packages").write_text(index)
    return directory


@pytest.fixture
def system(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    root = tmp_path / "root"
    for directory in ("var/lib/dpkg/updates", "var/lib/dpkg/info", "var/lib/apt/lists/partial", "etc/apt", "usr/sbin"):
        (root / directory).mkdir(parents=True)
    for directory in ("var/cache/apt/archives/partial", "var/log/apt", "tmp"):
        (root / directory).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    shutil.copytree(archive, tmp_path / "archive")
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{tmp_path}/archive ./\n")
    configuration = tmp_path / "apt.conf"
    configuration.write_text(
        f'Dir "{root}/";\n'
        f'Dir::State::status "{root}/var/lib/dpkg/status";\n'
        'Dir::Bin::methods "/usr/lib/apt/methods";\n'
        'Dir::Bin::dpkg "/usr/bin/dpkg";\n'
        'APT::Sandbox::User "root";\n'
        f'DPkg::Options {{ "--root={root}"; "--force-not-root"; "--force-bad-path"; }};\n'
        f'DPkg::Pre-Invoke {{ "cp {root}/usr/sbin/policy-rc.d {tmp_path}/policy-then 2>/dev/null || true"; }};\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(configuration))
    monkeypatch.setenv("DPKG_ADMINDIR", str(root / "var/lib/dpkg"))
    monkeypatch.setattr(MODULE, "POLICY", root / "usr/sbin/policy-rc.d")
    monkeypatch.setattr(MODULE, "EXTENDED_STATES", root / "var/lib/apt/extended_states")
    monkeypatch.setattr(MODULE, "DPKG_UPDATES", root / "var/lib/dpkg/updates")
    for name in ("passwd", "group"):
        (root / "etc" / name).write_text("root:x:0:\n")
    monkeypatch.setattr(MODULE, "ACCOUNTS", {"user": root / "etc/passwd", "group": root / "etc/group"})
    monkeypatch.setattr(MODULE, "LISTS", (root / "var/lib/apt/lists", root / "var/lib/apt/lists/partial"))
    return System(root)


def test_what_came_in_goes_again_and_nothing_else(system: System) -> None:
    foreseen = system.bring("zookeeper", "tool", check_mode=True)
    assert foreseen.changed
    assert foreseen.installed == ["tool"], "apt knows of nothing yet, so that the name is all there is to say"
    assert system.installed() == set()
    assert not system.ledger.exists()

    done = system.bring("zookeeper", "tool")
    assert (done.changed, done.installed) == (True, ["library", "tool"])
    assert system.installed() == {"library", "tool"}
    assert json.loads(system.ledger.read_text()) == {
        "brought": ["library", "tool"],
        "made_manual": [],
        "wanted_by": {"zookeeper": ["tool"]},
        "accounts": [],
    }
    assert not system.bring("zookeeper", "tool").changed
    assert not system.bring("zookeeper", "tool", check_mode=True).changed

    foreseen = system.take_away("zookeeper", check_mode=True)
    assert (foreseen.changed, foreseen.removed) == (True, ["library", "tool"])
    assert system.installed() == {"library", "tool"}
    gone = system.take_away("zookeeper")
    assert (gone.changed, gone.removed, gone.kept) == (True, ["library", "tool"], [])
    assert system.installed() == set()
    assert not system.ledger.parent.exists()
    assert not system.take_away("zookeeper").changed


def test_accounts_that_packages_made_go_with_the_last_of_them(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[str] = []

    def change(self: Any, failure: str, *arguments: str) -> None:
        real_change(self, failure, *arguments)
        if "install" in arguments:
            for name in ("passwd", "group"):
                with (system.root / "etc" / name).open("a") as file:
                    file.write(f"{arguments[-1]}:x:100:\n")

    def delete(account: str) -> str:
        deleted.append(account)
        return "it is in use" if account == "group:other-tool" else ""

    real_change = MODULE.Apt.change
    monkeypatch.setattr(MODULE.Apt, "change", change)
    monkeypatch.setattr(MODULE, "delete_account", delete)
    system.bring("zookeeper", "tool")
    system.bring("spark", "other-tool")
    made = ["group:other-tool", "group:tool", "user:other-tool", "user:tool"]
    assert json.loads(system.ledger.read_text())["accounts"] == made
    system.take_away("zookeeper")
    assert deleted == [], "some of what came in is still there"
    gone = system.take_away("spark")
    assert deleted == [*reversed(made)], "users before their groups"
    assert gone.warnings == ["it is in use"]


def test_a_package_stays_for_as_long_as_one_of_those_that_asked_for_it_is_there(system: System) -> None:
    system.bring("zookeeper", "tool")
    again = system.bring("spark", "library", "other-tool")
    assert again.installed == ["other-tool"]
    assert system.take_away("zookeeper").removed == ["tool"]
    assert system.installed() == {"library", "other-tool"}
    assert system.take_away("spark").removed == ["library", "other-tool"]
    assert system.installed() == set()


def test_what_was_there_before_stays(system: System) -> None:
    system.apt("update")
    system.apt("install", "library")
    system.bring("zookeeper", "tool")
    assert system.take_away("zookeeper").removed == ["tool"]
    assert system.installed() == {"library"}


def test_a_dependency_that_was_there_before_is_one_again(system: System) -> None:
    system.apt("update")
    system.apt("install", "other-tool")
    done = system.bring("zookeeper", "library")
    assert (done.changed, done.installed) == (True, [])
    assert "library" not in MODULE.Apt(5).automatic()
    assert not system.bring("zookeeper", "library").changed
    assert system.take_away("zookeeper").removed == []
    assert "library" in MODULE.Apt(5).automatic()
    assert system.installed() == {"library", "other-tool"}


def test_what_somebody_else_needs_by_now_stays_and_is_left_to_apt(system: System) -> None:
    system.bring("zookeeper", "tool")
    system.apt("install", "other-tool")
    gone = system.take_away("zookeeper")
    assert (gone.removed, gone.kept) == (["tool"], ["library"])
    assert system.installed() == {"library", "other-tool"}
    assert "library" in MODULE.Apt(5).automatic()
    assert not system.ledger.exists()


def test_a_recommendation_is_no_need(system: System) -> None:
    system.apt("update")
    system.apt("install", "--no-install-recommends", "suggestive")
    system.bring("zookeeper", "tool")
    assert system.take_away("zookeeper").removed == ["library", "tool"]
    assert system.installed() == {"suggestive"}


def test_services_are_held_back_while_packages_are_installed(system: System) -> None:
    system.bring("zookeeper", "tool")
    policy = system.root.parent / "policy-then"
    assert f"kill -0 {os.getpid()}" in policy.read_text()
    assert not system.policy.exists()
    assert subprocess.run(["sh", policy], check=False).returncode == 101
    policy.write_text(policy.read_text().replace(f"kill -0 {os.getpid()}", "kill -0 999999999"))
    assert subprocess.run(["sh", policy], check=False).returncode == 0, "it means nothing when its process is gone"


def test_services_stop_when_their_packages_go(system: System) -> None:
    """Debian's prerm asks the policy before it stops one; told no, the service runs on without its files."""
    system.bring("zookeeper", "tool")
    policy = system.root.parent / "policy-then"
    policy.unlink()
    assert system.take_away("zookeeper").removed
    assert not policy.exists()


def test_a_policy_of_the_host_stays_as_it_is(system: System) -> None:
    system.policy.write_text("#!/bin/sh\nexit 0\n")
    done = system.bring("zookeeper", "tool")
    assert done.warnings == [f"{system.policy} of the host decides which services start when they are installed"]
    assert system.policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_a_host_without_the_archive_stays_as_it_is(system: System) -> None:
    shutil.rmtree(system.archive)
    with pytest.raises(MODULE.PackagesError, match=r"packages tool cannot be fetched: .*; nothing was installed"):
        system.bring("zookeeper", "tool")
    assert not system.ledger.exists()


def test_a_package_that_cannot_be_fetched_leaves_the_host_as_it_is(system: System) -> None:
    system.apt("update")
    (system.archive / "library.deb").unlink()
    with pytest.raises(MODULE.PackagesError, match="packages tool cannot be fetched"):
        system.bring("zookeeper", "tool")
    assert system.installed() == set()
    assert not system.ledger.exists()


def test_nothing_is_removed_for_an_installation(system: System) -> None:
    system.apt("update")
    system.apt("install", "hermit")
    with pytest.raises(MODULE.PackagesError, match="packages tool cannot be fetched"):
        system.bring("zookeeper", "tool")
    assert system.installed() == {"hermit"}


def test_an_installation_that_was_killed_is_in_the_ledger(system: System) -> None:
    system.bring("zookeeper", "tool")
    ledger = system.ledger.read_text()
    system.apt("purge", "tool")
    assert system.installed() == {"library"}
    system.bring("zookeeper", "tool")
    assert system.ledger.read_text() == ledger


def test_a_damaged_ledger_is_told(system: System) -> None:
    system.ledger.parent.mkdir(parents=True)
    system.ledger.write_text("{")
    with pytest.raises(MODULE.PackagesError, match="is damaged: mend it"):
        system.take_away("zookeeper")


def test_a_ledger_that_another_user_may_have_written_is_not_obeyed(tmp_path: Path) -> None:
    file = tmp_path / "provision/packages"
    MODULE.Ledger({"tool"}, set(), {"us": ["tool"]}).write(file)
    assert MODULE.Ledger.read(file).brought == {"tool"}
    file.parent.chmod(0o777)
    with pytest.raises(MODULE.PackagesError, match=f"another user may change {file.parent};"):
        MODULE.Ledger.read(file)
