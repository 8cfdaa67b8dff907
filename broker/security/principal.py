"""Principals of clients: an authenticated user, or a TLS certificate's subject by mapping rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

ANONYMOUS: Final = "ANONYMOUS"
"""The user of every client that is not authenticated."""

_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)\s*(?:,|$)|(DEFAULT)\s*(?:,|$)")
_REFERENCE: Final = re.compile(r"\$(\d+)")


class Rule(NamedTuple):
    """One `RULE:pattern/replacement/[LU]` (KIP-371); a rule without pattern leaves the name unchanged."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        result = _REFERENCE.sub(lambda reference: found[int(reference[1])] or "", self.replacement)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


DEFAULT_RULES: Final = (Rule(None),)


def parse_rules(text: str) -> Sequence[Rule]:
    """Parse mapping rules. Raises ValueError, which says what is expected."""
    rules = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(f"{text[position:]!r} is neither DEFAULT nor RULE:pattern/replacement/[L|U]")
        if found[4]:
            rules.append(Rule(None))
        else:
            rules.append(_rule(found[1], found[2], found[3]))
        position = found.end()
        while position < len(text) and text[position].isspace():
            position += 1
    return rules or DEFAULT_RULES


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a pattern: {error}") from None
    for reference in _REFERENCE.finditer(replacement):
        if int(reference[1]) > compiled.groups:
            raise ValueError(f"{replacement!r} refers to group {reference[1]}, and {pattern!r} has {compiled.groups}")
    return Rule(compiled, replacement, case)


def name_of(distinguished_name: str, rules: Sequence[Rule]) -> str | None:
    """Return the user of a certificate's subject, by the first matching rule; None when no rule matches."""
    return next((name for rule in rules if (name := rule.apply(distinguished_name)) is not None), None)
