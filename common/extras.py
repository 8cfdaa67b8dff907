"""How an extra of Highwater is installed, by where Highwater itself came from."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

_NAME: Final = "highwater"
_CLONE: Final = Path(__file__).resolve().parent.parent


def how_to_install(extra: str) -> str:
    """A command for the Python that runs. Highwater is on no package index: the command names what it came from."""
    return f"{shlex.quote(sys.executable)} -m pip install {_what(extra)}"


def _what(extra: str) -> str:
    if (_CLONE / "pyproject.toml").is_file():
        return f"-e {shlex.quote(f'{_CLONE}[{extra}]')}"
    if url := _origin():
        return shlex.quote(f"{_NAME}[{extra}] @ {url}")
    return f"'.[{extra}]' in a clone of Highwater"


def _origin() -> str | None:
    """The URL of the clone, wheel or repository that pip has installed; None if pip has not noted it."""
    try:
        noted = metadata.distribution(_NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    if not noted:
        return None
    found = json.loads(noted)
    if version := found.get("vcs_info"):
        return f"{version['vcs']}+{found['url']}@{version['commit_id']}"
    return str(found["url"])
