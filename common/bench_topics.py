"""Names of the topics that the bench makes for a trial, by which a monitor recognises the trial."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PREFIX: Final = "highwater-"
_NAME: Final = re.compile(r"(highwater-[0-9a-f]{8}-\d+-\d+)(?:-\d+)?")
TOKEN_BYTES: Final = 4


def topic_names(token: str, block: int, order_in_block: int, count: int) -> tuple[str, ...]:
    """`token`: TOKEN_BYTES random bytes in hexadecimal, so that no trial meets the topics of another one."""
    trial = f"{_PREFIX}{token}-{block}-{order_in_block}"
    return (trial,) if count == 1 else tuple(f"{trial}-{number}" for number in range(count))


def trial_of(topic: str) -> str | None:
    """Return what the topics of a trial have in common; None for a topic that is not of a trial."""
    found = _NAME.fullmatch(topic) if topic.startswith(_PREFIX) else None
    return found[1] if found else None


def trials_in(topics: Iterable[str]) -> set[str]:
    return {trial for topic in topics if (trial := trial_of(topic)) is not None}
