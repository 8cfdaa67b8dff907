"""How an extra of Highwater is installed, by where Highwater itself came from."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from .distribution import NAME

_CLONE: Final = Path(__file__).resolve().parent.parent


def how_to_install(extra: str = "") -> str:
    """A command for the Python that runs. It names what Highwater came from, so that the version stays as it is."""
    what = _what(f"[{extra}]" if extra else "")
    if find_spec("pip") is None:  # a package of Debian, an image
        return f"python3 -m venv highwater && highwater/bin/pip install {what}"
    return f"{shlex.quote(sys.executable)} -m pip install {what}"


def _what(extras: str) -> str:
    if (_CLONE / "pyproject.toml").is_file():
        return f"-e {shlex.quote(f'{_CLONE}{extras}')}"
    try:
        installed = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        return f"'.{extras}' in a clone of Highwater"
    noted = installed.read_text("direct_url.json")
    # An index has no such note.
    wanted = f"{NAME}{extras} @ {_url(json.loads(noted))}" if noted else f"{NAME}{extras}=={installed.version}"
    return shlex.quote(wanted)


def _url(found: dict[str, Any]) -> str:
    """The clone, wheel or repository that pip has installed, as pip takes it again."""
    if version := found.get("vcs_info"):
        return f"{version['vcs']}+{found['url']}@{version['commit_id']}"
    return str(found["url"])
