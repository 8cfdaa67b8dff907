"""The whole story."""

from __future__ import annotations

from typing import Final

from tests.compat.apache_kafka.answers.administration import administering
from tests.compat.apache_kafka.answers.groups import grouping, transacting
from tests.compat.apache_kafka.answers.records import fetching, looking_up, producing
from tests.compat.apache_kafka.answers.script import Ask, Script
from tests.compat.apache_kafka.answers.settings import configuring, limiting
from tests.compat.apache_kafka.answers.topics import creating, deleting, telling

CHAPTERS: Final = (
    creating,
    telling,
    producing,
    fetching,
    looking_up,
    grouping,
    transacting,
    configuring,
    administering,
    limiting,
    deleting,
)


def tell(ask: Ask) -> str:
    """As text: each request on a line, with its answer."""
    script = Script(ask)
    for chapter in CHAPTERS:
        chapter(script)
    return "\n".join(script.lines).lstrip() + "\n"
