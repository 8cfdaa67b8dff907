"""The controller's part of the preflight: reports hosts that cannot be reached or have no Python."""

from __future__ import annotations

import re
import time
from typing import Any

from ansible.constants import config
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

_LEAST_PYTHON = (3, 11)
_ASK_VERSION = "import sys; print('python', *sys.version_info[:2])"


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        host = variables["inventory_hostname"]
        faults, answer = self._look(variables)
        result.update(
            changed=False,
            faults=[f"{host}: {fault}" for fault in faults],
            memory_bytes=answer.get("memory_bytes"),
            interpreter=answer.get("interpreter", {}),
            clock_ahead_s=answer.get("clock_ahead_s"),
        )
        return result

    def _look(self, variables: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        try:
            fault = self._fault_of_access(variables)
            return ([fault], {}) if fault else self._ask(variables)
        except AnsibleConnectionFailure as error:
            return [self._unreachable(str(error))], {}
        except AnsibleError as error:
            return [_one_line(str(error))], {}

    def _fault_of_access(self, variables: dict[str, Any]) -> str:
        """What keeps modules from being run there as root, if anything."""
        told = self._templar.template(variables.get("ansible_python_interpreter"))
        wanted = told or config.get_config_value("INTERPRETER_PYTHON", variables=variables)
        named = not str(wanted).startswith("auto")
        known = [wanted] if named else config.get_config_value("INTERPRETER_PYTHON_FALLBACK", variables=variables)
        interpreters = " ".join(self._connection._shell.quote(str(each)) for each in known)
        probe = (
            f'id -u; for python in {interpreters}; do "$python" -c "{_ASK_VERSION}" 2>/dev/null && break; done; true'
        )
        done = self._low_level_execute_command(probe)
        user, *answers = [line for line in done["stdout"].splitlines() if line.strip()] or [""]
        if done["rc"] != 0 or not user.isdecimal():
            said = _one_line(done["stderr"] or done["stdout"]) or f"exit status {done['rc']}"
            return (
                f"no command can be run there as root ({said}); let {self._user()} use sudo, or give --ask-become-pass"
            )
        if user != "0":
            return f"commands run there as user {user} and not as root; set ansible_become: true"
        version = tuple(int(number) for number in answers[-1].split()[1:3]) if answers else ()
        if version >= _LEAST_PYTHON:
            return ""
        found = version and f"Python {'.'.join(map(str, version))}"
        if named:
            return f"ansible_python_interpreter {wanted} is {found or 'not a Python'}; set it to a Python 3.11 or newer"
        way_out = "install Python 3.11 or newer (apt-get install python3), or set ansible_python_interpreter"
        return f"has {found or 'no Python'}; {way_out}"

    def _ask(self, variables: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        began_s = time.time()
        answer = self._execute_module(module_args=dict(self._task.args), task_vars=variables)
        ended_s = time.time()
        if "faults" not in answer:
            return [_one_line(str(answer.get("msg", "the host gave no answer")))], {}
        faults = list(answer["faults"])
        # The host read its clock somewhere in between.
        time_s = answer["time_s"]
        answer["clock_ahead_s"] = min(time_s - began_s, 0.0) or max(time_s - ended_s, 0.0)
        storage = self._task.args.get("storage") or {}
        if _are_disks(storage.get("disks")) and "disks" not in self._task.args.get("skip", []):
            judged = self._execute_module("highwater_storage", module_args=dict(storage), task_vars=variables)
            needed = judged.get("permissions", []) if self._task.args.get("permissions_needed", True) else []
            said = judged.get("faults", [judged.get("msg", "")] if judged.get("failed") else [])
            # What the module's own arguments do not take is reported once, with the variable that it comes from.
            faults += [_one_line(str(fault)) for fault in (*said, *needed) if not fault.endswith(" found in disks")]
        return faults, answer

    def _unreachable(self, said: str) -> str:
        address, port = self._option("host"), self._option("port")
        at_port = f" -p {port}" if port else ""
        reason = _one_line(said.rpartition("via ssh:")[2] or said)
        return (
            f"cannot be reached as {self._user()} at {address} port {port or 22} ({reason}); "
            f"try: ssh{at_port} {self._user()}@{address}"
        )

    def _user(self) -> str:
        return str(self._option("remote_user") or "the present user")

    def _option(self, name: str) -> Any:
        try:
            return self._connection.get_option(name)
        except KeyError:
            return None


def _are_disks(value: Any) -> bool:
    """Return whether there are any; what is of another type is reported once, as a fault of the variable."""
    return isinstance(value, list) and value != [] and all(isinstance(disk, dict) for disk in value)


def _one_line(text: str) -> str:
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
