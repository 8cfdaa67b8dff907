"""Files of sysctl.d: our own one, and who reads later and so wins over it at boot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from .hostfiles import HostFiles

MANAGED_FILE: Final = "/etc/sysctl.d/90-highwater.conf"
HEADER: Final = "# Managed by Highwater (playbooks/tune.yml): lines are set again by its next run.\n"
# sysctl.d(5): a file in an earlier directory hides one of the same name in a later directory.
_DIRECTORIES: Final = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)


def parse_settings(text: str) -> dict[str, str]:
    """Keys in dotted form to values with single spaces; comments and what is no assignment are passed over."""
    settings: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        key = key.strip().removeprefix("-")
        if equals and key and key[0] not in "#;":
            settings[_dotted(key)] = " ".join(value.split())
    return settings


def render_settings(settings: Mapping[str, str], comments: Mapping[str, str]) -> str:
    """The text of our file: one line per key in order, with its comment where there is one."""
    lines = [HEADER]
    for key in sorted(settings):
        comment = f"# {comments[key]}\n" if key in comments else ""
        lines.append(f"{comment}{key} = {settings[key]}\n")
    return "\n".join(lines)


def later_settings(files: HostFiles) -> Iterator[tuple[str, dict[str, str]]]:
    """Files that are applied after ours at boot, with what they set."""
    own_name = MANAGED_FILE.rpartition("/")[2]
    seen: dict[str, str] = {}
    for directory in _DIRECTORIES:
        for name in files.names(directory):
            if name.endswith(".conf") and name > own_name:
                seen.setdefault(name, f"{directory}/{name}")
    for path in [*(seen[name] for name in sorted(seen)), "/etc/sysctl.conf"]:
        text = files.read(path).text
        if text:
            yield path, parse_settings(text)


def _dotted(key: str) -> str:
    """sysctl.d(5): when a slash comes first, slashes separate and dots belong to names."""
    first = next((character for character in key if character in "./"), ".")
    return key if first == "." else key.translate(str.maketrans("./", "/."))
