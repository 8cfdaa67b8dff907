"""Command lines of Highwater to be copied: quoted for a shell, and looking like what they are."""

from __future__ import annotations

import shlex


def broker_command(*words: str) -> str:
    """`highwater broker WORDS`."""
    return " ".join(["highwater", "broker", *(quoted(word) for word in words)])


def quoted(word: str) -> str:
    """For bash and zsh. What a terminal would take as a command of its own is written as an escape."""
    if word.isprintable() and not any(ord(character) in _TURNS for character in word):
        return shlex.quote(word)
    return "$'" + "".join(_escaped(character) for character in word) + "'"


# Marks that turn the direction of text: on screen, the command would not be what is copied.
_TURNS = frozenset((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable() and ord(character) not in _TURNS:
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
