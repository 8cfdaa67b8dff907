"""Brings the wheels that a host lacks, in one archive."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

_PACKED = "wheels.tar"


class ActionModule(ActionBase):
    """`directory`: where they are on the controller; `dest`: where they are to be, a directory that is there."""

    TRANSFERS_FILES = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        directory, dest = Path(self._task.args["directory"]).expanduser(), str(self._task.args["dest"])
        wheels = sorted(directory.glob("*.whl"))
        if not wheels:
            raise AnsibleActionFail(f"{directory} on the controller has no wheels to bring")
        there = self._there(dest, task_vars or {})
        missing = [wheel for wheel in wheels if there.get(wheel.name) != _checksum(wheel)]
        result.update(changed=bool(missing), wheels=[wheel.name for wheel in missing])
        if missing and not self._task.check_mode:
            self._bring(missing, dest)
        return result

    def _there(self, dest: str, variables: dict[str, Any]) -> dict[str, str]:
        """Checksums by name: our own wheel is called the same in each release."""
        arguments = {"paths": [dest], "patterns": ["*.whl"], "get_checksum": True, "checksum_algorithm": "sha256"}
        found = self._execute_module("ansible.builtin.find", module_args=arguments, task_vars=variables)
        if found.get("failed"):
            raise AnsibleActionFail(f"wheels in {dest} cannot be listed: {found.get('msg')}")
        return {Path(file["path"]).name: file["checksum"] for file in found["files"]}

    def _bring(self, wheels: list[Path], dest: str) -> None:
        shell = self._connection._shell
        if shell.tmpdir is None:
            self._make_tmp_path()
        remote = shell.join_path(shell.tmpdir, _PACKED)
        with tempfile.NamedTemporaryFile(suffix=".tar") as packed:
            with tarfile.open(fileobj=packed, mode="w") as tar:
                for wheel in wheels:
                    tar.add(wheel, wheel.name, filter=_of_root)
            packed.flush()
            self._transfer_file(packed.name, remote)
        unpack = f"tar --extract --file {shell.quote(remote)} --directory {shell.quote(dest)}"
        done = self._low_level_execute_command(unpack)
        self._remove_tmp_path(shell.tmpdir)
        if done["rc"] != 0:
            raise AnsibleActionFail(f"wheels cannot be unpacked in {dest}: {done['stderr'] or done['stdout']}")


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o644
    return member


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
