"""Regular expressions that clients send, in RE2's syntax: whole names match in linear time.

Kafka 4.4 asks RE2/J. This is RE2 itself, whose pages say where the two differ: https://github.com/google/re2j.
"""

from __future__ import annotations

from typing import Final

# A pattern that compiles to more is none: clients choose it, and a broker has one memory for all.
_MOST_BYTES: Final = 1 << 20


class PatternError(ValueError):
    """The text is no pattern, or one that takes too much memory."""


class Pattern:
    """A pattern, compiled once. Raises PatternError."""

    def __init__(self, text: str) -> None:
        # Few clients send one, and an import here keeps the start of a broker short.
        import re2

        options = re2.Options()
        options.max_mem = _MOST_BYTES
        options.log_errors = False
        try:
            self._compiled = re2.compile(text, options)
        except (re2.error, UnicodeEncodeError) as problem:
            reason = problem.args[0] if isinstance(problem, re2.error) else "it is not UTF-8"
            raise PatternError(reason.decode(errors="replace") if isinstance(reason, bytes) else reason) from None

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches all of `name`."""
        return self._compiled.fullmatch(name) is not None
