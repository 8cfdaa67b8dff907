#!/usr/bin/python
"""Debian packages with a ledger, so that exactly what was installed can be removed again."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.highwater.tuning.hostfiles import HostFiles

DOCUMENTATION = r"""
module: highwater_packages
short_description: Debian packages with a ledger of what came in
description:
  - Everything is fetched before anything is unpacked, so that a host without network stays as it is.
  - Every package that an installation brings, dependencies too, is in a ledger first. With O(state=absent) those go
    that nobody else asked for and nothing else on the host depends on.
  - Users and groups that the packages made are in it too, and go when the last of what came in has gone. Debian leaves
    them, so that nobody else gets their number and with it their files; the packages and their files are gone by then.
  - Services do not start with Debian's configuration while they are installed.
  - Needs nothing but apt itself on the host, in check mode too.
options:
  state:
    description: V(absent) takes away what came for O(owner) and is not needed any more.
    type: str
    choices: [present, absent]
    default: present
  names:
    description: The packages, with O(state=present).
    type: list
    elements: str
    default: []
  owner:
    description: On whose behalf. A package stays for as long as one of those that asked for it is there.
    type: str
    required: true
  cache_valid_seconds:
    description: For how long apt's lists count as fresh. They are fetched only when something is missing.
    type: int
    default: 3600
  lock_timeout_seconds:
    description: How long to wait for another apt or dpkg.
    type: int
    default: 120
  ledger:
    description: The file that keeps what came in.
    type: path
    default: /var/lib/highwater/provision/packages
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    platforms: posix
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Install a Java runtime
  highwater_packages:
    names: [openjdk-17-jre-headless]
    owner: zookeeper

- name: Take it away again
  highwater_packages:
    state: absent
    owner: zookeeper
"""

RETURN = r"""
installed:
  description: Packages that came in, or would come in.
  returned: O(state=present)
  type: list
  elements: str
upgraded:
  description: Packages that were there in an older version, which the way back does not bring back.
  returned: O(state=present)
  type: list
  elements: str
removed:
  description: Packages that went, or would go.
  returned: O(state=absent)
  type: list
  elements: str
kept:
  description: Packages that came in and stay, because something else needs them by now.
  returned: O(state=absent)
  type: list
  elements: str
"""

POLICY: Final = Path("/usr/sbin/policy-rc.d")
EXTENDED_STATES: Final = Path("/var/lib/apt/extended_states")
DPKG_UPDATES: Final = Path("/var/lib/dpkg/updates")
LISTS: Final = (Path("/var/lib/apt/lists"), Path("/var/lib/apt/lists/partial"))
ACCOUNTS: Final = {"user": Path("/etc/passwd"), "group": Path("/etc/group")}
_MARK_OF_OURS: Final = "# Written by highwater_packages"
_POLICY_TEXT: Final = """#!/bin/sh
{mark}: while process {pid} installs packages, their services do not start with Debian's
# configuration. When it is gone this file means nothing.
kill -0 {pid} 2>/dev/null || exit 0
exit 101
"""
_ENVIRONMENT: Final = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBIAN_PRIORITY": "critical",
    "LC_ALL": "C.UTF-8",
    "NEEDRESTART_SUSPEND": "1",
}
_OPTIONS: Final = ("-q", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0")
_KEEP_FILES: Final = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
# What is only recommended or suggested is no reason to stay.
_NEEDED_ALONE: Final = (
    *("-o", "APT::AutoRemove::RecommendsImportant=false"),
    *("-o", "APT::AutoRemove::SuggestsImportant=false"),
)


class PackagesError(Exception):
    """One line for whoever runs the play."""


@dataclass
class Ledger:
    """brought: packages that were not there before. made_manual: those that were, as dependencies of others, until
    somebody of ours asked for them by name. wanted_by: owner -> names. accounts: what the packages made, as `accounts`
    has them."""

    brought: set[str] = field(default_factory=set)
    made_manual: set[str] = field(default_factory=set)
    wanted_by: dict[str, list[str]] = field(default_factory=dict)
    accounts: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, file: Path) -> Ledger:
        if part := HostFiles().writable_by_others(str(file.absolute())):
            raise PackagesError(
                f"{file} is not obeyed, as another user may change {part}; chown root {part} after a look"
            )
        try:
            text = file.read_text("utf-8")
        except FileNotFoundError:
            return cls()
        try:
            data = json.loads(text)
            wanted_by, made = dict(data["wanted_by"]), set(data.get("accounts", []))
            return cls(set(data["brought"]), set(data["made_manual"]), wanted_by, made)
        except (ValueError, KeyError, TypeError):
            raise PackagesError(f"{file} is damaged: mend it, or remove it and keep the packages") from None

    def of_what_is_there(self, installed: Collection[str]) -> Ledger:
        """Without packages that somebody else has removed meanwhile."""
        there = set(installed)
        return Ledger(self.brought & there, self.made_manual & there, dict(self.wanted_by), set(self.accounts))

    def write(self, file: Path) -> None:
        """Durable before it returns: what comes next is the installation."""
        data = {
            "brought": sorted(self.brought),
            "made_manual": sorted(self.made_manual),
            "wanted_by": {owner: sorted(names) for owner, names in sorted(self.wanted_by.items())},
            "accounts": sorted(self.accounts),
        }
        HostFiles().replace_file(str(file.absolute()), json.dumps(data, indent=1) + "\n", 0o644)

    def remove(self, file: Path) -> None:
        file.unlink(missing_ok=True)
        for folder in (file.parent, file.parent.parent):
            HostFiles().remove_folder_if_empty(str(folder.absolute()))


@dataclass
class Outcome:
    changed: bool = False
    installed: list[str] = field(default_factory=list)
    upgraded: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, **_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The first thing that apt or dpkg calls an error."""
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    said = next((line for line in lines if line.startswith(("E:", "Err:", "dpkg: error"))), lines[-1] if lines else "")
    return said.removeprefix("E: ") or f"exit code {done.returncode}"


@dataclass(frozen=True)
class Apt:
    lock_timeout_seconds: int

    def installed(self) -> dict[str, str]:
        """Version by name of what is there whole."""
        done = run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"])
        if done.returncode != 0:
            raise PackagesError(f"the packages of this host cannot be listed: {complaint(done)}")
        rows = (line.split(" ") for line in done.stdout.splitlines())
        return {name: version for status, name, version in rows if status == "installed"}

    def automatic(self) -> set[str]:
        """What is there only because something else needs it."""
        return set(run(["apt-mark", "showauto"]).stdout.split())

    def mark(self, mark: str, names: list[str]) -> None:
        """mark: auto or manual."""
        if names:
            self._well(["apt-mark", mark, *names], f"{' '.join(names)} cannot be marked {mark}")

    def update(self) -> str:
        """What kept apt's lists from being fetched, or nothing. Another apt at work on them is waited for."""
        deadline = time.monotonic() + self.lock_timeout_seconds
        while True:
            done = run(["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"])
            if done.returncode == 0:
                return ""
            if "Could not get lock" not in done.stderr or time.monotonic() > deadline:
                return complaint(done)
            time.sleep(1)

    def simulate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(["apt-get", "-s", *_OPTIONS, *arguments])

    def change(self, failure: str, *arguments: str) -> None:
        lock = ("-o", f"DPkg::Lock::Timeout={self.lock_timeout_seconds}")
        self._well(["apt-get", *_OPTIONS, *_KEEP_FILES, *lock, *arguments], failure)

    def finish_interrupted(self) -> None:
        """What a killed dpkg left half done."""
        if DPKG_UPDATES.is_dir() and any(DPKG_UPDATES.iterdir()):
            self._well(["dpkg", "--configure", "-a"], "an interrupted installation cannot be finished")

    def _well(self, command: list[str], failure: str) -> None:
        done = run(command)
        if done.returncode != 0:
            raise PackagesError(f"{failure}: {complaint(done)}")


@contextmanager
def services_held_back() -> Iterator[list[str]]:
    """Warnings. A policy of the host's own is left as it is."""
    if POLICY.exists() and _MARK_OF_OURS not in POLICY.read_text("utf-8", "replace"):
        yield [f"{POLICY} of the host decides which services start when they are installed"]
        return
    POLICY.write_text(_POLICY_TEXT.format(mark=_MARK_OF_OURS, pid=os.getpid()), "utf-8")
    POLICY.chmod(0o755)
    try:
        yield []
    finally:
        POLICY.unlink(missing_ok=True)


def stale(cache_valid_seconds: int) -> bool:
    fetched = max((path.stat().st_mtime for path in LISTS if path.exists()), default=0.0)
    return time.time() - fetched > cache_valid_seconds


def bring(
    apt: Apt, names: list[str], owner: str, ledger_file: Path, cache_valid_seconds: int, *, check_mode: bool
) -> Outcome:
    ledger = Ledger.read(ledger_file)
    before = apt.installed()
    missing = [name for name in names if name not in before]
    to_mark = sorted(apt.automatic() & set(names)) if len(missing) < len(names) else []
    outcome = Outcome(changed=bool(missing or to_mark), installed=missing)
    if check_mode:
        if missing:
            _foresee(apt.simulate("--no-remove", "install", *missing), outcome)
        return outcome
    known = ledger.of_what_is_there(before)
    known.wanted_by[owner] = sorted(set(names))
    if missing:
        apt.finish_interrupted()
        unreachable = apt.update() if stale(cache_valid_seconds) else ""
        simulated = apt.simulate("--no-remove", "install", *missing)
        if simulated.returncode != 0 and not unreachable:
            unreachable = apt.update()
            simulated = apt.simulate("--no-remove", "install", *missing)
        if simulated.returncode != 0:
            raise PackagesError(_not_to_be_had(missing, unreachable or complaint(simulated)))
        _foresee(simulated, outcome)
        fetched = run(["apt-get", *_OPTIONS, "--no-remove", "--download-only", "install", *missing])
        if fetched.returncode != 0:
            raise PackagesError(_not_to_be_had(missing, complaint(fetched)))
        known.brought |= set(outcome.installed)
    known.made_manual |= set(to_mark) - known.brought
    if known != ledger:
        known.write(ledger_file)
    if missing:
        there = accounts()
        try:
            with services_held_back() as warnings:
                outcome.warnings += warnings
                apt.change(f"{' '.join(missing)} cannot be installed", "--no-remove", "install", *missing)
        finally:
            if made := accounts() - there:
                known.accounts |= made
                known.write(ledger_file)
    apt.mark("manual", to_mark)
    return outcome


def accounts() -> set[str]:
    """Users and groups of the host itself, as `user:NAME` and `group:NAME`."""
    return {
        f"{kind}:{line.partition(':')[0]}"
        for kind, file in ACCOUNTS.items()
        for line in file.read_text("utf-8").splitlines()
        if line
    }


def _delete_accounts(made: Collection[str]) -> list[str]:
    """Users first, as their groups cannot go before. Warnings of those that are in use and stay."""
    return [warning for account in sorted(made, reverse=True) if (warning := delete_account(account))]


def delete_account(account: str) -> str:
    """Why it stays; nothing when it is gone."""
    kind, _, name = account.partition(":")
    done = run([f"{kind}del", name])
    return f"{kind} {name}, made by a package, stays: {complaint(done)}" if done.returncode else ""


def _foresee(simulated: subprocess.CompletedProcess[str], outcome: Outcome) -> None:
    """A bare host's apt may know of no package yet; then the names themselves are all that can be said."""
    if simulated.returncode == 0:
        found = re.findall(r"^Inst (\S+)( \[[^\]]*\])?", simulated.stdout, re.MULTILINE)
        outcome.installed = sorted(name.partition(":")[0] for name, older in found if not older)
        outcome.upgraded = sorted(name.partition(":")[0] for name, older in found if older)


def _not_to_be_had(names: list[str], reason: str) -> str:
    return (
        f"packages {', '.join(names)} cannot be fetched: {reason}; check /etc/apt/sources.list, the network and apt's "
        "proxy (Acquire::http::Proxy) of this host; nothing was installed"
    )


def take_away(apt: Apt, owner: str, ledger_file: Path, *, check_mode: bool) -> Outcome:
    ledger = Ledger.read(ledger_file)
    if owner not in ledger.wanted_by:
        return Outcome()
    before = apt.installed()
    left = ledger.of_what_is_there(before)
    wanted = set(left.wanted_by.pop(owner))
    still_wanted = {name for names in left.wanted_by.values() for name in names}
    released = sorted((wanted - still_wanted) & (left.brought | left.made_manual))
    removable = _needed_by_nobody(apt, released, left.brought)
    outcome = Outcome(changed=True, removed=removable)
    if not left.wanted_by:
        outcome.kept = sorted(left.brought - set(removable))
    if check_mode:
        return outcome
    apt.finish_interrupted()
    apt.mark("auto", released)
    if removable:
        # With services free to stop: one that ran on would keep its user, and go on without its files.
        apt.change(f"{' '.join(removable)} cannot be removed", "purge", *removable)
    left.brought -= set(removable)
    left.made_manual -= set(released)
    if not left.brought:
        outcome.warnings += _delete_accounts(left.accounts & accounts())
        left.accounts = set()
    if left.wanted_by:
        left.write(ledger_file)
    else:
        left.remove(ledger_file)
    return outcome


def _needed_by_nobody(apt: Apt, released: list[str], brought: set[str]) -> list[str]:
    """Return what we brought that apt would call superfluous if the released names were mere dependencies."""
    with tempfile.TemporaryDirectory() as directory:
        states = Path(directory) / "extended_states"
        if EXTENDED_STATES.exists():
            shutil.copy(EXTENDED_STATES, states)
        supposed = ("-o", f"Dir::State::extended_states={states}")
        if released:
            run(["apt-mark", *supposed, "auto", *released])
        simulated = apt.simulate(*supposed, *_NEEDED_ALONE, "autoremove")
    if simulated.returncode != 0:
        raise PackagesError(f"what can be removed cannot be found out: {complaint(simulated)}")
    removable = _removals(simulated) & brought
    # Whatever would go along with them and is not ours stays, and so does what it needs.
    while removable and (foreign := _removals(apt.simulate("purge", *sorted(removable))) - removable):
        needed = {name for name in removable if _removals(apt.simulate("purge", name)) & foreign}
        removable -= needed or removable
    return sorted(removable)


def _removals(simulated: subprocess.CompletedProcess[str]) -> set[str]:
    found = re.findall(r"^(?:Remv|Purg) (\S+)", simulated.stdout, re.MULTILINE)
    return {name.partition(":")[0] for name in found}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "names": {"type": "list", "elements": "str", "default": []},
            "owner": {"type": "str", "required": True},
            "cache_valid_seconds": {"type": "int", "default": 3600},
            "lock_timeout_seconds": {"type": "int", "default": 120},
            "ledger": {"type": "path", "default": "/var/lib/highwater/provision/packages"},
        },
        supports_check_mode=True,
    )
    arguments = module.params
    ledger = Path(arguments["ledger"])
    try:
        if shutil.which("apt-get") is None:
            raise PackagesError("this host has no apt-get: packages are installed on Debian and its kin alone")
        if os.geteuid() != 0 and not module.check_mode:
            raise PackagesError("installing and removing packages needs root; set become: true")
        apt = Apt(arguments["lock_timeout_seconds"])
        if arguments["state"] == "present":
            outcome = bring(
                apt,
                arguments["names"],
                arguments["owner"],
                ledger,
                arguments["cache_valid_seconds"],
                check_mode=module.check_mode,
            )
        else:
            outcome = take_away(apt, arguments["owner"], ledger, check_mode=module.check_mode)
    except (PackagesError, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in outcome.warnings:
        module.warn(warning)
    module.exit_json(**result_of(outcome))


def result_of(outcome: Outcome) -> dict[str, Any]:
    before = [*outcome.removed, *outcome.upgraded]
    after = [*outcome.installed, *(f"{name} (newer)" for name in outcome.upgraded)]
    return {
        "changed": outcome.changed,
        "installed": outcome.installed,
        "upgraded": outcome.upgraded,
        "removed": outcome.removed,
        "kept": outcome.kept,
        "diff": {
            "before_header": "packages",
            "after_header": "packages",
            "before": "".join(f"{line}\n" for line in before),
            "after": "".join(f"{line}\n" for line in after),
        },
    }


if __name__ == "__main__":
    main()
