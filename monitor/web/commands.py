"""The commands that a page shows to be copied: every name is quoted for a shell."""

from __future__ import annotations

from typing import NamedTuple

from highwater.monitor.command_line import broker_command


class Command(NamedTuple):
    title: str
    text: str
    note: str
    destroys: str = ""
    """What is lost for good, in a few words; such commands are the last ones of a page."""


def of_group(bootstrap: str, group: str) -> list[Command]:
    base = ("groups", "-b", bootstrap, "--reset-offsets", "--group", group, "--all-topics")
    return [
        Command("Go back by an hour", broker_command(*base, "--by-duration", "PT1H"), "By the timestamps of records."),
        Command(
            "Read everything again",
            broker_command(*base, "--to-earliest"),
            "Shows the new offsets; with --execute it sets them. The group must have no members then.",
        ),
        Command(
            "Skip to the newest record",
            broker_command(*base, "--to-latest"),
            "As above, shows first; --execute sets.",
            destroys="skips unread records",
        ),
    ]


def of_topic(bootstrap: str, topic: str) -> list[Command]:
    return [
        Command(
            "Elect the preferred leaders",
            broker_command("elect", "-b", bootstrap, "--preferred", "--topic", topic),
            "The first replica of each partition leads, if it is in sync.",
        ),
        Command(
            "Plan an even spread",
            broker_command("reassign", "-b", bootstrap, "--generate", "--topic", topic),
            "Prints a plan and moves nothing; reassign --execute starts the moves of a plan.",
        ),
        Command(
            "Change a setting",
            broker_command(
                "configs", "-b", bootstrap, "--alter", "--topic", topic, "--add-config", "retention.ms=86400000"
            ),
            "Keeps records for one day.",
            destroys="deletes older records",
        ),
    ]


def of_broker(bootstrap: str, node_id: int) -> list[Command]:
    return [
        Command(
            "Plan to empty it",
            broker_command("reassign", "-b", bootstrap, "--generate", "--without-broker", str(node_id)),
            "Prints a plan and moves nothing; reassign --execute starts the moves of a plan.",
        ),
        Command(
            "Show all of its settings",
            broker_command("configs", "-b", bootstrap, "--describe", "--broker", str(node_id), "--all"),
            "With the place that each value comes from.",
        ),
        Command(
            "Elect the preferred leaders",
            broker_command("elect", "-b", bootstrap, "--preferred", "--all-topics"),
            "After a broker came back, it leads what it led before.",
        ),
    ]
