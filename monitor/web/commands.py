"""The commands that a page shows to be copied: every name is quoted for a shell."""

from __future__ import annotations

import shlex
from typing import NamedTuple


class Command(NamedTuple):
    title: str
    text: str
    note: str


def of_group(bootstrap: str, group: str) -> list[Command]:
    base = ("groups", "-b", bootstrap, "--reset-offsets", "--group", group, "--all-topics")
    return [
        Command(
            "Read everything again",
            _broker(*base, "--to-earliest"),
            "Shows the new offsets; with --execute it sets them. The group must have no members then.",
        ),
        Command("Skip to the newest record", _broker(*base, "--to-latest"), "What was not read is left out."),
        Command("Go back by an hour", _broker(*base, "--by-duration", "PT1H"), "By the time of the records."),
    ]


def of_topic(bootstrap: str, topic: str) -> list[Command]:
    return [
        Command(
            "Elect the preferred leaders",
            _broker("elect", "-b", bootstrap, "--preferred", "--topic", topic),
            "The first replica of each partition leads, if it is in sync.",
        ),
        Command(
            "Plan an even spread",
            _broker("reassign", "-b", bootstrap, "--generate", "--topic", topic),
            "Prints a plan and moves nothing; reassign --execute starts the moves of a plan.",
        ),
        Command(
            "Change a setting",
            _broker("configs", "-b", bootstrap, "--alter", "--topic", topic, "--add-config", "retention.ms=86400000"),
            "Keeps records for one day.",
        ),
    ]


def of_broker(bootstrap: str, node_id: int) -> list[Command]:
    return [
        Command(
            "Plan to empty it",
            _broker("reassign", "-b", bootstrap, "--generate", "--without-broker", str(node_id)),
            "Prints a plan and moves nothing; reassign --execute starts the moves of a plan.",
        ),
        Command(
            "Show all of its settings",
            _broker("configs", "-b", bootstrap, "--describe", "--broker", str(node_id), "--all"),
            "With the place that each value comes from.",
        ),
        Command(
            "Elect the preferred leaders",
            _broker("elect", "-b", bootstrap, "--preferred", "--all-topics"),
            "After a broker came back, it leads what it led before.",
        ),
    ]


def _broker(*words: str) -> str:
    return " ".join(["highwater", "broker", *(_quoted(word) for word in words)])


def _quoted(word: str) -> str:
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
