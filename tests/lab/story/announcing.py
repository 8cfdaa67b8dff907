"""What check mode said, held against what was then done: each change of each host, by the task that made it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_Change = tuple[str, str]
"""Host and task."""

_SAYS: Final = "Show in check mode what would start"
# In check mode nothing is started; a task of its own says what would be, and these do it.
_STARTS: Final = {
    "zookeeper": ("Start those that may start together", "Start or restart the member"),
    "broker": ("Restart it, and wait until it is ready",),
    "reference_kafka": ("Start the brokers that do not run", "Restart the broker"),
    "spark": ("Start or restart the service",),
}
# What check mode cannot look at, as it belongs to what is not there yet; and the change by which that was announced.
_FOLLOWS: Final = {
    "broker : Make the users and their ACLs": f"broker : {_SAYS}",
    "package : Copy the missing wheels": "package : Install the release",
    "reference_kafka : Create its directory": "reference_kafka : Move the release into place",
    "reference_kafka : Unpack": "reference_kafka : Move the release into place",
    "reference_kafka : Start the brokers at boot": "reference_kafka : Write the unit",
    "spark : Create the user": "spark : Create the group",
    "spark : Create the working directory": "spark : Create the group",
    "spark : Write the configuration": "spark : Create the group",
    "spark : Load the units and enable them at boot": "spark : Write the units",
    "zookeeper : Load the unit and enable it at boot": "zookeeper : Write the unit",
}
# Announced by whoever needs it, and done by the first of them.
_DONE_BEFORE: Final = {
    "broker : Create the directory for configuration": "zookeeper : Create the directories of the configuration",
}


def not_announced(announced: Collection[_Change], done: Collection[_Change]) -> list[_Change]:
    """Changes that nobody could expect."""
    return sorted(
        (host, task) for host, task in done if not any((host, said) in announced for said in _announcements(task))
    )


def not_done(announced: Collection[_Change], done: Collection[_Change]) -> list[_Change]:
    """Changes that were said to come, and did not."""
    return sorted(
        (host, task) for host, task in announced if not any((host, did) in done for did in _fulfilments(task))
    )


def _announcements(task: str) -> list[str]:
    role, _, name = task.partition(" : ")
    says = [f"{role} : {_SAYS}"] if name in _STARTS.get(role, ()) else []
    return [task, *says, *([_FOLLOWS[task]] if task in _FOLLOWS else [])]


def _fulfilments(task: str) -> list[str]:
    role, _, name = task.partition(" : ")
    if name == _SAYS:
        return [f"{role} : {start}" for start in _STARTS[role]]
    return [task, *([_DONE_BEFORE[task]] if task in _DONE_BEFORE else [])]
