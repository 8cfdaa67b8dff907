"""What an action would change, and what became of it: values that pages show. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_CHANGES: Final = 500
"""The most changes of one plan: a form and its reader have bounds, and the command takes more."""
LONGEST_VALUE: Final = 4000


class ActionError(Exception):
    """Why something cannot be done, in a sentence with the way out. Nothing was changed, unless it says so."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change of one partition or one setting."""

    what: str
    before: str
    after: str
    note: str = ""
    """What somebody should know of it, such as that records are lost."""

    @property
    def is_one(self) -> bool:
        """False for what stays as it is; it is shown, and not asked for."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Plan:
    title: str
    """The title as an order: `Elect the preferred leaders of topic orders`."""
    entity: str
    """topic, group, broker or cluster."""
    name: str
    command: str
    """The command line that does the same."""
    changes: tuple[PlannedChange, ...]
    fields: Mapping[str, str]
    """The form that makes exactly this plan."""
    request: Any
    """What the action asks of the cluster; pages do not look at it."""
    kafka_command: str = ""
    """The same with the tools of Apache Kafka; empty where pages show none."""
    warnings: tuple[str, ...] = ()
    is_moving: bool = False
    """`after` moves while records come and go: what is confirmed is the goal."""

    @property
    def has_changes(self) -> bool:
        return any(change.is_one for change in self.changes)

    @property
    def digest(self) -> str:
        """What was confirmed: another state of the cluster gives another one."""
        shown = [(each.what, each.before, "" if self.is_moving else each.after) for each in self.changes]
        return hashlib.sha256(repr((self.title, self.command, shown)).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Outcome:
    what: str
    error: str = ""
    """The broker's, in words; empty if it was done."""


def text_of(form: Mapping[str, str], name: str) -> str:
    """A field without the spaces around it. Raises ActionError for one that is too long."""
    text = form.get(name, "").strip()
    if len(text) > LONGEST_VALUE:
        raise ActionError(f"The field {name} has more than {LONGEST_VALUE:,} characters: use the command.")
    return text


def numbers_of(text: str, what: str) -> list[int]:
    """`0, 1,2` as numbers without repetition. Raises ActionError."""
    found = []
    for part in text.replace(" ", ",").split(","):
        if part and not (part.isascii() and part.isdigit() and len(part) < 10):
            raise ActionError(f"{part!r} is not a number of a {what}: write them as 0,1,2.")
        if part and int(part) not in found:
            found.append(int(part))
    return found


def check_size(changes: tuple[PlannedChange, ...]) -> tuple[PlannedChange, ...]:
    if len(changes) > MOST_CHANGES:
        raise ActionError(
            f"This would be {len(changes):,} changes, and a page carries out {MOST_CHANGES:,} at most: name fewer, or "
            "use the command."
        )
    return changes
