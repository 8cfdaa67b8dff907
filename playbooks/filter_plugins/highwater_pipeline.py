"""Filters for the pipelines of a host: their faults, and their environment as systemd reads it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,40}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = {"name", "file", "files", "environment", "every"}
# systemd.exec(5), EnvironmentFile=: these have a meaning between double quotes.
_ESCAPED = re.compile(r'([\\"`$])')


def faults(instances: Iterable[Mapping[str, Any]]) -> list[str]:
    """`pipeline_instances | highwater_pipeline_faults`: a sentence for each fault, without any value of a variable."""
    found = []
    names = Counter(str(each.get("name", "")) for each in instances)
    for name, count in names.items():
        if not _NAME.fullmatch(name):
            found.append(f"a pipeline has the name {name!r}; names have letters, digits and '_'")
        if count > 1:
            found.append(f"{count} pipelines have the name {name}; give each its own")
    for each in instances:
        who = f"pipeline {each.get('name')}"
        if unknown := sorted(set(each) - _KEYS):
            found.append(f"{who} has the unknown key {unknown[0]}; keys are {', '.join(sorted(_KEYS))}")
        files = [str(each.get("file", "")), *map(str, each.get("files") or [])]
        missing = [path or "(none)" for path in files if not Path(path).is_file()]
        found += [f"{who} names the file {path}, which is not on the controller" for path in missing]
        beside = [Path(path).name for path in files[1:]]
        if len({*beside, "pipeline.yaml", "environment"}) < len(beside) + 2:
            found.append(f"{who} has files of one name; beside it they would be one file")
        for variable, value in (each.get("environment") or {}).items():
            if not _VARIABLE.fullmatch(str(variable)):
                found.append(f"{who} has the variable {variable!r}, which is not a name of a variable")
            elif not str(value).isprintable():
                found.append(f"{who} has a value of several lines for {variable}")
    return found


def environment_file(environment: Mapping[str, Any]) -> str:
    """`environment | highwater_environment_file`: a line for each variable, as EnvironmentFile= takes it."""
    quoted = {name: _ESCAPED.sub(r"\\\1", str(value)) for name, value in environment.items()}
    return "".join(f'{name}="{value}"\n' for name, value in sorted(quoted.items()))


class FilterModule:
    """Ansible finds the filters here."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"highwater_environment_file": environment_file, "highwater_pipeline_faults": faults}
