"""Which paths a znode can have. Pure.

The rules are those of ZooKeeper's PathUtils.validatePath, and a bound of the length.
"""

from __future__ import annotations

from typing import Final

_LONGEST_PATH: Final = 2000


def path_problem(path: str) -> str:
    """Why `path` can be no znode, as a clause; empty if it can. A path that goes up could leave the chroot."""
    if not path.startswith("/"):
        return "it begins with /"
    if len(path) > _LONGEST_PATH:
        return f"it is longer than {_LONGEST_PATH:,} characters"
    if path == "/":
        return ""
    parts = path[1:].split("/")
    if "" in parts:
        return "a name in it is empty"
    if "." in parts or ".." in parts:
        return "a name in it is . or .."
    if any(not _is_allowed(character) for character in path):
        return "it has a character that ZooKeeper does not allow"
    return ""


def _is_allowed(character: str) -> bool:
    """Whether ZooKeeper's PathUtils allows the character."""
    code = ord(character)
    return not (code <= 0x1F or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or 0xFFF0 <= code <= 0xFFFF)
