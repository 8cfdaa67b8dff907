"""Reports which file of an inventory's variables cannot be read; Ansible 2.19 names no file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: highwater_inventory_files
type: aggregate
short_description: Report which file of an inventory's variables cannot be read
description:
  - Ansible 2.19 names no file. This callback warns with the file, the line and the fault before the first play.
requirements:
  - beside the playbooks nothing; in the collection C(callbacks_enabled) names it
author:
  - The Highwater maintainers
"""

_FOLDERS = ("group_vars", "host_vars")
_SUFFIXES = ("", ".yml", ".yaml", ".json")
_ENCRYPTED = b"$ANSIBLE_VAULT"


class CallbackModule(CallbackBase):
    """Ansible takes it by its place beside the playbooks."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "highwater_inventory_files"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        for fault in unreadable(Path(source) for source in context.CLIARGS.get("inventory") or ()):
            self._display.warning(fault)


def unreadable(sources: Iterable[Path]) -> Iterator[str]:
    """Yield faults of the files of variables beside these inventories."""
    beside = dict.fromkeys(source if source.is_dir() else source.parent for source in sources if source.exists())
    loader = DataLoader()
    for path in sorted(path for place in beside for folder in _FOLDERS for path in (place / folder).rglob("*")):
        if not path.is_file() or path.suffix not in _SUFFIXES or path.read_bytes().startswith(_ENCRYPTED):
            continue
        try:
            loader.load_from_file(str(path))
        except AnsibleError as error:
            mark = getattr(error.__cause__, "problem_mark", None)
            line = f", line {mark.line + 1}" if mark else ""
            yield f"{path}{line}: {str(error).splitlines()[0]}"
