"""Commands that pages show can be pasted into a shell, whatever a name contains."""

from __future__ import annotations

import subprocess

import pytest

from highwater.monitor.web import commands
from tests.monitor.clusters import HOSTILE_NAMES

NASTY = (
    "$(touch /tmp/owned)", "`id`", "a'b", 'a"b', "a\\", "!!", "~", "-x", "a\nb", "\u202egnp", "\x1b[2J", "a;b|c&d",
    "\\x41", "\u2066x", "",
)  # fmt: skip


@pytest.mark.parametrize("name", [*HOSTILE_NAMES, *NASTY])
def test_a_shell_reads_the_name_as_it_is(name: str) -> None:
    for command in (*commands.of_group("b:1", name), *commands.of_topic("b:1", name)):
        script = command.text.replace("highwater broker", "printf '%s\\0'", 1)
        words = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")
        assert name in words
        assert command.text.isprintable()
        assert not any(0x202A <= ord(character) <= 0x202E for character in command.text)


def test_what_destroys_comes_last_and_is_marked() -> None:
    for listed in (commands.of_group("b:1", "g"), commands.of_topic("b:1", "t"), commands.of_broker("b:1", 1)):
        marked = [bool(command.destroys) for command in listed]
        assert marked == sorted(marked)
    assert commands.of_group("b:1", "g")[-1].destroys == "skips unread records"


def test_commands_say_what_they_do_without_doing_it_at_once() -> None:
    text = " ".join(command.text for command in commands.of_group("b:1", "g"))
    assert "--execute" not in text
    assert "--reset-offsets" in text
