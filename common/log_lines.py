"""Text for logs and terminals: what breaks, turns or rewrites a line is escaped."""

from __future__ import annotations

import logging
import re
from typing import Final

LONGEST_LINE: Final = 2048
"""Characters of one message."""

# C0, DEL and C1, Unicode's line and paragraph separators, and what turns the direction of text.
_BREAKING: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_LEFT_BY_JSON: Final = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    r"""The text with an escape, such as `\n`, for each character that could break or turn a line."""
    return _BREAKING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escaped_json(text: str) -> str:
    r"""JSON whose strings are the same, with `\u009b` for each character that its encoder leaves and terminals obey."""
    return _LEFT_BY_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def bounded(text: str) -> str:
    """The text, or its beginning and how much there is, so that no stranger writes pages into a log."""
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}… ({len(text):,} characters)"


def log_to_standard_error(process: str = "", level: int = logging.INFO) -> None:
    """The log of a program that runs for long: what its libraries say too."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter(f"%(asctime)s %(levelname)s {process}%(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


class OneLineFormatter(logging.Formatter):
    """A record is one bounded line, except for the traceback of an exception below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is that of logging
        record.message = bounded(one_line(record.message))
        return super().formatMessage(record)
